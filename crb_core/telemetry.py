"""Prometheus metrics of a process: where they are served, and what every process has of them."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from prometheus_client import CollectorRegistry, Counter, Info, ProcessCollector, start_http_server

from crb_core.errors import UnavailableError

__all__ = ["OTHERS", "PORTS_TRIED", "SECONDS_BUCKETS", "AwayClock", "FewNames", "MetricsServer", "new_registry"]

#: Bounds of every histogram of durations, in seconds: from a short step to an agent that works for an hour.
SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)
#: Processes of one machine that may be given the same port; each takes the next one that is free.
PORTS_TRIED = 32
#: What label values beyond the first ones are counted as.
OTHERS = "other"


def new_registry(process: str) -> CollectorRegistry:
    """A registry of one process: what it is made of, and its memory, CPU time and open files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Info("crb_build", "Version of crb that this process runs.", registry=registry).info(
        {"version": version("crb"), "process": process}
    )
    return registry


class FewNames:
    """Label values of which there may be any number: the first ones by name, all others together as ``other``.

    A process that runs for months must not grow with every agent and model that it ever met.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, name: str) -> str:
        with self._lock:
            if name not in self._known and len(self._known) >= self._most:
                return OTHERS
            self._known.add(name)
            return name


class AwayClock:
    """Counts the seconds between the first failure of a service and its next answer."""

    def __init__(self, counter: Counter, clock: Callable[[], float] = time.monotonic) -> None:
        self._counter = counter
        self._clock = clock
        self._since: float | None = None
        self._lock = threading.Lock()

    def note(self, answered: bool) -> None:
        now = self._clock()
        with self._lock:
            if self._since is not None:
                self._counter.inc(max(0.0, now - self._since))
            self._since = None if answered else now


class MetricsServer:
    """Serves a registry over HTTP, and says where in a file that Prometheus can read (file_sd_configs).

    ``port`` 0 takes any free port; another one is the first of PORTS_TRIED that are tried, so that two workers on one
    machine do not collide. ``folder`` holds one file a process; those of processes of this machine that ended without
    removing theirs are removed.
    """

    def __init__(self, registry: CollectorRegistry, *, process: str, address: str, port: int, folder: Path) -> None:
        self._server, self.port = _listen(registry, address, port)
        self.address = address
        host = socket.gethostname()
        folder.mkdir(parents=True, exist_ok=True)
        for left in _left_behind(folder, host):
            left.unlink(missing_ok=True)
        self._file = folder / f"{host}.{os.getpid()}.{secrets.token_hex(3)}.json"
        reached_at = host if _is_every_address(address) else address
        target = f"[{reached_at}]:{self.port}" if ":" in reached_at else f"{reached_at}:{self.port}"
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps([{"targets": [target], "labels": {"process": process, "host": host}}]))
        written.replace(self._file)

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        self._file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _is_every_address(address: str) -> bool:
    """Whether a process listens everywhere; nobody can be reached at that address."""
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return not address


def _listen(registry: CollectorRegistry, address: str, port: int) -> tuple[Any, int]:
    last = port if port == 0 else min(65535, port + PORTS_TRIED - 1)
    for tried in range(port, last + 1):
        try:
            server, _ = start_http_server(tried, addr=address, registry=registry)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and tried < last:
                continue
            what = f"{address}:{port}" if last == port else f"{address}, ports {port} to {last}"
            raise UnavailableError(
                f"Metrics cannot be served on {what}: {error.strerror or error}",
                remedy="Choose another --metrics-port or CRB_METRICS_ADDRESS",
            ) from None
        return server, int(server.server_port)
    raise AssertionError("the last port either answers or raises")


def _left_behind(folder: Path, host: str) -> Iterator[Path]:
    for file in folder.glob("*.json"):
        name, _, rest = file.name.removesuffix(".json").rpartition(".")[0].rpartition(".")
        with contextlib.suppress(ValueError):
            if name == host and not psutil.pid_exists(int(rest)):
                yield file
