"""How far a classifier's labels agree with people's, axis by axis (seed A 5.3).

Every axis has the share of equal answers and Cohen's kappa; severity also the share within one level and the direction
of the disagreements; category and the others a confusion table. Intervals as in ``crb_core.calibration``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from crb_core.agreement import RESAMPLES, agreement
from crb_core.calibration import Interval, ratio_intervals
from crb_core.finding import LABEL_AXES, Record

__all__ = ["AxisFigures", "LabelAnswers", "OrderedFigures", "axis_figures"]


@dataclass(frozen=True, kw_only=True)
class LabelAnswers:
    """One finding, labelled by people and by the judge; an axis that one of them left open is absent."""

    pull_request: str
    people: Mapping[str, str]
    judge: Mapping[str, str]


class OrderedFigures(Record):
    """An ordered axis: answers at most one level apart, and which way the judge errs, as counts.

    ``higher`` are answers of the judge above people's (more severe), ``lower`` those below.
    """

    within_one: Interval
    higher: int = Field(ge=0)
    lower: int = Field(ge=0)


class AxisFigures(Record):
    """One axis: ``confusion`` maps people's answer to the judge's answers with their counts.

    ``unanswered`` are findings that people labelled on this axis and the judge did not.
    """

    axis: str
    n: int = Field(ge=0)
    pull_requests: int = Field(ge=0)
    unanswered: int = Field(ge=0)
    agreement: float | None
    agreement_low: float | None
    agreement_high: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    ordered: OrderedFigures | None = None
    confusion: dict[str, dict[str, int]]


def axis_figures(
    answers: Sequence[LabelAnswers], *, severities: Sequence[str], resamples: int = RESAMPLES
) -> tuple[AxisFigures, ...]:
    """Every axis that people answered at least once; ``severities`` from the most to the least severe."""
    found = []
    for axis in LABEL_AXES:
        asked = [each for each in answers if axis in each.people]
        both = [(each.pull_request, each.people[axis], each.judge[axis]) for each in asked if axis in each.judge]
        if asked:
            found.append(_axis(axis, both, len(asked) - len(both), severities, resamples))
    return tuple(found)


def _axis(
    axis: str, answers: Sequence[tuple[str, str, str]], unanswered: int, severities: Sequence[str], resamples: int
) -> AxisFigures:
    kappa = agreement(
        [people for _, people, _ in answers],
        [judge for _, _, judge in answers],
        clusters=[key for key, _, _ in answers],
        resamples=resamples,
    )
    (equal,) = ratio_intervals(
        [(key, ((people == judge, 1),)) for key, people, judge in answers], 1, resamples=resamples
    )
    confusion: dict[str, Counter[str]] = {}
    for _, people, judge in answers:
        confusion.setdefault(people, Counter())[judge] += 1
    return AxisFigures(
        axis=axis,
        n=kappa.n,
        pull_requests=kappa.clusters,
        unanswered=unanswered,
        agreement=equal.value,
        agreement_low=equal.low,
        agreement_high=equal.high,
        kappa=kappa.kappa,
        kappa_low=kappa.kappa_low,
        kappa_high=kappa.kappa_high,
        ordered=_ordered(answers, severities, resamples) if axis == "severity" else None,
        confusion={people: dict(sorted(confusion[people].items())) for people in sorted(confusion)},
    )


def _ordered(answers: Sequence[tuple[str, str, str]], severities: Sequence[str], resamples: int) -> OrderedFigures:
    level = {name: place for place, name in enumerate(severities)}
    steps = [
        (key, level[people] - level[judge]) for key, people, judge in answers if people in level and judge in level
    ]
    (within,) = ratio_intervals([(key, ((abs(step) <= 1, 1),)) for key, step in steps], 1, resamples=resamples)
    return OrderedFigures(
        within_one=within,
        higher=sum(step > 0 for _, step in steps),
        lower=sum(step < 0 for _, step in steps),
    )
