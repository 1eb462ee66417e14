"""The folder that a site is written into: it appears once it is whole, and only where nothing was."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crb_core.errors import InputError, Where
from crb_web.site.manifest import MANIFEST, manifest_bytes

__all__ = ["SiteFolder", "site_folder"]

_FILE_MODE, _FOLDER_MODE = 0o644, 0o755


class SiteFolder:
    """Files of a site while it is made. ``scratch`` is a folder beside them that goes away."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self.scratch = scratch
        self.files: dict[str, tuple[int, str]] = {}

    def add(self, path: str, data: bytes) -> None:
        """Write one file under a name of our own making."""
        if path in self.files:
            raise ValueError(f"{path} is written twice")
        place = self._root / path
        for folder in reversed(place.relative_to(self._root).parents[:-1]):
            if not (self._root / folder).is_dir():
                (self._root / folder).mkdir()
                (self._root / folder).chmod(_FOLDER_MODE)
        place.write_bytes(data)
        place.chmod(_FILE_MODE)
        self.files[path] = (len(data), hashlib.sha256(data).hexdigest())

    def add_by_content(self, folder: str, suffix: str, data: bytes) -> str:
        """Write a file that its own SHA-256 names, once for the same content; returns its path."""
        digest = hashlib.sha256(data).hexdigest()
        path = f"{folder}/{digest[:2]}/{digest}.{suffix}"
        if path not in self.files:
            self.add(path, data)
        return path


@contextmanager
def site_folder(target: Path) -> Iterator[SiteFolder]:
    """A folder to fill, which takes the place of ``target`` with its manifest at the end, or leaves nothing at all.

    InputError where ``target`` is there and not an empty folder, or cannot be written.
    """
    taken = InputError(
        "there is something already",
        where=Where(file=str(target)),
        remedy="Name a new or an empty folder; a site is never written over another one",
    )
    # The rename would also take the place of what a link names.
    if target.is_symlink() or (target.exists() and not target.is_dir()) or (target.is_dir() and any(target.iterdir())):
        raise taken
    working: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the rename stays inside one file system.
        working = Path(tempfile.mkdtemp(dir=target.parent, prefix=".crb-site-"))
        root = working / "site"
        root.mkdir()
        root.chmod(_FOLDER_MODE)
        folder = SiteFolder(root, working)
        yield folder
        folder.add(MANIFEST, manifest_bytes(folder.files))
        try:
            # Takes the place of an empty folder only.
            root.rename(target)
        except OSError:
            raise taken from None
    except OSError as error:
        raise InputError(
            f"the site cannot be written: {error.strerror}",
            where=Where(file=str(target)),
            remedy="Free space or name a folder in a place that is writable",
        ) from None
    finally:
        if working is not None:
            shutil.rmtree(working, ignore_errors=True)
