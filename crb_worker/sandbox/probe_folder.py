"""The folder of a probe of the engine, and whether the process that made it still lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from crb_worker.sandbox.folder import remove_tree

__all__ = ["PROBE_LABEL", "ProbeFolder", "dead_probes"]

#: Label of the container and the volume of a probe, with its id.
PROBE_LABEL = "crb.probe"
_PREFIX = "probe-"


class ProbeFolder:
    """A folder in the workspace that is locked as long as its process lives, however that ends."""

    def __init__(self, workspace: Path) -> None:
        """Make it. OSError where the workspace cannot be written."""
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.id = uuid.uuid4().hex
        self.path = workspace / f"{_PREFIX}{self.id}"
        while True:
            self.path.mkdir(mode=0o700, exist_ok=True)
            # A reaper may take the new folder for a dead one before it is locked.
            with contextlib.suppress(FileNotFoundError):
                self._file = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(self._file, fcntl.LOCK_EX)
                if self.path.exists() and os.path.samestat(os.fstat(self._file), self.path.stat()):
                    return
                os.close(self._file)

    def close(self, *, remove: bool) -> None:
        """Give it up; what is not removed is a dead probe's."""
        if remove:
            remove_tree(self.path)
        os.close(self._file)


def dead_probes(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Id and folder of each probe whose process is gone; nobody else gets the same ones meanwhile."""
    if not workspace.is_dir():
        return
    for path in sorted(workspace.glob(f"{_PREFIX}*")):
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path.name.removeprefix(_PREFIX), path
        finally:
            os.close(file)
