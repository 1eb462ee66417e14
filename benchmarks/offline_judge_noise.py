"""What a judge without any bias would score on the offline judge's measure: how much of its distance is chance.

    python benchmarks/offline_judge_noise.py FOLDER [--json]

FOLDER is laid out as for ``benchmarks/offline_judge.py``. The recorded answers of each judge are changed at random at a
given rate of errors, as often towards covering as away from it, so no tool is favoured. Largest difference of a tool's
F1 and Kendall's tau are then taken as for the offline judge. Beside it: the recorded judges among themselves.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.offline_judge import Review, read
from crb_core.calibration import Counts, f1_of, kendall_tau
from crb_core.errors import CrbError

#: Shares of wrong answers: the offline judge's on repositories that it had not seen, the recorded judges' among
#: themselves on the part kept apart (kappa .87 to .91), and half of that.
ERROR_RATES = (0.073, 0.055, 0.045, 0.022)
DRAWS, SEED = 200, 20_261_130


def tool_f1(reviews: Sequence[Review], changed: Sequence[int] | None = None) -> dict[str, float]:
    """F1 of each tool; ``changed`` is by how many more golden comments of each review count as found."""
    sums: dict[str, Counts] = {}
    for place, review in enumerate(reviews):
        more = changed[place] if changed is not None else 0
        found = len(review.matched) + more
        counts = Counts(found, max(0, review.false_positives - more), len(review.golden) - found)
        sums[review.tool] = sums.get(review.tool, Counts(0, 0, 0)) + counts
    return {tool: f1_of(counts) or 0.0 for tool, counts in sums.items()}


def distances(reviews: Sequence[Review], rate: float, draws: int = DRAWS) -> tuple[list[float], list[float]]:
    """Largest F1 differences and taus of ``draws`` judges that err at ``rate``, on one recorded judge's reviews."""
    chance = np.random.default_rng(SEED)
    reference = tool_f1(reviews)
    asked = [review for review in reviews if review.candidates]
    share = sum(len(review.matched) for review in asked) / sum(len(review.golden) for review in asked)
    found = np.array([len(review.matched) if review.candidates else 0 for review in reviews])
    missed = np.array([len(review.golden) - len(review.matched) if review.candidates else 0 for review in reviews])
    largest, taus = [], []
    for _ in range(draws):
        lost = chance.binomial(found, rate / 2 / share)
        gained = chance.binomial(missed, rate / 2 / (1 - share))
        made = tool_f1(reviews, (gained - lost).tolist())
        pairs = [(made[tool], reference[tool]) for tool in reference]
        largest.append(max(abs(left - right) for left, right in pairs))
        taus.append(kendall_tau(pairs) or 0.0)
    return largest, taus


def report(reviews: Sequence[Review]) -> dict[str, Any]:
    """By error rate the distances over all recorded judges; by pair of recorded judges theirs."""
    judges = sorted({review.judge for review in reviews})
    by_judge = {judge: [review for review in reviews if review.judge == judge] for judge in judges}
    noise = []
    for rate in ERROR_RATES:
        largest: list[float] = []
        taus: list[float] = []
        for judge in judges:
            one, other = distances(by_judge[judge], rate)
            largest += one
            taus += other
        low, middle, high = (float(value) for value in np.percentile(largest, [5, 50, 95]))
        noise.append(
            {
                "error_rate": rate,
                "largest_f1_difference": {"p5": low, "median": middle, "p95": high},
                "share_within_0.03": float(np.mean(np.array(largest) <= 0.03)),
                "kendall_tau_median": float(np.median(taus)),
                "share_tau_from_0.9": float(np.mean(np.array(taus) >= 0.9)),
            }
        )
    pairs = []
    for first, second in combinations(judges, 2):
        left, right = tool_f1(by_judge[first]), tool_f1(by_judge[second])
        values = [(left[tool], right[tool]) for tool in left if tool in right]
        pairs.append(
            {
                "judges": [first, second],
                "largest_f1_difference": max(abs(one - other) for one, other in values),
                "kendall_tau": kendall_tau(values),
            }
        )
    return {"noise": noise, "recorded_judges": pairs}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = report(read(options.folder))
    if options.json:
        print(json.dumps(data, indent=1))
        return 0
    print("errors   largest F1 difference (5% to 95%)   within .03   tau   from .9")
    for row in data["noise"]:
        largest = row["largest_f1_difference"]
        print(
            f"{row['error_rate']:6.1%}   {largest['median']:.3f} ({largest['p5']:.3f} to {largest['p95']:.3f})"
            f"{row['share_within_0.03']:23.0%}  {row['kendall_tau_median']:.2f}  {row['share_tau_from_0.9']:8.0%}"
        )
    for pair in data["recorded_judges"]:
        print(
            f"{' and '.join(pair['judges'])}: largest F1 difference {pair['largest_f1_difference']:.3f}, "
            f"tau {pair['kendall_tau']:.2f}"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CrbError as error:
        sys.exit(str(error))
