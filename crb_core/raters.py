"""Agreement of two or more human raters, axis by axis: the ceiling for judge and matcher (seed A 10).

Pairs: Cohen's kappa (``crb_core.agreement``). All together: Krippendorff's alpha for nominal data, which takes any
number of raters and missing answers; its interval is the percentile bootstrap over pull requests of rule 22.

Krippendorff, K. (2019). Content Analysis, 4th edition, chapter 12. SAGE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from crb_core.agreement import Agreement, agreement
from crb_core.errors import InputError
from crb_core.finding import Record

__all__ = ["Alpha", "AxisAgreement", "RaterPair", "alpha", "rater_agreement"]

Answers = Mapping[tuple[str, str], Mapping[str, str]]

_RESAMPLES = 10_000
_SEED = 20_261_122
_DEFINED = 0.95


class Alpha(Record):
    """Krippendorff's alpha over ``units`` that at least two raters answered; None where it is undefined.

    It is undefined where all answers are equal. The interval is None under two pull requests, or where a resample in
    twenty or more has no alpha.
    """

    units: int = Field(ge=0)
    alpha: float | None
    low: float | None
    high: float | None


class RaterPair(Record):
    """Two raters on the findings that both answered."""

    raters: tuple[str, str]
    agreement: Agreement


class AxisAgreement(Record):
    """One axis: every pair of raters, and all of them together."""

    axis: str
    pairs: tuple[RaterPair, ...]
    together: Alpha


def rater_agreement(
    raters: Mapping[str, Answers], axes: Sequence[str], *, resamples: int = _RESAMPLES
) -> tuple[AxisAgreement, ...]:
    """Agreement on each axis that at least two raters answered for one finding.

    Answers are by (pull request, finding) and axis. InputError for fewer than two raters, and where no finding was
    labelled by two of them.
    """
    if len(raters) < 2:
        raise InputError("agreement needs at least two raters", remedy="Name two or more label files")
    counted = Counter(key for answers in raters.values() for key in answers)
    if max(counted.values(), default=0) < 2:
        raise InputError(
            "no finding was labelled by two raters",
            remedy="Use the same pull_request and finding in every file",
        )
    found = []
    for axis in axes:
        mine = {
            name: {key: given[axis] for key, given in answers.items() if axis in given}
            for name, answers in raters.items()
        }
        together = alpha([*mine.values()], resamples=resamples)
        if together.units:
            pairs = tuple(_pair(one, other, mine[one], mine[other], resamples) for one, other in combinations(mine, 2))
            found.append(AxisAgreement(axis=axis, pairs=pairs, together=together))
    return tuple(found)


def _pair(
    one: str, other: str, left: Mapping[tuple[str, str], str], right: Mapping[tuple[str, str], str], resamples: int
) -> RaterPair:
    shared = sorted(left.keys() & right.keys())
    return RaterPair(
        raters=(one, other),
        agreement=agreement(
            [left[key] for key in shared],
            [right[key] for key in shared],
            clusters=[pull_request for pull_request, _ in shared],
            resamples=resamples,
        ),
    )


def alpha(raters: Sequence[Mapping[tuple[str, str], str]], *, resamples: int = _RESAMPLES) -> Alpha:
    """Krippendorff's alpha for nominal answers by (pull request, finding)."""
    units: dict[tuple[str, str], list[str]] = {}
    for answers in raters:
        for key, answer in answers.items():
            units.setdefault(key, []).append(answer)
    usable = {key: answers for key, answers in sorted(units.items()) if len(answers) > 1}
    if not usable:
        return Alpha(units=0, alpha=None, low=None, high=None)

    values = sorted({answer for answers in usable.values() for answer in answers})
    clusters = sorted({pull_request for pull_request, _ in usable})
    # By pull request: disagreeing pairs per answer, and how often each value was given.
    cluster_at = {pull_request: place for place, pull_request in enumerate(clusters)}
    value_at = {answer: place for place, answer in enumerate(values)}
    disagreement = np.zeros(len(clusters))
    given = np.zeros((len(clusters), len(values)))
    for (pull_request, _), of_unit in usable.items():
        place = cluster_at[pull_request]
        counts = Counter(of_unit)
        size = len(of_unit)
        disagreement[place] += sum(number * (size - number) for number in counts.values()) / (size - 1)
        for answer, number in counts.items():
            given[place, value_at[answer]] += number

    def of(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        observed, totals = weights @ disagreement, weights @ given
        n = totals.sum(axis=1)
        expected = n**2 - (totals**2).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(expected > 0, 1 - (n - 1) * observed / expected, np.nan)

    value = float(of(np.ones((1, len(clusters))))[0])
    low = high = None
    if len(clusters) > 1 and value == value:
        draws = np.random.default_rng(_SEED).multinomial(
            len(clusters), np.full(len(clusters), 1 / len(clusters)), size=resamples
        )
        found = of(draws.astype(np.float64))
        found = found[~np.isnan(found)]
        if len(found) > _DEFINED * resamples:
            low, high = (float(bound) for bound in np.percentile(found, [2.5, 97.5]))
    return Alpha(units=len(usable), alpha=None if value != value else value, low=low, high=high)
