"""What a worker says of itself with its beat: load of its host, memory, disk."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import psutil

from crb_core.clock import utc_now

__all__ = ["WorkerStatus"]


class WorkerStatus:
    """Reads a worker's status; what cannot be read is None.

    ``at`` is this host's clock, ``cpu_percent`` the host's since the reading before, ``load`` its run queue over the
    last minute, ``rss_bytes`` this process's memory, ``disk_*_bytes`` the file system of ``folder``.
    ``takes_no_reviews`` is the reason, where there is one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = psutil.Process()
        self._lock = threading.Lock()
        self._takes_no_reviews: str | None = None
        # The first call has nothing to compare with.
        psutil.cpu_percent()

    def take_no_reviews(self, reason: str | None) -> None:
        """From now on the status says so; None: it takes reviews again."""
        with self._lock:
            self._takes_no_reviews = reason

    def read(self) -> dict[str, Any]:
        try:
            memory: Any = psutil.virtual_memory()
            cpu: float | None = psutil.cpu_percent()
            rss: int | None = self._process.memory_info().rss
        except (psutil.Error, OSError):
            memory = cpu = rss = None
        try:
            load: float | None = os.getloadavg()[0]
        except OSError:
            load = None
        try:
            disk: Any = shutil.disk_usage(self._folder)
        except OSError:
            disk = None
        return {
            "at": utc_now(),
            "cpu_percent": cpu,
            "load": load,
            "cores": os.cpu_count(),
            "memory_percent": None if memory is None else memory.percent,
            "memory_available_bytes": None if memory is None else memory.available,
            "rss_bytes": rss,
            "disk_free_bytes": None if disk is None else disk.free,
            "disk_total_bytes": None if disk is None else disk.total,
            "takes_no_reviews": self._takes_no_reviews,
        }
