"""The hybrid judge's figures, on a review that can be checked by hand."""

from __future__ import annotations

import pytest

from benchmarks.hybrid_judge import figures, requests
from benchmarks.offline_judge import Judged, Review

REVIEW = Review(
    judge="model",
    repository="shop",
    pull_request="https://example.org/owner/shop/pull/1",
    tool="a",
    golden=("one", "two", "three"),
    candidates=("first", "second"),
    matched={0: "first", 1: "second"},
    false_positives=0,
)
#: Golden 0 is sure and right, golden 1 uncertain, golden 2 sure and right that it is missed.
CHANCES = {(0, 0): 0.9, (1, 0): 0.1, (0, 1): 0.1, (1, 1): 0.4, (0, 2): 0.1, (1, 2): 0.2}


@pytest.mark.parametrize(
    ("band", "pairs", "asked", "kappa"),
    [((0.5, 0.5), 0, 0, 0.4), ((0.3, 0.7), 1 / 6, 1, 1.0), ((0.0, 1.01), 1.0, 1, 1.0)],
)
def test_what_a_band_asks_and_gains(band: tuple[float, float], pairs: float, asked: int, kappa: float) -> None:
    """Without a band golden 1 is missed (kappa .4 of 2 in 3); with it, one pair is asked and all three are right."""
    found = figures([Judged(review=REVIEW, probabilities=CHANCES)], *band)
    assert (found["pairs_asked"], found["requests"]) == (pytest.approx(pairs), asked)
    assert found["kappa"] == pytest.approx(kappa)
    assert found["requests_of_claude_alone"] == 1


def test_requests_are_chunk_pairs() -> None:
    """Ten by ten, as the matcher asks; nothing on one side is no request."""
    assert [requests(*sizes) for sizes in ((10, 10), (11, 10), (21, 11), (0, 5))] == [1, 2, 6, 0]
