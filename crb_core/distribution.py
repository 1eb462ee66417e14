"""Distributions over trials (seed B, *Trial distributions*) and means over rounds (seed A 7.7; rules 11 and 15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

from crb_core.errors import InputError
from crb_core.finding import Record

__all__ = [
    "ROUNDS_TO_SUBMIT",
    "AcrossRounds",
    "Distribution",
    "RoundValue",
    "across_rounds",
    "describe",
    "mean_of",
    "percentile",
    "sample_deviation",
]

#: Complete rounds that a leaderboard submission needs.
ROUNDS_TO_SUBMIT = 3


class Distribution(Record):
    """Minimum, Type-7 p50 and p95, and maximum, in the unit of the values.

    All four are None unless every scored trial measured the metric; ``reason`` then says why. ``measured`` of
    ``scored`` trials have a value.
    """

    minimum: float | None
    p50: float | None
    p95: float | None
    maximum: float | None
    measured: int
    scored: int
    reason: str | None


def percentile(values: Sequence[float], p: float) -> float | None:
    """The Type-7 (linear) percentile, ``p`` from 0 to 1; None without values.

    With the values sorted and h = (n - 1) p, it is x[floor h] + (h - floor h)(x[floor h + 1] - x[floor h]). For 1 to 10
    p50 is 5.5, p90 is 9.1 and p99 is 9.91.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"a percentile is between 0 and 1, not {p}")
    _require_finite(values)
    if not values:
        return None
    ordered = sorted(values)
    h = (len(ordered) - 1) * p
    below = math.floor(h)
    if below + 1 == len(ordered):
        return float(ordered[below])
    return ordered[below] + (h - below) * (ordered[below + 1] - ordered[below])


def describe(values: Sequence[float | None]) -> Distribution:
    """The distribution of a metric over scored trials, one value a trial, None where a trial did not measure it.

    Malformed and unscored trials are not passed. A partial sample gets no substitute figure.
    """
    measured = [value for value in values if value is not None]
    _require_finite(measured)
    reason = None
    if not values:
        reason = "no trial was scored"
    elif len(measured) < len(values):
        reason = f"only {len(measured)} of {len(values)} scored trials measured it"
    if reason is not None:
        return Distribution(
            minimum=None,
            p50=None,
            p95=None,
            maximum=None,
            measured=len(measured),
            scored=len(values),
            reason=reason,
        )
    return Distribution(
        minimum=min(measured),
        p50=percentile(measured, 0.5),
        p95=percentile(measured, 0.95),
        maximum=max(measured),
        measured=len(measured),
        scored=len(values),
        reason=None,
    )


def mean_of(values: Sequence[float]) -> float:
    """The arithmetic mean of one finite value or more, rounded once, whatever their order."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def sample_deviation(values: Sequence[float]) -> float:
    """The sample standard deviation of two values or more.

    Exact until it is rounded once, like ``statistics.stdev``, which takes five times as long.
    """
    pairs = [value.as_integer_ratio() for value in values]
    # Denominators of floats are powers of two, so the largest is common to all.
    common = max([below for _, below in pairs])
    whole = [above * (common // below) for above, below in pairs]
    n = len(whole)
    squares = n * sum([each * each for each in whole]) - sum(whole) ** 2
    below = n * (n - 1) * common * common
    # A root of 64 bits or more, whose last bit is set where it is inexact, rounds to the nearest float.
    shift = 2 * max(0, 65 + (below.bit_length() - squares.bit_length()) // 2)
    scaled, rest = divmod(squares << shift, below)
    root = math.isqrt(scaled)
    return (root | (rest != 0 or root * root != scaled)) / (1 << shift // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundValue:
    """A metric of one round. ``scored`` of ``planned`` pull requests have a score; it is complete where all have."""

    number: int
    value: float | None
    scored: int
    planned: int

    @property
    def is_complete(self) -> bool:
        return self.scored == self.planned


@dataclass(frozen=True, slots=True, kw_only=True)
class AcrossRounds:
    """A metric of a leaderboard row: the mean of its rounds' values and their sample standard deviation.

    ``std`` is None under two rounds. ``mean`` is None, with a ``reason``, where no round can be used or where a used
    round has no value. Every round is kept in ``rounds``; those in ``left_out`` are shown but not averaged.
    """

    mean: float | None
    std: float | None
    rounds: tuple[RoundValue, ...]
    used: tuple[int, ...]
    left_out: tuple[int, ...]
    scored: int
    planned: int
    ranked: bool
    submittable: bool
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """What documents say of a metric: mean, deviation, the value of each round, and why there is no mean."""
        return {
            "mean": self.mean,
            "std": self.std,
            "rounds": [each.value for each in self.rounds],
            "reason": self.reason,
        }


def across_rounds(rounds: Sequence[RoundValue], *, allow_partial: bool = False) -> AcrossRounds:
    """Combine rounds, each weighted equally (rules 11 and 15).

    An incomplete round is left out unless ``allow_partial``, which makes the row unranked. ``scored`` and ``planned``
    sum the pull requests of the used rounds.
    """
    ordered = tuple(sorted(rounds, key=attrgetter("number")))
    for one, other in pairwise(ordered):
        if one.number == other.number:
            raise InputError(f"round {one.number} is given twice", remedy="Give each round of one agent build once")
    _require_finite([each.value for each in ordered if each.value is not None])
    complete = [each for each in ordered if each.scored == each.planned]
    used = complete
    if allow_partial:
        used = [each for each in ordered if each.scored or each.is_complete]
    values = [each.value for each in used if each.value is not None]
    without = [each.number for each in used if each.value is None] if len(values) < len(used) else []
    reason = None
    if not used:
        reason = "no round is complete" if ordered else "no round was run"
    elif without:
        reason = f"undefined in round {', '.join(map(str, without))}"
    defined = reason is None
    numbers_used = tuple([each.number for each in used])
    return AcrossRounds(
        mean=mean_of(values) if defined else None,
        std=sample_deviation(values) if defined and len(values) > 1 else None,
        rounds=ordered,
        used=numbers_used,
        left_out=tuple([each.number for each in ordered if each.number not in numbers_used]),
        scored=sum([each.scored for each in used]),
        planned=sum([each.planned for each in used]),
        ranked=defined and (used is complete or all(each.is_complete for each in used)),
        submittable=defined and len(complete) >= ROUNDS_TO_SUBMIT and len(complete) == len(used),
        reason=reason,
    )


def _require_finite(values: Sequence[float]) -> None:
    for value in values:
        if not math.isfinite(value):
            raise InputError(f"{value} is not a measurement", remedy="Leave out what was not measured")
