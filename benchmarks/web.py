"""Readers of ``crb serve``: 50 at once for 30 s over 20 builds x 219 pull requests x 3 rounds (131,400 findings).

Each reader has one connection and asks for the next page as soon as it has the last one, so 50 of them keep the server
saturated: their latency is what waits before them. One reader alone shows what a filter costs over HTTP.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote, urlencode

from benchmarks.filled_sweep import PRODUCERS, fill
from benchmarks.report import Figure
from crb_core.distribution import percentile
from crb_core.protocols import reviewbench
from crb_core.store import open_store

__all__ = ["Reading", "filled_home", "read_for", "served", "web"]

BUILDS, PULL_REQUESTS, ROUNDS = 20, 219, 3
READERS, SECONDS = 50, 30.0
ALONE = 100


@dataclass
class Reading:
    """What readers got: milliseconds of each answer, and every answer that was not 200."""

    seconds: float
    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    bytes: int = 0


def filled_home(home: Path, *, builds: int = BUILDS, pull_requests: int = PULL_REQUESTS) -> Path:
    """A home whose only sweep is ``bench``."""
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    fill(store, builds=builds, pull_requests=pull_requests, rounds=ROUNDS)
    store.close()
    return home


@contextmanager
def served(home: Path) -> Iterator[tuple[str, int]]:
    """Host with port, and process id, of a running ``crb serve``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "crb_cli", "serve", "--port", "0"],
        env={"CRB_HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://(127\.0\.0\.1:\d+)", process.stdout.readline())
        assert found is not None
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait()


def filtered(draw: random.Random) -> str:
    """The leaderboard page under a filter that hardly anybody had before."""
    state: list[tuple[str, str]] = [("sweep", "bench"), ("beta", f"{draw.uniform(0.1, 4):.2f}")]
    state += [("severity", each) for each in draw.sample(reviewbench.SEVERITIES, draw.randint(0, 2))]
    state += [("category", each) for each in draw.sample(reviewbench.CATEGORIES, draw.randint(0, 4))]
    if draw.random() < 0.2:
        state.append(("producer", draw.choice(PRODUCERS)))
    return f"/?{urlencode(state)}"


def any_page(draw: random.Random, *, pull_requests: int, trials: int) -> str:
    """What people open: mostly leaderboards under filters, and what stands behind a number."""
    kind = draw.random()
    if kind < 0.5:
        return filtered(draw)
    if kind < 0.6:
        return f"/api/v1/leaderboard{filtered(draw)[1:]}&intervals=false"
    if kind < 0.7:
        return f"/leaderboard/{draw.choice(('precision-recall', 'strata'))}.svg?sweep=bench"
    if kind < 0.85:
        return f"/sweeps/bench/pull-requests/{quote(f'pr-{draw.randrange(pull_requests)}')}?build=agent-0"
    return f"/trials/{draw.randint(1, trials)}"


def read_for(
    host: str, *, readers: int, seconds: float, pull_requests: int = PULL_REQUESTS, builds: int = BUILDS
) -> Reading:
    """Let readers ask for pages for so long; each waits for its last answer."""
    reading = Reading(seconds)
    ending = time.monotonic() + seconds
    turn = threading.Lock()

    def read(number: int) -> None:
        draw = random.Random(number)
        connection = HTTPConnection(host, timeout=60)
        while time.monotonic() < ending:
            path = any_page(draw, pull_requests=pull_requests, trials=builds * pull_requests * ROUNDS)
            took, size, problem = _ask(connection, path)
            with turn:
                reading.milliseconds.append(took)
                reading.bytes += size
                if problem is not None:
                    reading.errors.append(f"{path}: {problem}")
        connection.close()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return reading


def _ask(connection: HTTPConnection, path: str) -> tuple[float, int, str | None]:
    """Milliseconds, bytes, and what was wrong."""
    began = time.perf_counter()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException) as error:
        connection.close()
        return (time.perf_counter() - began) * 1000, 0, repr(error)
    took = (time.perf_counter() - began) * 1000
    return took, len(body), None if answer.status == 200 else f"{answer.status} {body[:200]!r}"


def peak_memory(pid: int) -> float:
    """The most memory that a process ever held, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def web() -> list[Figure]:
    """Latency, throughput, errors and memory of a server that many read."""
    with tempfile.TemporaryDirectory(prefix="crb-bench-") as folder, served(filled_home(Path(folder))) as (host, pid):
        connection = HTTPConnection(host, timeout=120)
        first, _, problem = _ask(connection, "/?sweep=bench")
        assert problem is None, problem
        draw = random.Random(0)
        answers = [_ask(connection, filtered(draw)) for _ in range(ALONE)]
        alone = [took for took, _, _ in answers]
        connection.close()
        reading = read_for(host, readers=READERS, seconds=SECONDS)
        memory = peak_memory(pid)
    errors = [*(problem for _, _, problem in answers if problem), *reading.errors]
    for each in errors[:5]:
        print(each, file=sys.stderr)
    return [
        Figure(name="first leaderboard page of a server", value=first, unit="ms", note="loads the sweep"),
        *_latency("a leaderboard under a new filter, one reader", alone, goal="100 or less"),
        *_latency(f"any page, {READERS} readers", reading.milliseconds),
        Figure(
            name=f"answers, {READERS} readers",
            value=len(reading.milliseconds) / reading.seconds,
            unit="1/s",
            note=f"{len(reading.milliseconds):,} in {reading.seconds:g} s, {reading.bytes / 2**20:,.0f} MiB",
        ),
        Figure(name="answers that were errors", value=len(errors), unit="", goal="0"),
        Figure(name="peak memory of the server", value=memory, unit="MiB"),
    ]


def _latency(name: str, values: Sequence[float], goal: str | None = None) -> list[Figure]:
    return [
        Figure(name=f"{name}, p50", value=percentile(values, 0.5) or 0.0, unit="ms"),
        Figure(name=f"{name}, p95", value=percentile(values, 0.95) or 0.0, unit="ms", goal=goal),
    ]
