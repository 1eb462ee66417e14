"""Subsets of findings by label axis and producer (seed A 7.3, 7.4; rules 5 to 7).

Several values of one axis are alternatives (OR), different axes must all hold (AND). A golden finding is judged by its
own label, an unmatched candidate by the classifier's. A finding without a value on a restricted axis is outside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from crb_core.errors import InputError, Where
from crb_core.finding import Actionability, ContextRequired, Difficulty, GoldenFinding, Label, NonBlank, Record, Scope

__all__ = ["AXES", "EVERYTHING", "LABEL_FILTERS", "Subset", "check_producers", "check_vocabulary"]

#: Axes of a label that a subset can restrict, in the order of tables.
LABEL_FILTERS = ("severity", "category", "scope", "difficulty", "context_required", "actionability")
#: All axes. ``producer`` restricts golden findings only: a candidate's producer is the agent itself.
AXES = (*LABEL_FILTERS, "producer")


class Subset(Record):
    """Which findings count. None on an axis does not restrict it; an empty set admits nothing."""

    severity: frozenset[NonBlank] | None = None
    category: frozenset[NonBlank] | None = None
    scope: frozenset[Scope] | None = None
    difficulty: frozenset[Difficulty] | None = None
    context_required: frozenset[ContextRequired] | None = None
    actionability: frozenset[Actionability] | None = None
    producer: frozenset[NonBlank] | None = None

    @classmethod
    def parse(cls, **axes: Iterable[str] | None) -> Subset:
        """A subset from text, as a command line or a query gives it; an axis without values is not restricted."""
        values = {axis: frozenset(chosen) for axis, chosen in axes.items() if chosen}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False)[0]
            axis = str(problem["loc"][0])
            message = re.sub(r"^Input should", "it should", problem["msg"])
            if problem["type"] == "string_pattern_mismatch":
                message = "it should not be empty"
            raise InputError(
                f"{problem['input']!r} is not a value of {axis}: {message}", where=Where(field=axis)
            ) from None

    @property
    def restricted(self) -> tuple[str, ...]:
        """The restricted axes, in the order of ``AXES``."""
        return tuple(axis for axis in AXES if getattr(self, axis) is not None)

    @property
    def restricts_labels(self) -> bool:
        """Whether some label axis is restricted, so that an unclassified candidate cannot be inside."""
        return any(getattr(self, axis) is not None for axis in LABEL_FILTERS)

    @property
    def restricts_goldens_only(self) -> bool:
        """Whether golden findings are filtered by an axis that candidates do not have (rule 7)."""
        return self.producer is not None

    def has_label(self, label: Label) -> bool:
        """Whether a classified candidate is inside."""
        for axis in LABEL_FILTERS:
            wanted = getattr(self, axis)
            if wanted is not None and getattr(label, axis) not in wanted:
                return False
        return True

    def has_golden(self, golden: GoldenFinding) -> bool:
        """Whether a golden finding is inside."""
        return (self.producer is None or golden.producer in self.producer) and self.has_label(golden.label)

    def __and__(self, other: Subset) -> Subset:
        """The findings inside both."""
        axes: dict[str, Any] = {}
        for axis in AXES:
            mine, theirs = getattr(self, axis), getattr(other, axis)
            axes[axis] = theirs if mine is None else mine if theirs is None else mine & theirs
        return Subset.model_construct(**axes)

    def with_value(self, axis: str, value: str) -> Subset:
        """The findings inside that have ``value`` on ``axis``: one stratum of this subset."""
        return self & Subset.model_construct(**{axis: frozenset([value])})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, list[str]]:
        """The restricted axes with their values, sorted."""
        return {axis: sorted(str(value) for value in getattr(self, axis)) for axis in self.restricted}


#: The subset that restricts nothing.
EVERYTHING = Subset()


def check_vocabulary(values: Collection[str] | None, allowed: Mapping[str, Any] | Collection[str], axis: str) -> None:
    """Refuse a value that the protocol's vocabulary for ``axis`` does not have."""
    for value in sorted(values or ()):
        if value not in allowed:
            raise InputError(
                f"{value!r} is not a {axis} of this protocol",
                where=Where(field=axis),
                remedy=f"Choose from {', '.join(allowed)}",
            )


def check_producers(subset: Subset, known: Collection[str]) -> None:
    """Refuse a producer filter that no golden finding can pass."""
    for producer in sorted(subset.producer or ()):
        if producer not in known:
            raise InputError(
                f"no golden finding is of the producer {producer!r}",
                where=Where(field="producer"),
                remedy=f"The producers are: {', '.join(sorted(known)) or 'none'}",
            )
