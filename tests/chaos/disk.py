"""Stores in trouble: a disk so small that a test can fill it (a tmpfs of its own), and a database that is locked."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["NO_RESERVE", "SmallDisk", "locked", "small_disk"]


#: Settings without which no review begins beside a disk as small as these.
NO_RESERVE = {"CRB_DISK_RESERVE": "0"}


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Hold the write lock of a SQLite file."""
    holder = sqlite3.connect(database, isolation_level=None, timeout=60)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")
    finally:
        holder.close()


_CHUNK = b"\0" * 4096


class SmallDisk:
    """A mounted file system of a few MiB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no free block."""
        with self._ballast.open("ab", buffering=0) as stream:
            try:
                while stream.write(_CHUNK):
                    pass
            except OSError:
                return

    def empty(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, mib: int) -> Iterator[SmallDisk]:
    """Mount one at ``path``; skips, with the reason, where this user may not mount."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
