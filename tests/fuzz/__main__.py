"""``python -m tests.fuzz [TARGET...] --seconds 60``: as many damaged documents as there is time for.

Every document is decided by its number, so a failure is seen again with ``--first NUMBER --seconds 0``.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.check import check_document
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS, Target


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of: {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60, help="time for all of them together (default 60)")
    parser.add_argument("--first", type=int, default=0, help="number of the first document")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.targets) - TARGETS.keys())
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}")
    names = chosen.targets or list(TARGETS)
    failed = 0
    print(f"{'target':50} {'tried':>8} {'accepted':>8} {'failed':>6}")
    for name in names:
        tried, accepted, failures = _fuzz(TARGETS[name], chosen.first, chosen.seconds / len(names))
        print(f"{name[:50]:50} {tried:8} {accepted:8} {len(failures):6}", flush=True)
        for number, problem in failures[:5]:
            print(f"  {number}: {problem[:300]}")
        failed += len(failures)
    return 1 if failed else 0


def _fuzz(target: Target, first: int, seconds: float) -> tuple[int, int, list[tuple[int, str]]]:
    seeds = target.seeds()
    end = time.monotonic() + seconds
    number, accepted = first, 0
    failures = []
    while True:
        try:
            accepted += check_document(target, mutated(seeds[number % len(seeds)], number))
        except Exception as error:  # noqa: BLE001
            failures.append((number, f"{type(error).__name__}: {error}"))
        number += 1
        if time.monotonic() >= end:
            return number - first, accepted, failures


if __name__ == "__main__":
    sys.exit(main())
