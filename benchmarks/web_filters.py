"""Changing a filter of a sweep of 131,400 candidates over HTTP: a client here, a real ``crb serve`` in another process.

Every request has a filter that no request had before, so every number is computed anew. Beside the wall time that the
client sees stands the CPU time that the server's threads used for it: on a busy machine the wall time counts the others
too. Between some requests this process commits to the store, as workers do while another sweep runs.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import psutil
from sqlalchemy import update

from benchmarks.report import Figure
from benchmarks.web import filled_home, served
from crb_core.distribution import percentile
from crb_core.protocols import reviewbench
from crb_core.store import Store, open_store
from crb_core.store.tables import StepRow, core

__all__ = ["web_filters"]

REQUESTS = 150
_GOAL = "100 or less"
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
        return measured(filled_home(Path(folder)), REQUESTS)


def measured(home: Path, requests: int) -> list[Figure]:
    """The figures of ``requests`` of each kind against a server over a home."""
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    filters = new_filters(random.Random(1))
    figures: list[Figure] = []
    kinds: dict[str, tuple[str, Callable[[], None]]] = {
        "page": ("/?", lambda: None),
        "API": ("/api/v1/leaderboard?intervals=false&", lambda: None),
        "page after a commit": ("/?", lambda: _commit(store)),
    }
    with closing(store), served(home) as (host, pid), closing(HTTPConnection(host, timeout=120)) as connection:
        server = psutil.Process(pid)
        began = time.perf_counter()
        _ask(server, connection, "/")
        loading = (time.perf_counter() - began) * 1000
        # The first page begins the intervals of the whole sweep in the background: seconds of CPU time, once.
        intervals = _ask(server, connection, "/?intervals=made")
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
    later = f"intervals of the whole sweep {intervals.wall / 1000:.1f} s later, {intervals.cpu / 1000:.1f} s of CPU"
    figures.append(Figure(name="first page, with loading the sweep", value=loading, unit="ms", note=later))
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


def _ask(server: psutil.Process, connection: HTTPConnection, address: str) -> _Asked:
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
    steps = core(StepRow)
    with store.write() as connection:
        connection.execute(update(steps).where(steps.c.id == 1).values(beat=steps.c.beat + 1))
