"""What another judgment of the same review changes: matches, labels axis by axis, scores."""

from __future__ import annotations

from typing import Any

from crb_core.finding import CandidateFinding, GoldenFinding, Label
from crb_core.judgment_changes import LabelChange, judgment_change
from crb_core.matching import Classification, Correspondence, JudgedPullRequest

GOLDEN = tuple(
    GoldenFinding.model_validate(
        {
            "file": "a.py",
            "start_line": 1,
            "end_line": 1,
            "message": text,
            "producer": "p",
            "label": {"tp_fp": "tp", "severity": "low", "category": "security"},
        }
    )
    for text in ("one", "two")
)
CANDIDATES = tuple(
    CandidateFinding(file="a.py", start_line=1, end_line=1, message=text, producer="a") for text in ("x", "y")
)


def judged(links: list[tuple[int, ...]], labels: dict[int, dict[str, Any]]) -> JudgedPullRequest:
    return JudgedPullRequest(
        key="pr",
        golden=GOLDEN,
        candidates=CANDIDATES,
        correspondences=tuple(Correspondence(candidate=place, golden=golden) for place, golden in enumerate(links)),
        classifications=tuple(
            Classification(candidate=place, label=Label.model_validate(label)) for place, label in labels.items()
        ),
    )


LOW = {"tp_fp": "tp", "severity": "low", "category": "testing"}


def test_nothing_changes() -> None:
    """The same judgment is no change."""
    one = judged([(0,), ()], {1: LOW})
    assert not judgment_change(one, one, protocol="reviewbench").is_change


def test_matches_labels_and_scores() -> None:
    """Gained and lost pairs, each changed axis, labels that come or go with a match, and both ratios."""
    before = judged([(0,), ()], {1: LOW})
    after = judged([(), (1,)], {0: LOW | {"tp_fp": "fp"}})
    found = judgment_change(before, after, protocol="reviewbench")
    assert found.matches_gained == ((1, 1),)
    assert found.matches_lost == ((0, 0),)
    assert LabelChange(candidate=0, axis="tp_fp", was=None, now="fp") in found.labels
    assert LabelChange(candidate=1, axis="tp_fp", was="tp", now=None) in found.labels
    assert (found.was["grounded_recall"], found.now["grounded_recall"]) == (0.5, 0.5)
    assert (found.was["augmented_precision"], found.now["augmented_precision"]) == (1.0, 0.5)
    high = judgment_change(before, judged([(0,), ()], {1: LOW | {"severity": "high"}}), protocol="reviewbench")
    assert high.labels == (LabelChange(candidate=1, axis="severity", was="low", now="high"),)
    assert high.was == high.now


def test_an_unclassified_candidate_is_null_not_zero() -> None:
    """A label that is missing on one side makes the augmented ratios undefined there (rule 10)."""
    found = judgment_change(judged([(0,), ()], {1: LOW}), judged([(0,), ()], {}), protocol="reviewbench")
    assert (found.was["augmented_precision"], found.now["augmented_precision"]) == (1.0, None)
