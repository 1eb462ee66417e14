"""``python -m tests.crb_core.store.killed_at POINT ARGUMENTS``: crb with a kill -9 of itself at one point."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from crb_cli.main import run
from crb_core.evidence import FolderEvidence
from crb_core.formats.archive_tar import ArchiveWriter
from crb_core.store import backup

#: By name the thing that is called there, its attribute, and at the how-manieth call the process dies.
POINTS: dict[str, tuple[Any, str, int]] = {
    "first row": (backup, "_insert", 1),
    "middle row": (backup, "_insert", 9),
    "blob": (FolderEvidence, "put", 1),
    "before the commit": (backup, "_required_digests", 1),
    "after the commit": (backup, "upgrade", 2),
    "written in part": (ArchiveWriter, "lines", 9),
    "before it has its name": (os, "link", 1),
}


def die_at(point: str) -> None:
    """Let this process kill itself at a point."""
    owner, attribute, wanted = POINTS[point]
    real: Callable[..., Any] = getattr(owner, attribute)
    calls = 0

    def deadly(*values: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*values, **more)

    setattr(owner, attribute, deadly)


if __name__ == "__main__":
    die_at(sys.argv.pop(1))
    run()
