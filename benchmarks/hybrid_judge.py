"""What the judge ``hybrid`` saves at which agreement, on a folder laid out as the golden-comments benchmark.

    python benchmarks/hybrid_judge.py FOLDER [--json] [--in-sample]

Every repository is judged by an offline model that was trained on the others (scikit-learn); ``--in-sample`` takes the
model in the package instead, which is no measurement where it was trained on these repositories. In the band, the
recorded judge itself answers: so the agreement is an upper bound, the one of a model that never errs. Requests are
counted as the matcher makes them (10 candidates by 10 golden findings), for every review that has candidates.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.offline_judge import Judged, held_out, judge, read, vocabulary_of
from crb_core.agreement import agreement
from crb_core.errors import CrbError
from crb_core.protocols import CHUNK
from crb_worker.judge.hybrid import uncertain
from crb_worker.judge.offline_model import Forest, OfflineModel

#: Bands that are tried: below the first no match, from the second on a match. The first is the offline judge alone.
BANDS = ((0.5, 0.5), (0.4, 0.6), (0.3, 0.7), (0.2, 0.8), (0.1, 0.9), (0.05, 0.95), (0.1, 0.6), (0.0, 1.01))


def requests(candidates: int, golden: int) -> int:
    """Requests for one review: chunk pairs."""
    return ceil(candidates / CHUNK) * ceil(golden / CHUNK)


def figures(judged: Sequence[Judged], low: float, high: float) -> dict[str, Any]:
    """Agreement on covered goldens, and what is asked, for one band."""
    expected: list[bool] = []
    answers: list[bool] = []
    clusters: list[str] = []
    pairs = asked_pairs = whole = asked = shown = asked_shown = 0
    for item in judged:
        review = item.review
        if not review.candidates:
            continue
        places, positions, band = uncertain(item.probabilities, low, high)
        pairs += len(item.probabilities)
        asked_pairs += len(band)
        whole += requests(len(review.candidates), len(review.golden))
        asked += requests(len(places), len(positions))
        shown += len(review.candidates) + len(review.golden)
        asked_shown += len(places) + len(positions)
        for golden in range(len(review.golden)):
            sure = any(
                chance >= high and pair not in band for pair, chance in item.probabilities.items() if pair[1] == golden
            )
            # The record names one candidate a golden; only inside the band is the model asked about it.
            by_model = golden in review.matched and any(
                (place, golden) in band and review.candidates[place] == review.matched[golden]
                for place in range(len(review.candidates))
            )
            expected.append(golden in review.matched)
            answers.append(sure or by_model)
            clusters.append(review.pull_request)
    found = agreement(expected, answers, clusters=clusters)
    return {
        "low": low,
        "high": high,
        "kappa": found.kappa,
        "kappa_low": found.kappa_low,
        "kappa_high": found.kappa_high,
        "pairs_asked": asked_pairs / pairs,
        "requests": asked,
        "requests_of_claude_alone": whole,
        "requests_saved": 1 - asked / whole,
        "findings_shown": asked_shown / shown,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--in-sample", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shared = os.environ.get("CRB_SHARED_DATA")
    if options.folder is None and shared is None:
        parser.error("name the data folder, or set CRB_SHARED_DATA")
    reviews = read(options.folder or Path(str(shared)) / "golden-comments")
    if options.in_sample:
        judged = judge(reviews, vocabulary_of(reviews), Forest(OfflineModel.load().trees).probabilities)
    else:
        judged = held_out(reviews)
    rows = [figures(judged, low, high) for low, high in BANDS]
    if options.json:
        print(json.dumps({"held_out": not options.in_sample, "bands": rows}, indent=1))
        return 0
    print("       band   kappa  (95% interval)   pairs asked  requests  saved  findings shown")
    for row in rows:
        print(
            f"{row['low']:4.2f} to {min(row['high'], 1):4.2f}   {row['kappa']:.3f}  ({row['kappa_low']:.3f} to "
            f"{row['kappa_high']:.3f})         {row['pairs_asked']:6.1%}  {row['requests']:4}/"
            f"{row['requests_of_claude_alone']}  {row['requests_saved']:5.1%}          {row['findings_shown']:6.1%}"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CrbError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
