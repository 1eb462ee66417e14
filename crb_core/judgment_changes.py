"""What another judge changes on one review: matches, labels axis by axis, and the scores that follow (seed A 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crb_core.finding import LABEL_AXES, Record
from crb_core.matching import JudgedPullRequest
from crb_core.protocols import protocol_named

__all__ = ["JudgmentChange", "LabelChange", "judgment_change"]

#: The ratios that are shown of each protocol.
_RATIOS = {
    "reviewbench": ("grounded_precision", "grounded_recall", "augmented_precision", "augmented_recall"),
    "answer-key": ("precision", "recall"),
    "golden-comments": ("precision", "recall"),
}


class LabelChange(Record):
    """One axis of one candidate's label; None where the candidate had or has no label of its own."""

    candidate: int
    axis: str
    was: str | None
    now: str | None


class JudgmentChange(Record):
    """Pairs are (candidate, golden) positions; ``was`` and ``now`` the review's own ratios, null where undefined."""

    pull_request: str
    matches_gained: tuple[tuple[int, int], ...]
    matches_lost: tuple[tuple[int, int], ...]
    labels: tuple[LabelChange, ...]
    was: dict[str, float | None]
    now: dict[str, float | None]

    @property
    def is_change(self) -> bool:
        return bool(self.matches_gained or self.matches_lost or self.labels)


def judgment_change(before: JudgedPullRequest, after: JudgedPullRequest, *, protocol: str) -> JudgmentChange:
    """The difference of two judgments of the same candidates and golden findings."""
    old, new = _pairs(before), _pairs(after)
    return JudgmentChange(
        pull_request=before.key,
        matches_gained=tuple(sorted(new - old)),
        matches_lost=tuple(sorted(old - new)),
        labels=_label_changes(before, after),
        was=_ratios(before, protocol),
        now=_ratios(after, protocol),
    )


def _pairs(judged: JudgedPullRequest) -> set[tuple[int, int]]:
    return {(record.candidate, golden) for record in judged.correspondences for golden in record.golden}


def _label_changes(before: JudgedPullRequest, after: JudgedPullRequest) -> tuple[LabelChange, ...]:
    old, new = _labels(before), _labels(after)
    found = []
    for candidate in sorted(old.keys() | new.keys()):
        for axis in LABEL_AXES:
            was, now = old.get(candidate, {}).get(axis), new.get(candidate, {}).get(axis)
            if was != now:
                found.append(LabelChange(candidate=candidate, axis=axis, was=was, now=now))
    return tuple(found)


def _labels(judged: JudgedPullRequest) -> Mapping[int, dict[str, str]]:
    return {
        record.candidate: {
            axis: str(value) for axis in LABEL_AXES if (value := getattr(record.label, axis)) is not None
        }
        for record in judged.classifications
    }


def _ratios(judged: JudgedPullRequest, protocol: str) -> dict[str, float | None]:
    (only,) = protocol_named(protocol).score([judged]).per_pull_request
    found: Any = only.overall
    return {name: getattr(found, name) for name in _RATIOS[protocol]}
