"""Files that have no name any more, or never had one: they take disk, but no folder lists them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import psutil

__all__ = ["device", "nameless_bytes", "process_tree"]

_DELETED = b" (deleted)"


def process_tree(pid: int) -> list[int]:
    """``pid`` and everything below it; empty once it has ended."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []


def device(path: Path | str) -> int | None:
    """The device that a path is on; None where this process may not see that."""
    try:
        return Path(path).stat().st_dev
    except OSError:
        return None


def nameless_bytes(pids: Iterable[int], devices: Collection[int | None]) -> int:
    """Bytes that processes hold on ``devices`` in files without a name, open or mapped; each file counts once.

    Linux only, and only what this process may look into counts (other users' processes need root). A file that is
    under way through a socket at that moment is not seen.
    """
    total = 0
    seen: set[tuple[int, int]] = set()
    for pid in pids:
        for path in _held(f"/proc/{pid}"):
            try:
                # The link of an open file leads to the file itself, whatever its name says.
                status = Path(path).stat()
            except OSError:
                continue
            identity = (status.st_dev, status.st_ino)
            if (
                stat.S_ISREG(status.st_mode)
                and not status.st_nlink
                and status.st_dev in devices
                and identity not in seen
            ):
                seen.add(identity)
                total += status.st_blocks * 512
    return total


def _held(process: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(f"{process}/fd") as entries:
        yield from (entry.path for entry in entries)
    with contextlib.suppress(OSError), Path(f"{process}/maps").open("rb") as maps:
        for line in maps:
            if line.rstrip(b"\n").endswith(_DELETED):
                yield f"{process}/map_files/{_range(line)}"


def _range(line: bytes) -> str:
    """The name in ``map_files`` of a line of ``maps``: the same two addresses, without leading zeros."""
    first, _, last = line.split(b" ", 1)[0].partition(b"-")
    return f"{int(first, 16):x}-{int(last, 16):x}"
