"""What a leaderboard page offers to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crb_core.finding import Actionability, ContextRequired, Difficulty, Scope
from crb_core.protocols import Protocol
from crb_core.strata import AXES
from crb_web.query import BoardQuery

__all__ = ["BETA_LIMITS", "PRESETS", "Axis", "axis_choices"]

#: Review preferences (seed A 7.6): name, beta, meaning.
PRESETS = (
    ("precision first", 0.5, "a false alarm costs more than a miss"),
    ("balanced", 1.0, "both cost the same"),
    ("recall first", 2.0, "a miss costs more than a false alarm"),
)
#: Smallest and largest beta of protocols with claims.
BETA_LIMITS = (0.1, 10.0)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis: its values in the vocabulary's order, and which are chosen."""

    name: str
    title: str
    values: tuple[str, ...]
    chosen: frozenset[str]


def axis_choices(protocol: Protocol, producers: Sequence[str], query: BoardQuery) -> list[Axis]:
    """Every axis that has values to choose from."""
    values = {
        "severity": protocol.severities,
        "category": protocol.categories,
        "scope": tuple(Scope),
        "difficulty": tuple(Difficulty),
        "context_required": tuple(ContextRequired),
        "actionability": tuple(Actionability),
        "producer": tuple(sorted(producers)),
    }
    return [
        Axis(
            name=name,
            title=name.replace("_", " "),
            values=tuple(str(value) for value in values[name]),
            chosen=frozenset(getattr(query, name)),
        )
        for name in AXES
        if values[name]
    ]
