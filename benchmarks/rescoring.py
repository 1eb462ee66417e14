"""Re-scoring 20 builds x 219 pull requests x 3 rounds (131,400 candidates) under any filter, and what it takes to load.

Sizes of 1x, 2x and 4x show that the time is linear in findings; the ratio to one vectorised pass over the same arrays
(the sum of each) says how far it is from what the memory allows. Times are of the whole re-scoring: macro and micro
metrics of all 60 rounds, overall and in every stratum of severity and category. The CPU time of this process is given
beside the wall time, which on a busy machine counts the others too.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.filled_sweep import CANDIDATES, GOLDEN, JUDGE, PRODUCERS, fill, label, matches, unmatched
from benchmarks.report import Figure
from crb_core.distribution import percentile
from crb_core.fast_aggregate import rescore
from crb_core.recipes import RECIPES
from crb_core.scoring_arrays import ArraysBuilder, ScoringArrays
from crb_core.store import open_store
from crb_core.store.measured import load_sweep
from crb_core.strata import EVERYTHING, Subset

__all__ = ["rescoring"]

BUILDS, PULL_REQUESTS, ROUNDS = 20, 219, 3
SIZES = (1, 2, 4)
REPEATS = 100
#: One of each kind: nothing, one axis, two axes, everything but little, goldens only.
FILTERS = (
    EVERYTHING,
    Subset.parse(severity=["high"]),
    Subset.parse(severity=["high", "medium"], category=["security", "correctness"]),
    Subset.parse(scope=["introduced-by-pr"], difficulty=["easy", "medium", "hard"], context_required=["diff-only"]),
    Subset.parse(producer=[PRODUCERS[0]]),
)


def rescoring() -> list[Figure]:
    """Loading time and memory, re-scoring time with its 95th percentile, and the ratios."""
    figures = _loading()
    arrays = {size: _arrays(size) for size in SIZES}
    # Interleaved, so that a busy moment of the machine meets every size.
    wall: dict[int, list[float]] = {size: [] for size in SIZES}
    cpu: dict[int, list[float]] = {size: [] for size in SIZES}
    passes: list[float] = []
    for size in SIZES:
        rescore(arrays[size])
    for turn in range(REPEATS):
        chosen = FILTERS[turn % len(FILTERS)]
        for size in SIZES:
            seconds, used = _timed(lambda size=size, chosen=chosen: rescore(arrays[size], subset=chosen))
            wall[size].append(seconds * 1000)
            cpu[size].append(used * 1000)
        passes.append(_timed(lambda: _one_pass(arrays[1]))[1] * 1000)
    middle = {size: percentile(cpu[size], 0.5) or 0.0 for size in SIZES}
    one_pass = percentile(passes, 0.5) or 0.0
    figures += [
        Figure(name="re-scoring, p95", value=percentile(wall[1], 0.95) or 0.0, unit="ms", goal="50 or less"),
        Figure(name="re-scoring, p95 of CPU time", value=percentile(cpu[1], 0.95) or 0.0, unit="ms"),
        Figure(
            name="re-scoring, median of CPU time", value=middle[1], unit="ms", note=f"{arrays[1].findings:,} candidates"
        ),
    ]
    for size in SIZES[1:]:
        figures.append(
            Figure(
                name=f"re-scoring {size}x against 1x",
                value=middle[size] / middle[1],
                unit="ratio",
                goal=f"about {size}",
                note=f"{arrays[size].findings:,} candidates, median {middle[size]:.1f} ms of CPU time",
            )
        )
    figures.append(
        Figure(
            name="re-scoring against one pass",
            value=middle[1] / one_pass,
            unit="ratio",
            note=f"one pass over the same arrays: {one_pass:.2f} ms of CPU time",
        )
    )
    return figures


def _loading() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="crb-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'crb.sqlite'}"
        store = open_store(url)
        sweep_id, _ = fill(store, builds=BUILDS, pull_requests=PULL_REQUESTS, rounds=ROUNDS)
        store.close()
        # Peak memory is a process's, and filling the store needs more than reading it.
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.rescoring", url, sweep_id], check=True, capture_output=True, text=True
        )
    wall, cpu, peak = map(float, ran.stdout.split())
    return [
        Figure(
            name="loading a sweep to be re-scored", value=wall, unit="s", goal="2 or less", note=f"{cpu:.2f} s of CPU"
        ),
        Figure(name="peak memory of loading and re-scoring", value=peak, unit="MiB", goal="500 or less"),
    ]


def _load(url: str, sweep_id: str) -> None:
    """Load and re-score in a process of its own; prints seconds, CPU seconds and MiB."""
    store = open_store(url)

    def load() -> ScoringArrays:
        with store.read() as connection:
            return load_sweep(connection, sweep_id, JUDGE).measured().arrays

    began, used = time.perf_counter(), time.process_time()
    arrays = load()
    wall, cpu = time.perf_counter() - began, time.process_time() - used
    assert arrays.findings == BUILDS * PULL_REQUESTS * ROUNDS * CANDIDATES
    for chosen in FILTERS:
        rescore(arrays, subset=chosen)
    print(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def _one_pass(arrays: ScoringArrays) -> int:
    """The sum of every array that has an entry a finding."""
    pairs = [each for both in (arrays.claimed, arrays.covered) for each in both]
    labels = [arrays.label_position, arrays.label_tp, *arrays.label_codes.values()]
    return sum(int(each.sum()) for each in (*pairs, *labels, arrays.candidates, arrays.unclassified))


def _arrays(size: int) -> ScoringArrays:
    draw = random.Random(size)
    groups = [(build, number) for build in range(BUILDS) for number in range(ROUNDS)]
    builder = ArraysBuilder(RECIPES["reviewbench"], groups)
    for number in range(PULL_REQUESTS * size):
        golden = [(label(draw), draw.choice(PRODUCERS)) for _ in range(GOLDEN)]
        builder.add_pull_request(f"pr-{number}", golden)
        for group in groups:
            found = matches(draw)
            builder.add_trial(
                group, f"pr-{number}", CANDIDATES, found, [(candidate, label(draw)) for candidate in unmatched(found)]
            )
    return builder.build()


if __name__ == "__main__":
    _load(*sys.argv[1:])
