"""How the counts and ratios of a protocol come from sums that the fast path makes in one way for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crb_core.aggregate import Measures
from crb_core.errors import InputError
from crb_core.metrics import REVIEWBENCH_MEASURES
from crb_core.metrics import Counts as ReviewbenchCounts
from crb_core.protocols import answer_key, golden_comments, reviewbench

__all__ = ["COMMENTS", "RECIPES", "Floats", "RatioRecipe", "Recipe", "recipe_named"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RatioRecipe:
    """How a protocol's ratios come from its counts.

    ``ratios`` maps a metric to the counts that are added above and below the line; a name with a leading ``-`` is
    subtracted. ``needs_labels`` are the metrics that an unclassified candidate, or a filter of goldens only, makes
    undefined.
    """

    protocol: str
    measures: Measures[Any, Any]
    ratios: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    needs_labels: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Recipe(RatioRecipe):
    """Also how the counts come from sums over claims, coverage and labels.

    ``counts`` is the protocol's record of counts and ``columns`` computes its fields; ``axes`` are those of its strata.
    """

    counts: type[Any]
    axes: tuple[str, ...]
    #: Whether golden findings labelled fp are intended trade-offs, which claim nothing (rule 20).
    has_intended: bool
    columns: Callable[[Mapping[str, Floats]], dict[str, Floats]]


def _reviewbench(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    unmatched = sums["unmatched_tp"] + sums["unmatched_fp"] + sums["visible"]
    return {
        "candidate_count": sums["claimed"] + unmatched,
        "golden_tp_count": sums["golden_tp"],
        "matched_count": sums["claimed"],
        "matched_tp_count": sums["claimed_tp"],
        "unmatched_count": unmatched,
        "unmatched_tp_count": sums["unmatched_tp"],
        "unmatched_fp_count": sums["unmatched_fp"],
        "unclassified_count": sums["unclassified"],
        "golden_covered_count": sums["covered"],
    }


def _answer_key(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    unkeyed = sums["unmatched_tp"] + sums["unmatched_fp"] + sums["visible"]
    return {
        "candidate_count": sums["claimed"] + sums["intended"] + unkeyed,
        "defect_count": sums["golden_tp"],
        "found_count": sums["covered"],
        "claimed_count": sums["claimed"],
        "intended_count": sums["intended"],
        "unkeyed_count": unkeyed,
        "unkeyed_tp_count": sums["unmatched_tp"],
        "unkeyed_fp_count": sums["unmatched_fp"],
        "unclassified_count": sums["unclassified"],
    }


RECIPES: Mapping[str, Recipe] = {
    "reviewbench": Recipe(
        protocol="reviewbench",
        counts=ReviewbenchCounts,
        measures=REVIEWBENCH_MEASURES,
        axes=reviewbench.AXES,
        has_intended=False,
        columns=_reviewbench,
        ratios={
            "grounded_precision": (("matched_tp_count",), ("matched_count",)),
            "grounded_recall": (("golden_covered_count",), ("golden_tp_count",)),
            "augmented_precision": (("matched_tp_count", "unmatched_tp_count"), ("candidate_count",)),
            "augmented_recall": (
                ("golden_covered_count", "unmatched_tp_count"),
                ("golden_tp_count", "unmatched_tp_count"),
            ),
            "novel_tp_yield": (("unmatched_tp_count",), ("candidate_count",)),
        },
        needs_labels=frozenset({"augmented_precision", "augmented_recall", "novel_tp_yield"}),
    ),
    "answer-key": Recipe(
        protocol="answer-key",
        counts=answer_key.Counts,
        measures=answer_key.MEASURES,
        axes=answer_key.AXES,
        has_intended=True,
        columns=_answer_key,
        ratios={
            "precision": (("claimed_count", "unkeyed_tp_count"), ("candidate_count", "-intended_count")),
            "recall": (("found_count",), ("defect_count",)),
        },
        needs_labels=frozenset({"precision"}),
    ),
}


#: Golden comments have no claims: their counts come from their own protocol.
COMMENTS = RatioRecipe(
    protocol="golden-comments",
    measures=golden_comments.MEASURES,
    ratios={"precision": (("tp",), ("tp", "fp")), "recall": (("tp",), ("tp", "fn"))},
)


def recipe_named(protocol: str) -> Recipe:
    """The recipe of a protocol; InputError for one that is scored another way."""
    if protocol not in RECIPES:
        raise InputError(
            f"the protocol {protocol} has no ranking by claims and labels",
            remedy=f"It is there for {' and '.join(RECIPES)}",
        )
    return RECIPES[protocol]
