"""Changing a filter of a sweep of 131,400 candidates over HTTP: a client here, a real ``crb serve`` in another process.

Every request has a filter that no request had before, so every number is computed anew. Beside the wall time that the
client sees stands the CPU time that the server's threads used for it: on a busy machine the wall time counts the others
too. Between some requests this process commits to the store, as workers do while another sweep runs.
"""

from __future__ import annotations

import http.client
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
from sqlalchemy import text

from benchmarks.filled_sweep import fill
from benchmarks.report import Figure
from crb_core.distribution import percentile
from crb_core.protocols import reviewbench
from crb_core.store import Store, open_store

__all__ = ["web_filters"]

BUILDS, PULL_REQUESTS, ROUNDS = 20, 219, 3
REQUESTS = 150
_GOAL = "100 or less"
_SERVER = "from crb_cli.main import run; run()"
#: Values of the axes that the requests combine.
_AXES = {
    "severity": reviewbench.SEVERITIES,
    "category": reviewbench.CATEGORIES,
    "scope": ("introduced-by-pr", "pre-existing"),
    "difficulty": ("easy", "medium", "hard"),
    "context_required": ("diff-only", "broader-project-context"),
}


@dataclass(frozen=True)
class _Asked:
    """One request: milliseconds until the last byte, milliseconds of the server's CPU time, bytes of the body."""

    wall: float
    cpu: float
    size: int


def web_filters() -> list[Figure]:
    """Page and API document under new filters, alone and with commits of another process between them."""
    with tempfile.TemporaryDirectory(prefix="crb-bench-") as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'crb.sqlite'}")
        fill(store, builds=BUILDS, pull_requests=PULL_REQUESTS, rounds=ROUNDS)
        try:
            return measured(Path(folder), store, REQUESTS)
        finally:
            store.close()


def measured(home: Path, store: Store, requests: int) -> list[Figure]:
    """The figures of ``requests`` of each kind against a server over ``home``, whose store is ``store``."""
    filters = new_filters(random.Random(1))
    figures: list[Figure] = []
    kinds: dict[str, tuple[str, Callable[[], None]]] = {
        "page": ("/?", lambda: None),
        "API": ("/api/v1/leaderboard?intervals=false&", lambda: None),
        "page after a commit": ("/?", lambda: _commit(store)),
    }
    with _served(home) as (server, connection):
        _ask(server, connection, "/")
        found: dict[str, list[_Asked]] = {name: [] for name in kinds}
        # Interleaved, so that a busy moment of the machine meets every kind.
        for _ in range(requests):
            for name, (address, before) in kinds.items():
                before()
                found[name].append(_ask(server, connection, address + next(filters)))
        memory = server.memory_info().rss / 2**20
    for name, asked in found.items():
        wall, cpu = [each.wall for each in asked], [each.cpu for each in asked]
        sizes = percentile([each.size for each in asked], 0.5) or 0
        note = f"median {percentile(wall, 0.5):.0f} ms, {sizes / 1000:,.0f} kB"
        figures.append(
            Figure(name=f"{name}, p95", value=percentile(wall, 0.95) or 0.0, unit="ms", goal=_GOAL, note=note)
        )
        figures.append(
            Figure(
                name=f"{name}, p95 of the server's CPU time",
                value=percentile(cpu, 0.95) or 0.0,
                unit="ms",
                goal=_GOAL,
                note=f"median {percentile(cpu, 0.5):.0f} ms, longest {max(cpu):.0f} ms",
            )
        )
    figures.append(Figure(name="the server's memory", value=memory, unit="MiB"))
    return figures


def new_filters(draw: random.Random) -> Iterator[str]:
    """Query strings that differ in what is counted: values of some axes and a beta."""
    seen = set()
    while True:
        pairs = [
            (axis, value)
            for axis, values in _AXES.items()
            if draw.random() < 0.5
            for value in sorted(draw.sample(values, draw.randint(1, len(values) - 1)))
        ]
        query = urlencode([*pairs, ("beta", f"{draw.uniform(0.5, 2):.3f}")])
        if query not in seen:
            seen.add(query)
            yield query


@contextmanager
def _served(home: Path) -> Iterator[tuple[psutil.Process, http.client.HTTPConnection]]:
    """A server over a home, and a connection to it that stays open."""
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, "serve", "--port", "0"],
        env=os.environ | {"CRB_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        address = next((word for word in line.split() if word.startswith("http://")), None)
        if address is None:
            raise SystemExit(f"The server did not start: {line.strip() or 'it said nothing'}")
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)
        try:
            yield psutil.Process(server.pid), connection
        finally:
            connection.close()
    finally:
        server.terminate()
        server.wait(timeout=30)


def _ask(server: psutil.Process, connection: http.client.HTTPConnection, address: str) -> _Asked:
    used, began = _cpu_seconds(server.pid), time.perf_counter()
    connection.request("GET", address)
    answer = connection.getresponse()
    body = answer.read()
    seconds = time.perf_counter() - began
    if answer.status != 200:
        raise SystemExit(f"{address} was answered with {answer.status}: {body[:500].decode(errors='replace')}")
    # What the server does after the last byte belongs to the request too.
    time.sleep(0.005)
    spent = _cpu_seconds(server.pid)
    cpu = sum(seconds - used.get(thread, 0.0) for thread, seconds in spent.items())
    return _Asked(seconds * 1000, cpu * 1000, len(body))


def _cpu_seconds(pid: int) -> dict[str, float]:
    """Seconds of CPU time of each thread of a process, by the scheduler's own nanoseconds; psutil has hundredths."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[thread.name] = int((thread / "schedstat").read_text().split()[0]) / 1e9
        except FileNotFoundError:
            # The thread has ended.
            continue
    return found


def _commit(store: Store) -> None:
    """What a worker's beat is to a reader: a commit of another process that changes nothing of the sweep."""
    with store.write() as connection:
        connection.execute(text("UPDATE worker SET status = status"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS bench_beat (beat INTEGER)"))
        connection.execute(text("INSERT INTO bench_beat VALUES (1)"))
