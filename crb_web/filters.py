"""What a leaderboard page offers to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crb_core.dimensions import KnownDimensions, dimension_values
from crb_core.finding import Actionability, ContextRequired, Difficulty, Scope
from crb_core.protocols import Protocol
from crb_core.strata import AXES
from crb_web.query import BoardQuery

__all__ = ["BETA_LIMITS", "PRESETS", "Axis", "Value", "axis_choices", "dimension_choices"]

#: Review preferences (seed A 7.6): name, beta, meaning.
PRESETS = (
    ("precision first", 0.5, "a false alarm costs more than a miss"),
    ("balanced", 1.0, "both cost the same"),
    ("recall first", 2.0, "a miss costs more than a false alarm"),
)
#: Smallest and largest beta of protocols with claims.
BETA_LIMITS = (0.1, 10.0)


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value: what is sent for it, what is shown, and how many pull requests have it where that is known."""

    sent: str
    text: str
    chosen: bool
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis or dimension under the ``name`` of its parameter, its values in the order in which they are offered."""

    name: str
    title: str
    values: tuple[Value, ...]
    #: Of how many pull requests the dimension was computed from the diff.
    computed: int = 0

    @property
    def chosen(self) -> list[str]:
        return [each.text for each in self.values if each.chosen]


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
            values=tuple(
                Value(sent=str(value), text=str(value), chosen=str(value) in getattr(query, name))
                for value in values[name]
            ),
        )
        for name in AXES
        if values[name]
    ]


def dimension_choices(known: KnownDimensions, query: BoardQuery) -> list[Axis]:
    """Every dimension by which the pull requests of a sweep can be told apart, and those that are chosen."""
    chosen = query.inside.dimensions
    computed = known.computed_counts()
    return [
        Axis(
            name="dimension",
            title=name.replace("_", " "),
            computed=computed.get(name, 0),
            values=tuple(
                Value(sent=f"{name}={value}", text=value, count=count, chosen=value in chosen.get(name, ()))
                for value, count in values.items()
            ),
        )
        for name, values in dimension_values(known.values()).items()
        if name in chosen or len(values) > 1 or any(count < len(known) for count in values.values())
    ]
