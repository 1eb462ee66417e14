"""An answer that leaves out a finding is an error, never "no match"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from crb_core.finding import Label
from crb_core.matching import Classification, Correspondence
from crb_worker.judge.complete import IncompleteError, complete_labels, complete_matches, judged_by
from tests.crb_worker.judge.claude_support import finding, golden

LABEL = Label.model_validate({"tp_fp": "tp", "severity": "low", "category": "testing"})


class Scripted:
    """Answers what it was made with."""

    name = fingerprint = "scripted"
    classifies = True

    def __init__(self, matches: Sequence[tuple[int, tuple[int, ...]]], labels: Sequence[int] = ()) -> None:
        self.matches, self.labels = matches, labels
        self.asked: list[tuple[int, ...]] = []

    def describe(self) -> dict[str, Any]:
        return {}

    def match(self, key: str, candidates: Any, golden: Any, *, protocol: str) -> tuple[Correspondence, ...]:
        return tuple(Correspondence(candidate=place, golden=positions) for place, positions in self.matches)

    def classify(
        self, key: str, candidates: Any, positions: Sequence[int], *, protocol: str
    ) -> tuple[Classification, ...]:
        self.asked.append(tuple(positions))
        return tuple(Classification(candidate=place, label=LABEL) for place in self.labels)


class Abstaining(Scripted):
    abstains = True


CANDIDATES = (finding("a"), finding("b"))
GOLDEN = (golden("a"),)


@pytest.mark.parametrize(
    "matches", [[(0, ())], [], [(0, ()), (0, ())], [(0, ()), (1, ()), (2, ())], [(0, (1,)), (1, ())], [(0, (0, 0))]]
)
def test_matches_that_are_incomplete_or_out_of_range(matches: Any) -> None:
    """Too few records, too many, one twice, positions that do not exist."""
    with pytest.raises(IncompleteError):
        complete_matches(Scripted(matches), "pr", CANDIDATES, GOLDEN, protocol="reviewbench")


@pytest.mark.parametrize("labels", [[], [0], [1, 1], [0, 1]])
def test_labels_that_are_incomplete_or_of_another(labels: list[int]) -> None:
    """Exactly the positions that were asked for."""
    with pytest.raises(IncompleteError):
        complete_labels(Scripted([], labels), "pr", CANDIDATES, (1,), protocol="reviewbench")


def test_a_judge_that_may_abstain() -> None:
    """A council without a majority leaves a candidate open; it still labels no other."""
    assert complete_labels(Abstaining([]), "pr", CANDIDATES, (1,), protocol="reviewbench") == ()
    with pytest.raises(IncompleteError):
        complete_labels(Abstaining([], [0]), "pr", CANDIDATES, (1,), protocol="reviewbench")


def test_a_whole_judgment() -> None:
    """What claims no golden finding is labelled, where the protocol counts labels."""
    judge = Scripted([(0, (0,)), (1, (0,))], [1])
    judged = judged_by(judge, "pr", CANDIDATES, GOLDEN, protocol="reviewbench")
    assert judge.asked == [(1,)]
    assert [label.candidate for label in judged.classifications] == [1]
    assert judged_by(judge, "pr", CANDIDATES, GOLDEN, protocol="golden-comments").classifications == ()
    assert judge.asked == [(1,)]
