"""What a judge said of one review, checked before anything is made of it.

A candidate that a judge leaves out is an error: it would else look like "no match", and change a score unseen.
"""

from __future__ import annotations

from collections.abc import Sequence

from crb_core import claims
from crb_core.errors import CrbError, InputError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.protocols import protocol_named
from crb_worker.judge.base import Classifier, Judge

__all__ = ["IncompleteError", "complete_labels", "complete_matches", "judged_by", "unmatched"]


class IncompleteError(CrbError):
    """A judge's answer lacks a finding, or names one that it was not asked about."""


def complete_matches(
    judge: Judge,
    key: str,
    candidates: Sequence[CandidateFinding],
    golden: Sequence[GoldenFinding],
    *,
    protocol: str,
) -> tuple[Correspondence, ...]:
    """The judge's matches: one record a candidate, positions in range and named once."""
    links = judge.match(key, candidates, golden, protocol=protocol)
    try:
        claims.check_correspondences(links, len(golden), len(candidates))
    except InputError as error:
        raise IncompleteError(f"The judge {judge.name} gave no usable matches of {key}: {error}") from None
    if sorted(link.candidate for link in links) != list(range(len(candidates))):
        raise IncompleteError(
            f"The judge {judge.name} answered for {len(links)} of the {len(candidates)} candidates of {key}"
        )
    return tuple(links)


def unmatched(links: Sequence[Correspondence], candidates: int, golden: int) -> list[int]:
    """The candidates that claim no golden finding, ascending."""
    claimed = claims.resolve(links, golden).claimed
    return [place for place in range(candidates) if place not in claimed]


def complete_labels(
    judge: Classifier,
    key: str,
    candidates: Sequence[CandidateFinding],
    positions: Sequence[int],
    *,
    protocol: str,
) -> tuple[Classification, ...]:
    """The judge's labels: one for each position, unless it is a judge that may abstain, and none for another."""
    labels = judge.classify(key, candidates, positions, protocol=protocol)
    given = [label.candidate for label in labels]
    if len(set(given)) != len(given) or set(given) - set(positions):
        raise IncompleteError(f"The judge {judge.name} labelled what it was not asked about, or twice, in {key}")
    if len(given) < len(positions) and not getattr(judge, "abstains", False):
        raise IncompleteError(f"The judge {judge.name} labelled {len(given)} of {len(positions)} candidates of {key}")
    return tuple(labels)


def judged_by(
    judge: Judge,
    key: str,
    candidates: Sequence[CandidateFinding],
    golden: Sequence[GoldenFinding],
    *,
    protocol: str,
) -> JudgedPullRequest:
    """Matches and, where judge and protocol do, the labels of what claims no golden finding: a judgment in one go."""
    links = complete_matches(judge, key, candidates, golden, protocol=protocol)
    labels: tuple[Classification, ...] = ()
    if judge.classifies and protocol_named(protocol).labels_unmatched and isinstance(judge, Classifier):
        rest = unmatched(links, len(candidates), len(golden))
        labels = complete_labels(judge, key, candidates, rest, protocol=protocol)
    return JudgedPullRequest(
        key=key,
        golden=tuple(golden),
        candidates=tuple(candidates),
        correspondences=links,
        classifications=labels,
    )
