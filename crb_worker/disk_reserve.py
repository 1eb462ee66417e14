"""Reviews pause before the disk is full: that would fail agents for the farm's fault, and the store with them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import ByteSize

from crb_core.evidence import evidence_folder
from crb_core.settings import Settings

__all__ = ["RESUME_FACTOR", "DiskReserve", "disk_folders"]

#: Where the engine of most machines keeps images and what containers write; another place is not known here.
_ENGINE_FOLDER = Path("/var/lib/docker")

#: Reviews go on once this many times the reserve is free, so that they do not stop and go with every container.
RESUME_FACTOR = 1.25


class DiskReserve:
    """Says why no review may start: one of ``folders`` has less than ``reserve`` bytes free. 0 never pauses."""

    def __init__(
        self,
        folders: Iterable[Path],
        reserve: int,
        *,
        free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._reserve = reserve
        self._free_bytes = free_bytes
        self._is_low = False

    def reason(self) -> str | None:
        """Why reviews pause, for people; None while there is room. Folders that cannot be asked are passed over."""
        wanted = self._reserve * (RESUME_FACTOR if self._is_low else 1)
        low = []
        for folder in self._folders:
            try:
                free = self._free_bytes(folder)
            except OSError:
                continue
            if free < wanted:
                low.append((free, folder))
        self._is_low = bool(low)
        if not low:
            return None
        free, folder = min(low)
        return (
            f"The disk of {folder} has {_shown(free)} free, and {_shown(self._reserve)} are kept in reserve; "
            "make room (`crb gc`), or set CRB_DISK_RESERVE"
        )


def disk_folders(settings: Settings) -> list[Path]:
    """Folders of this machine that a worker and its containers write to, the nearest that exist of each."""
    wanted = [settings.home_folder, _ENGINE_FOLDER]
    evidence = evidence_folder(settings.resolved_evidence_url)
    if evidence is not None:
        wanted.append(evidence.absolute())
    scheme, _, rest = settings.resolved_store_url.partition("://")
    if scheme == "sqlite":
        wanted.append(Path(f"/{rest.lstrip('/')}").parent)
    return [next(folder for folder in (path, *path.parents) if folder.exists()) for path in wanted]


def _shown(size: int) -> str:
    return ByteSize(size).human_readable(separator=" ")
