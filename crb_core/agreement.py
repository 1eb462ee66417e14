"""Agreement between two judges: raw, and Cohen's kappa with an interval.

Cohen, J. (1960). A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, 37-46.
The interval is a percentile bootstrap over pull requests (rule 22), because answers within one are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from pydantic import Field

from crb_core.errors import InputError
from crb_core.finding import LABEL_AXES, CandidateFinding, GoldenFinding, Record
from crb_core.matching import JudgedPullRequest

__all__ = ["Agreement", "MatchAgreement", "agreement", "coverage_agreement", "label_agreement", "match_agreement"]

#: Resamples of an interval.
RESAMPLES = 10_000

_SEED = 20_240_229


class Agreement(Record):
    """How often two judges give the same answer to the same question.

    ``n`` questions in ``clusters`` pull requests; ``raw`` the share of equal answers; ``kappa`` the same beyond chance,
    null where chance alone gives full agreement (all answers equal) or there is nothing to compare. ``kappa_low`` and
    ``kappa_high`` bound its 95% interval, null under two clusters or where a resample in twenty or more has no kappa.
    """

    n: int = Field(ge=0)
    clusters: int = Field(ge=0)
    raw: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None


class MatchAgreement(Record):
    """Agreement on matches. ``pairs``: are these two one issue. ``covered``: does any candidate match this golden."""

    pairs: Agreement
    covered: Agreement


def agreement(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = _SEED,
) -> Agreement:
    """Agreement of two lists of answers, of any nominal categories, to the same questions.

    ``clusters`` names the pull request of each question; without it every question is a cluster of its own. The same
    input and ``seed`` give the same interval. Lists of unequal length are an InputError.
    """
    names = list(clusters) if clusters is not None else list(range(len(first)))
    if not len(first) == len(second) == len(names):
        raise InputError(
            f"agreement needs one answer a question from each judge, but there are {len(first)} and {len(second)} "
            f"answers for {len(names)} questions"
        )
    if resamples < 1:
        raise InputError(f"an interval needs at least one resample, not {resamples}")
    if not names:
        return Agreement(n=0, clusters=0, raw=None, kappa=None, kappa_low=None, kappa_high=None)

    import numpy as np

    categories = {answer: place for place, answer in enumerate(dict.fromkeys([*first, *second]))}
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    table = np.zeros((len(places), len(categories), len(categories)))
    for name, left, right in zip(names, first, second, strict=True):
        table[places[name], categories[left], categories[right]] += 1
    raw, kappa = _raw_and_kappa(table.sum(axis=0)[None])
    low = high = None
    if len(places) > 1 and not np.isnan(kappa[0]):
        generator = np.random.default_rng(seed)
        found: list[float] = []
        for start in range(0, resamples, 1000):
            size = min(1000, resamples - start)
            draws = generator.multinomial(len(places), np.full(len(places), 1 / len(places)), size=size)
            _, values = _raw_and_kappa(np.tensordot(draws, table, axes=1))
            found.extend(values[~np.isnan(values)].tolist())
        if len(found) > 0.95 * resamples:
            low, high = (float(bound) for bound in np.percentile(found, [2.5, 97.5]))
    return Agreement(
        n=len(names),
        clusters=len(places),
        raw=float(raw[0]),
        kappa=None if np.isnan(kappa[0]) else float(kappa[0]),
        kappa_low=low,
        kappa_high=high,
    )


def match_agreement(
    trials: Iterable[tuple[JudgedPullRequest, JudgedPullRequest]],
    *,
    comparable: Callable[[CandidateFinding, GoldenFinding], bool],
    resamples: int = RESAMPLES,
    seed: int = _SEED,
) -> MatchAgreement:
    """How far two judges agree on the matches of the same trials.

    A trial is the same pull request with equal candidates and goldens, judged by the first and by the second judge;
    anything else is an InputError. ``comparable`` says which pairs the protocol compares at all, for example the same
    file; pairs that no judge may match are not counted. Resampling is over pull request keys with all their trials.
    """
    pairs: list[tuple[str, bool, bool]] = []
    covered: list[tuple[str, bool, bool]] = []
    for first, second in trials:
        if (first.key, first.candidates, first.golden) != (second.key, second.candidates, second.golden):
            raise InputError(
                f"the judgments of {first.key} and {second.key} are not of the same trial",
                remedy="Compare judgments of one trial: equal pull request, candidates and golden findings",
            )
        left, right = _matches(first), _matches(second)
        for golden, finding in enumerate(first.golden):
            candidates = [place for place, other in enumerate(first.candidates) if comparable(other, finding)]
            pairs += [(first.key, (place, golden) in left, (place, golden) in right) for place in candidates]
            if candidates:
                covered.append(
                    (
                        first.key,
                        any((place, golden) in left for place in candidates),
                        any((place, golden) in right for place in candidates),
                    )
                )
    return MatchAgreement(
        pairs=_of_units(pairs, resamples, seed),
        covered=_of_units(covered, resamples, seed),
    )


def coverage_agreement(
    reviews: Iterable[tuple[JudgedPullRequest, JudgedPullRequest]],
    *,
    comparable: Callable[[CandidateFinding, GoldenFinding], bool],
    resamples: int = RESAMPLES,
    seed: int = _SEED,
) -> Agreement:
    """How far two judges agree on which goldens a reviewer covers, where each judged candidates of its own.

    As ``covered`` of ``match_agreement``, for one reviewer's remarks that were split into findings twice: only goldens
    are the same. A golden is counted where both have a candidate that is compared with it. InputError where the
    goldens differ.
    """
    covered: list[tuple[str, bool, bool]] = []
    for first, second in reviews:
        if (first.key, first.golden) != (second.key, second.golden):
            raise InputError(
                f"the judgments of {first.key} and {second.key} are not against the same golden findings",
                remedy="Compare judgments of one pull request and corpus",
            )
        left, right = _matches(first), _matches(second)
        for golden, finding in enumerate(first.golden):
            if all(any(comparable(other, finding) for other in each.candidates) for each in (first, second)):
                covered.append(
                    (
                        first.key,
                        any(position == golden for _, position in left),
                        any(position == golden for _, position in right),
                    )
                )
    return _of_units(covered, resamples, seed)


def label_agreement(
    trials: Iterable[tuple[JudgedPullRequest, JudgedPullRequest]], *, resamples: int = RESAMPLES, seed: int = _SEED
) -> dict[str, Agreement]:
    """How far two judges agree on the labels of the candidates that both classified, by axis that both answered."""
    answers: dict[str, list[tuple[str, str, str]]] = {}
    for first, second in trials:
        others = {each.candidate: each.label for each in second.classifications}
        for each in first.classifications:
            if each.candidate not in others:
                continue
            for axis in LABEL_AXES:
                left, right = getattr(each.label, axis), getattr(others[each.candidate], axis)
                if left is not None and right is not None:
                    answers.setdefault(axis, []).append((first.key, str(left), str(right)))
    return {
        axis: agreement(
            [left for _, left, _ in answers[axis]],
            [right for _, _, right in answers[axis]],
            clusters=[key for key, _, _ in answers[axis]],
            resamples=resamples,
            seed=seed,
        )
        for axis in LABEL_AXES
        if axis in answers
    }


def _matches(judged: JudgedPullRequest) -> set[tuple[int, int]]:
    return {(record.candidate, golden) for record in judged.correspondences for golden in record.golden}


def _of_units(units: Sequence[tuple[str, bool, bool]], resamples: int, seed: int) -> Agreement:
    return agreement(
        [left for _, left, _ in units],
        [right for _, _, right in units],
        clusters=[key for key, _, _ in units],
        resamples=resamples,
        seed=seed,
    )


def _raw_and_kappa(tables: Any) -> tuple[Any, Any]:
    """Raw agreement and kappa (NaN where undefined) of an array of contingency tables, shape (tables, k, k)."""
    import numpy as np

    total = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2)
    # In counts, so that equal margins give exactly zero and not a rounding error of it.
    expected = (tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1)
    room = total**2 - expected
    with np.errstate(invalid="ignore", divide="ignore"):
        return observed / total, np.where(room > 0, (observed * total - expected) / room, np.nan)
