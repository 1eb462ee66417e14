"""Agreement of two judges on labels, and on coverage where each judged candidates of its own."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.agreement import coverage_agreement, label_agreement
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label
from crb_core.matching import Classification, Correspondence, JudgedPullRequest

GOLDEN = tuple(
    GoldenFinding.model_validate({"message": text, "producer": "people", "label": {"tp_fp": "tp"}})
    for text in ("one", "two", "three")
)


def judged(count: int, matches: dict[int, tuple[int, ...]], labels: dict[int, dict[str, Any]] | None = None) -> Any:
    return JudgedPullRequest(
        key="pr",
        golden=GOLDEN,
        candidates=tuple(CandidateFinding(message=f"c{place}", producer="a") for place in range(count)),
        correspondences=tuple(Correspondence(candidate=place, golden=golden) for place, golden in matches.items()),
        classifications=tuple(
            Classification(candidate=place, label=Label.model_validate(label))
            for place, label in (labels or {}).items()
        ),
    )


def test_coverage_with_other_candidates() -> None:
    """Only the goldens have to be the same: two of three are covered alike, whichever candidate does it."""
    first, second = judged(1, {0: (0, 1)}), judged(3, {2: (0,)})
    found = coverage_agreement([(first, second)], comparable=lambda *_: True)
    assert (found.n, found.raw) == (3, pytest.approx(2 / 3))
    # A judge whose reviewer has nothing to compare was not asked.
    assert coverage_agreement([(first, judged(0, {}))], comparable=lambda *_: True).n == 0


def test_other_goldens_are_refused() -> None:
    """Nothing can be said of two answers to different questions."""
    other = judged(1, {}).model_copy(update={"golden": GOLDEN[:2]})
    with pytest.raises(InputError, match="same golden findings"):
        coverage_agreement([(judged(1, {}), other)], comparable=lambda *_: True)


def test_labels_that_both_gave() -> None:
    """A candidate or an axis that one judge left open is no disagreement."""
    first = judged(3, {}, {0: {"tp_fp": "tp", "severity": "high"}, 1: {"tp_fp": "fp"}, 2: {"tp_fp": "tp"}})
    second = judged(3, {}, {0: {"tp_fp": "tp", "severity": "low"}, 1: {"tp_fp": "tp", "severity": "low"}})
    found = label_agreement([(first, second)])
    assert {axis: (each.n, each.raw) for axis, each in found.items()} == {"tp_fp": (2, 0.5), "severity": (1, 0.0)}
