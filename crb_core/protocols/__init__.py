"""The three protocols: how findings are paired, counted and turned into ratios.

Each is a plain module with its own count names; a ``Protocol`` record binds what callers need by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from crb_core.aggregate import Measures, Score
from crb_core.errors import InputError, Where
from crb_core.finding import Finding
from crb_core.matching import JudgedPullRequest
from crb_core.metrics import REVIEWBENCH_MEASURES
from crb_core.protocols import answer_key, golden_comments, reviewbench
from crb_core.protocols.pairs import CHUNK, PairGroup
from crb_core.strata import Subset, check_vocabulary

__all__ = ["CHUNK", "PROTOCOLS", "PairGroup", "Protocol", "comparable", "protocol_named"]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way to compare candidates with golden findings.

    ``severities`` and ``categories`` are its vocabularies, most severe first; ``axes`` the strata that it reports by
    default. ``pairs`` proposes what a judge is asked, ``check`` refuses judgments that it forbids, ``counts`` counts
    one pull request inside a subset, ``ratios`` turns counts into ratios, ``score`` does all of it for one round.
    """

    name: str
    title: str
    severities: tuple[str, ...]
    categories: tuple[str, ...]
    axes: tuple[str, ...]
    #: Whether findings have files and lines; else they may lack both.
    needs_location: bool
    #: Whether labels of candidates that claim no golden finding decide a number; else a judge is not asked for them.
    labels_unmatched: bool
    pairs: Callable[[JudgedPullRequest], tuple[PairGroup, ...]]
    check: Callable[[JudgedPullRequest], None]
    counts: Callable[..., Any]
    ratios: Callable[[Any], dict[str, float | None]]
    measures: Measures[Any, Any]
    score: Callable[..., Score[Any]]

    def check_subset(self, subset: Subset) -> None:
        """Refuse a severity or category that this protocol does not know."""
        check_vocabulary(subset.severity, self.severities, "severity")
        check_vocabulary(subset.category, self.categories, "category")


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        "reviewbench": Protocol(
            name="reviewbench",
            title="ReviewBench: grounded and augmented metrics",
            severities=reviewbench.SEVERITIES,
            categories=reviewbench.CATEGORIES,
            axes=reviewbench.AXES,
            needs_location=True,
            labels_unmatched=True,
            pairs=reviewbench.pairs,
            check=reviewbench.check,
            counts=reviewbench.counts,
            ratios=reviewbench.ratios,
            measures=REVIEWBENCH_MEASURES,
            score=reviewbench.score,
        ),
        "answer-key": Protocol(
            name="answer-key",
            title="Answer key: found, missed, intended and unkeyed",
            severities=answer_key.SEVERITIES,
            categories=answer_key.CATEGORIES,
            axes=answer_key.AXES,
            needs_location=True,
            labels_unmatched=True,
            pairs=answer_key.pairs,
            check=answer_key.check,
            counts=answer_key.counts,
            ratios=answer_key.ratios,
            measures=answer_key.MEASURES,
            score=answer_key.score,
        ),
        "golden-comments": Protocol(
            name="golden-comments",
            title="Golden comments: profiles and F-beta",
            severities=golden_comments.SEVERITIES,
            categories=golden_comments.CATEGORIES,
            axes=golden_comments.AXES,
            needs_location=False,
            labels_unmatched=False,
            pairs=golden_comments.pairs,
            check=golden_comments.check,
            counts=golden_comments.counts,
            ratios=golden_comments.ratios,
            measures=golden_comments.MEASURES,
            score=golden_comments.score,
        ),
    }
)


def protocol_named(name: str) -> Protocol:
    """The protocol of that name; InputError if there is none."""
    if name not in PROTOCOLS:
        raise InputError(
            f"there is no protocol {name!r}",
            where=Where(field="protocol"),
            remedy=f"Choose from {', '.join(PROTOCOLS)}",
        )
    return PROTOCOLS[name]


def comparable(candidate: Finding, golden: Finding, protocol: str) -> bool:
    """Whether a protocol allows the pair at all.

    reviewbench: the same file, compared exactly (facts A7). answer-key: the same file and at most three lines apart
    (rule 20). golden-comments: every pair, there are no files (rule 18). An unknown protocol is an InputError.
    """
    if not protocol_named(protocol).needs_location:
        return True
    if protocol == "answer-key":
        return answer_key.are_near(candidate, golden)
    return candidate.file is not None and candidate.file == golden.file
