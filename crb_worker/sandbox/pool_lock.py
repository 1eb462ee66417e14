"""Whose a pooled network or proxy is, and whether that process still lives."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path

from crb_worker.sandbox.contract import FARM_LABEL, WORKSPACE_LABEL

__all__ = ["POOL_LABEL", "PoolLock", "dead_pool_files", "pool_is_live"]

#: Label of what belongs to a process rather than to an attempt.
POOL_LABEL = "crb.pool"
_PREFIX = "pool."


class PoolLock:
    """A locked file in the workspace. The lock ends with the process, however that ends."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.id = uuid.uuid4().hex[:12]
        #: Beginning of the names of all that is in the pool.
        self.name = f"crb-egress-{self.id}"
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = workspace / f"{_PREFIX}{self.id}"
        while True:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            # A reaper may have taken the new file for a dead one before it was locked.
            if self._path.exists() and os.path.samestat(os.fstat(self._file), self._path.stat()):
                return
            os.close(self._file)

    def labels(self, farm: str) -> dict[str, str]:
        """Labels of what is in the pool."""
        return {FARM_LABEL: farm, POOL_LABEL: self.id, WORKSPACE_LABEL: str(self._workspace)}

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def pool_is_live(workspace: Path, pool: str) -> bool:
    """Whether the process that made the pool lives."""
    try:
        file = os.open(workspace / f"{_PREFIX}{pool}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def dead_pool_files(workspace: Path) -> list[Path]:
    """The files of pools whose process is gone."""
    if not workspace.is_dir():
        return []
    files = workspace.glob(f"{_PREFIX}*")
    return [path for path in files if not pool_is_live(workspace, path.name.removeprefix(_PREFIX))]
