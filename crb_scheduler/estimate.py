"""When a sweep will be done: a pure function, so that it can be checked by hand.

Reviews: what is left of each build, at the build's mean review time, divided by the review time that the farm got
through per second of the window. A mix of quick and slow builds is so weighed by what is left, not by what is done.
Judging: the trials left to judge at the window's rate, where judges and not reviews hold the sweep up. The slower of
the two counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crb_core.finding import Record

__all__ = ["MIN_ENDED", "BuildWork", "Estimate", "Window", "estimate"]

#: Reviews or judgments that a window needs before it says anything.
MIN_ENDED = 5


@dataclass(frozen=True, kw_only=True)
class BuildWork:
    """What is left of a build and what its attempts took so far (milliseconds; retries count)."""

    waiting: int
    reviewing: int
    ended: int
    spent_ms: float


@dataclass(frozen=True, kw_only=True)
class Window:
    """What ended in the last ``seconds``: attempts with their summed review time, and trials that were judged."""

    seconds: float
    attempts: int
    spent_ms: float
    judged: int


class Estimate(Record):
    """Seconds until nothing of the sweep waits or runs, and how that was computed; None, and why, without a ground."""

    seconds: float | None
    how: str


def estimate(work: Mapping[str, BuildWork], window: Window | None, *, to_judge: int, judges_behind: bool) -> Estimate:
    """The estimate of a sweep from the work left by build id and what ended lately.

    ``to_judge`` trials have a review but not all judgments; ``judges_behind``: some of their steps wait for a slot.
    """
    left = sum(build.waiting + build.reviewing for build in work.values())
    if not left and not to_judge:
        return Estimate(seconds=None, how="nothing is left to do")
    if window is None or window.seconds <= 0:
        return Estimate(seconds=None, how="nothing has ended yet")
    parts: list[tuple[float, str]] = []
    if left:
        if window.attempts < MIN_ENDED or window.spent_ms <= 0:
            return Estimate(
                seconds=None,
                how=f"only {window.attempts} reviews ended in the last {_minutes(window)}; {MIN_ENDED} are needed",
            )
        ended = sum(build.ended for build in work.values())
        spent = sum(build.spent_ms for build in work.values())
        if not ended or spent <= 0:
            return Estimate(seconds=None, how="no trial has ended yet")
        needed = 0.0
        for build in work.values():
            mean = build.spent_ms / build.ended if build.ended and build.spent_ms > 0 else spent / ended
            # On average half of a running review is behind it.
            needed += mean * (build.waiting + 0.5 * build.reviewing)
        pace = window.spent_ms / (window.seconds * 1000)
        parts.append(
            (
                needed / 1000 / pace,
                f"{left} reviews left at each agent's mean time, {pace:.1f} at once as in the last {_minutes(window)}",
            )
        )
    if judges_behind or not left:
        if window.judged < MIN_ENDED:
            return Estimate(
                seconds=None,
                how=f"only {window.judged} trials were judged in the last {_minutes(window)}; {MIN_ENDED} are needed",
            )
        rate = window.judged / window.seconds
        waiting = left + to_judge
        parts.append(
            (waiting / rate, f"{waiting} trials left to judge, {rate * 60:.1f} a minute in the last {_minutes(window)}")
        )
    seconds, how = max(parts)
    return Estimate(seconds=seconds, how=how)


def _minutes(window: Window) -> str:
    return f"{window.seconds:.0f} s" if window.seconds < 120 else f"{window.seconds / 60:.0f} min"
