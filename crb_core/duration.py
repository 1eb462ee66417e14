"""Review duration (seed A 7.5; rule 16): wall time of the attempt that succeeded, never part of a quality metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeGuard

from crb_core.distribution import mean_of, sample_deviation
from crb_core.finding import Record

__all__ = ["Duration", "Latency", "Measurement", "RoundDuration", "across_rounds", "latency", "round_duration"]


class Measurement(Record):
    """What was recorded for one pull request whose attempt succeeded, judged or not.

    ``review_ms`` in milliseconds; ``duration_seconds`` is the legacy value in whole seconds, which includes retries.
    """

    pull_request: str
    review_ms: float | None = None
    duration_seconds: float | None = None


class Latency(Record):
    """A valid latency in milliseconds and which recorded value it comes from."""

    milliseconds: float
    source: Literal["review_ms", "duration_seconds"]


class RoundDuration(Record):
    """Mean latency of one round in milliseconds over the pull requests that have one; None where none has.

    ``measured`` of ``successful`` pull requests have a latency, ``from_seconds`` of them from the legacy value.
    """

    mean_ms: float | None
    measured: int
    from_seconds: int
    successful: int


class Duration(Record):
    """Mean of the round means in milliseconds and their sample standard deviation, rounds weighted equally.

    ``std_ms`` is None under two measured rounds, ``mean_ms`` without any. ``from_seconds`` counts legacy values.
    """

    mean_ms: float | None
    std_ms: float | None
    rounds: tuple[RoundDuration, ...]
    measured_rounds: int
    from_seconds: int


def latency(measurement: Measurement) -> Latency | None:
    """The latency of one pull request: ``review_ms`` if valid, else the legacy seconds, else None.

    Valid is finite and above 0.
    """
    if _is_valid(measurement.review_ms):
        return Latency(milliseconds=measurement.review_ms, source="review_ms")
    if _is_valid(measurement.duration_seconds) and _is_valid(measurement.duration_seconds * 1000):
        return Latency(milliseconds=measurement.duration_seconds * 1000, source="duration_seconds")
    return None


def round_duration(measurements: Sequence[Measurement]) -> RoundDuration:
    """The duration of one round from the pull requests whose attempt succeeded; missing is left out, never 0."""
    latencies = [found for found in map(latency, measurements) if found is not None]
    values = [each.milliseconds for each in latencies]
    return RoundDuration(
        mean_ms=mean_of(values) if values else None,
        measured=len(values),
        from_seconds=len([each for each in latencies if each.source == "duration_seconds"]),
        successful=len(measurements),
    )


def across_rounds(rounds: Sequence[RoundDuration]) -> Duration:
    """The duration of a leaderboard row; rounds without any measurement are skipped."""
    means = [each.mean_ms for each in rounds if each.mean_ms is not None]
    return Duration(
        mean_ms=mean_of(means) if means else None,
        std_ms=sample_deviation(means) if len(means) > 1 else None,
        rounds=tuple(rounds),
        measured_rounds=len(means),
        from_seconds=sum(each.from_seconds for each in rounds),
    )


def _is_valid(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value > 0
