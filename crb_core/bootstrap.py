"""Uncertainty of a score over pull requests (rule 22).

*Interval*: percentile bootstrap at 95%. Pull requests are resampled with replacement, each with all its rounds, because
findings of one pull request and rounds over it are not independent; the metric is computed anew from every resample.

    Efron, B. and Tibshirani, R. (1993). An Introduction to the Bootstrap, chapters 13 and 16. Chapman & Hall.

*Paired comparison* of two agent builds on the same pull requests: the same resamples for both give the interval of the
difference. Its p is that of the two-sided randomisation test which exchanges the two builds' results of a pull request
(all rounds): every one of the 2^n exchanges where these are at most the resamples, else seeded random ones, where the
observed arrangement counts as one of them.

    Fisher, R. A. (1935). The Design of Experiments, chapter 3. Oliver & Boyd.
    Phipson, B. and Smyth, G. K. (2010). Permutation P-values Should Never Be Zero. SAGMB 9(1), article 39.

The same input and seed give the same digits on every machine: the generator's raw stream is fixed (PCG64), and sums are
of whole numbers below 2^53, which no order of additions can change. Ratios are rounded to that end, to 2^-38 or finer
for fewer than 16,384 pull requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crb_core.aggregate import TIE
from crb_core.draws import has_all_exchanges, swaps, weights
from crb_core.errors import InputError
from crb_core.finding import Record
from crb_core.recipes import Floats
from crb_core.sample_sums import (
    LevelName,
    columns_needed,
    estimate,
    metric_of_ratios,
    products,
    ratio_of_sums,
    statistic,
    totals,
)
from crb_core.samples import Sample, complete_keys, restricted

__all__ = [
    "CONFIDENCE",
    "RESAMPLES",
    "SEED",
    "Bootstrap",
    "Comparison",
    "Interval",
    "LevelName",
    "caution",
]

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20_261_122
#: With fewer pull requests than this, clearly less than 95% of the intervals hold the true value.
FEW = 10
#: With fewer than this even the clearest difference has p = 2/2^n above 5%.
FEWEST = 6
#: An interval needs the metric in at least this share of resamples.
_DEFINED = 0.95
#: From so many exchanges as extreme as what was observed, p is known well enough.
_FEW_EXTREME = 10


def caution(pull_requests: int) -> str | None:
    """What a reader of intervals and letters must know where they rest on few pull requests (decision 0007)."""
    if not 0 < pull_requests < FEW:
        return None
    what = "1 pull request is" if pull_requests == 1 else f"{pull_requests} pull requests are"
    if pull_requests < FEWEST:
        return f"{what} too few: intervals are much too narrow, and no two rows can be told apart"
    return f"{what} few: intervals are too narrow"


class Interval(Record):
    """A 95% interval of a metric, in the metric's unit; both bounds are None together, with the reason."""

    low: float | None
    high: float | None
    reason: str | None = None


class Comparison(Record):
    """One build's metric minus another's, on the pull requests and rounds that both have scored.

    ``p`` is two-sided, over ``exchanges`` of the builds' results; ``exact`` says whether these are all there are. What
    is undefined is None with a reason.
    """

    metric: str
    level: LevelName
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    exact: bool
    exchanges: int
    pull_requests: int
    rounds: tuple[int, ...]
    reason: str | None = None


#: Pull requests and rounds of a comparison.
_Part: TypeAlias = tuple[tuple[str, ...], tuple[int, ...]]


class Bootstrap:
    """Resamples and exchanges of one seed; the sums of every sample are made once and reused by all comparisons."""

    def __init__(
        self, resamples: int = RESAMPLES, seed: int = SEED, *, between: Callable[[], None] = lambda: None
    ) -> None:
        """``between`` is called between pieces of work of some hundredths of a second, so that it can let others go
        first or, by raising, end the work."""
        if resamples < 1:
            raise InputError(f"an interval needs at least one resample, not {resamples}")
        if seed < 0:
            raise InputError(f"a seed is a whole number of at least 0, not {seed}")
        self.resamples = resamples
        self.seed = seed
        self._between = between
        self._values: dict[tuple[Sample, _Part, LevelName, str], Floats] = {}
        self._swap_sums: dict[tuple[Sample, _Part, LevelName, str], dict[str, Floats]] = {}
        #: Number of the first exchange in the stream of random ones.
        self._first_exchange = 0
        self._exchanged: tuple[Any, dict[str, tuple[Floats, Floats]]] = (None, {})

    def to_json(self, pull_requests: int) -> dict[str, Any]:
        """How intervals and p values were made, and what to think of them with so many pull requests at most."""
        return {
            "method": "percentile bootstrap over pull requests with all their rounds",
            "confidence": CONFIDENCE,
            "resamples": self.resamples,
            "seed": self.seed,
            "caution": caution(pull_requests),
        }

    def intervals(
        self, samples: Sequence[Sample], level: LevelName, metrics: Sequence[str]
    ) -> list[dict[str, Interval]]:
        """The intervals of builds: of each metric the mean of its rounds' values, as the row shows it."""
        found: list[dict[str, Interval]] = [{} for _ in samples]
        alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[int]] = {}
        for place, sample in enumerate(samples):
            for metric in metrics:
                if len(sample.keys) < 2:
                    found[place][metric] = Interval(low=None, high=None, reason="an interval needs two pull requests")
                elif estimate(sample, level, metric) is None:
                    found[place][metric] = Interval(low=None, high=None, reason="the metric is undefined")
            if len(sample.keys) > 1 and sample.rounds:
                alike.setdefault((sample.keys, sample.rounds), []).append(place)
        for places in alike.values():
            mine = [samples[place] for place in places]
            values = self._values_of(mine, level, metrics)
            for column, place in enumerate(places):
                for metric in metrics:
                    if metric not in found[place]:
                        found[place][metric] = self._bounds(values[metric][column])
        return [{metric: each[metric] for metric in metrics} for each in found]

    def _values_of(self, samples: Sequence[Sample], level: LevelName, metrics: Sequence[str]) -> dict[str, Floats]:
        """Each metric of samples of equal pull requests and rounds, in every resample: shape (samples, resamples)."""
        first = samples[0]
        needed = list(dict.fromkeys(name for metric in metrics for name in columns_needed(first.recipe, level, metric)))
        matrix = self._matrix("weights", len(first.keys))
        values = {metric: np.empty((len(samples), len(matrix))) for metric in metrics}
        for start, sums in products(matrix, samples, needed):
            self._between()
            known: dict[str, Floats] = {}
            for metric in metrics:
                value = statistic(first, sums, level, metric, known)
                values[metric][:, start : start + value.shape[-1]] = value
        return values

    def _bounds(self, values: Floats) -> Interval:
        defined = values[~np.isnan(values)]
        if len(defined) < _DEFINED * len(values):
            reason = f"undefined in {len(values) - len(defined)} of {len(values)} resamples"
            return Interval(low=None, high=None, reason=reason)
        tail = (1 - CONFIDENCE) / 2
        low, high = _percentiles(defined, (tail, 1 - tail))
        return Interval(low=low, high=high)

    def compare(self, one: Sample, other: Sample, metric: str, level: LevelName = "macro") -> Comparison:
        """``one`` minus ``other`` on what both have scored."""
        self._between()
        rounds = tuple(number for number in one.rounds if number in other.rounds)
        keys = _common_keys(one, other, rounds)
        exact = has_all_exchanges(len(keys), self.resamples)
        exchanges = 2 ** len(keys) if exact else self.resamples

        def answer(**known: Any) -> Comparison:
            empty = dict.fromkeys(("difference", "low", "high", "p", "reason"))
            about = {"metric": metric, "level": level, "pull_requests": len(keys), "rounds": rounds}
            return Comparison(**about, exact=exact, exchanges=exchanges, **(empty | known))

        if not rounds or not keys:
            return answer(reason="no pull request was scored in the same round for both")
        mine, theirs = (restricted(sample, keys, rounds) for sample in (one, other))
        left, right = (estimate(sample, level, metric) for sample in (mine, theirs))
        if left is None or right is None:
            return answer(reason="the metric is undefined")
        difference = left - right
        both = (keys, rounds)
        values = [self._resampled_values(sample, both, level, metric) for sample in (one, other)]
        bounds = (
            self._bounds(values[0] - values[1])
            if len(keys) > 1
            else Interval(low=None, high=None, reason="an interval needs two pull requests")
        )
        extreme = self._extreme(one, other, both, level, metric, difference)
        p = extreme / exchanges if exact else (1 + extreme) / (1 + exchanges)
        return answer(difference=difference, low=bounds.low, high=bounds.high, p=p, reason=bounds.reason)

    def finer(
        self, compared: Sequence[tuple[Sample, Sample, Comparison]], exchanges: int, metric: str, level: LevelName
    ) -> list[Comparison]:
        """Comparisons by ``metric`` with p values over at least ``exchanges`` exchanges, where that can matter.

        It can where p is of random exchanges and fewer than ten of them were as extreme: then p is known roughly, and
        cannot be smaller than one in their number, however clear the difference. The others stay as they are.
        """
        open_ = {
            place: round(found.p * (1 + found.exchanges))
            for place, (_, _, found) in enumerate(compared)
            if found.p is not None and not found.exact and found.p * (1 + found.exchanges) < 1 + _FEW_EXTREME
        }
        if not open_:
            return [found for _, _, found in compared]
        parts = max(1, -(-exchanges // self.resamples))
        samples = list(dict.fromkeys(sample for place in open_ for sample in compared[place][:2]))
        for part in range(1, parts):
            further = Bootstrap(self.resamples, self.seed, between=self._between)
            further._first_exchange = part * self.resamples
            further._prepare_swaps(samples, level, [metric])
            for place in open_:
                one, other, found = compared[place]
                self._between()
                both = (_common_keys(one, other, found.rounds), found.rounds)
                open_[place] += further._extreme(one, other, both, level, metric, found.difference or 0.0)
        number = parts * self.resamples
        return [
            found.model_copy(update={"p": open_[place] / (1 + number), "exchanges": number})
            if place in open_
            else found
            for place, (_, _, found) in enumerate(compared)
        ]

    def _extreme(
        self, one: Sample, other: Sample, part: _Part, level: LevelName, metric: str, difference: float
    ) -> int:
        """After how many exchanges the difference is as large."""
        changed = self._after_exchanges(one, other, part, level, metric)
        # An exchange that leaves a side without a value says nothing against chance, so it counts as extreme.
        return int(np.count_nonzero(np.isnan(changed) | (np.abs(changed) >= abs(difference) - TIE)))

    def prepare(self, samples: Sequence[Sample], level: LevelName, metrics: Sequence[str]) -> None:
        """Make at once what comparing these samples with each other needs; saves time, changes no digit."""
        for part, mine in _alike(samples if metrics else ()).items():
            values = self._values_of(mine, level, metrics)
            for place, sample in enumerate(mine):
                for metric in metrics:
                    self._values[sample, part, level, metric] = values[metric][place]
        self._prepare_swaps(samples, level, metrics)

    def _prepare_swaps(self, samples: Sequence[Sample], level: LevelName, metrics: Sequence[str]) -> None:
        for part, mine in _alike(samples if metrics else ()).items():
            by_metric = {metric: columns_needed(mine[0].recipe, level, metric) for metric in metrics}
            needed = list(dict.fromkeys(name for names in by_metric.values() for name in names))
            matrix = self._matrix("swaps", len(part[0]))
            sums = {name: np.empty((len(mine), len(part[1]), len(matrix))) for name in needed}
            for start, chunk in products(matrix, mine, needed):
                self._between()
                for name in needed:
                    sums[name][:, :, start : start + chunk[name].shape[-1]] = chunk[name]
            for place, sample in enumerate(mine):
                for metric, names in by_metric.items():
                    self._swap_sums[sample, part, level, metric] = {name: sums[name][place] for name in names}

    def _resampled_values(self, sample: Sample, part: _Part, level: LevelName, metric: str) -> Floats:
        if (sample, part, level, metric) not in self._values:
            found = self._values_of([restricted(sample, *part)], level, [metric])[metric][0]
            self._values[sample, part, level, metric] = found
        return self._values[sample, part, level, metric]

    def _swapped(self, sample: Sample, part: _Part, level: LevelName, metric: str) -> dict[str, Floats]:
        """By column the sums over the exchanged pull requests: shape (rounds, exchanges)."""
        if (sample, part, level, metric) not in self._swap_sums:
            needed = columns_needed(sample.recipe, level, metric)
            chunks = [
                chunk for _, chunk in products(self._matrix("swaps", len(part[0])), [restricted(sample, *part)], needed)
            ]
            found = {name: np.concatenate([chunk[name][0] for chunk in chunks], axis=-1) for name in needed}
            self._swap_sums[sample, part, level, metric] = found
        return self._swap_sums[sample, part, level, metric]

    def _after_exchanges(self, one: Sample, other: Sample, part: _Part, level: LevelName, metric: str) -> Floats:
        """One's metric minus the other's after each exchange; NaN where a side has none."""
        pair = (one, other, part, level)
        if self._exchanged[0] != pair:
            # The metrics of a pair come one after the other, and F is made of its precision and recall.
            self._exchanged = (pair, {})
        known = self._exchanged[1]
        mine, theirs = (restricted(sample, *part) for sample in (one, other))
        ratios = one.recipe.measures.f_measures.get(metric, (metric,))
        for ratio in ratios:
            if ratio in known:
                continue
            my_total, their_total = (totals(sample, level, ratio) for sample in (mine, theirs))
            my_swaps, their_swaps = (self._swapped(sample, part, level, metric) for sample in (one, other))
            moved = {name: their_swaps[name] - my_swaps[name] for name in my_total}
            known[ratio] = (
                ratio_of_sums(mine, {name: my_total[name] + moved[name] for name in moved}, level, ratio),
                ratio_of_sums(theirs, {name: their_total[name] - moved[name] for name in moved}, level, ratio),
            )
        sides = (mine, theirs)
        values = [
            metric_of_ratios(sides[side], {ratio: known[ratio][side] for ratio in ratios}, metric) for side in (0, 1)
        ]
        return values[0] - values[1]

    def _matrix(self, kind: str, n: int) -> NDArray[np.uint16]:
        if kind == "weights":
            return weights(n, self.resamples, self.seed)
        return swaps(n, self.resamples, self.seed, self._first_exchange)


def _alike(samples: Sequence[Sample]) -> dict[_Part, list[Sample]]:
    """The samples that are complete, by pull requests and rounds."""
    found: dict[_Part, list[Sample]] = {}
    for sample in samples:
        if sample.rounds and sample.present.all():
            found.setdefault((sample.keys, sample.rounds), []).append(sample)
    return found


def _common_keys(one: Sample, other: Sample, rounds: tuple[int, ...]) -> tuple[str, ...]:
    """The pull requests that have a score in each of these rounds of both."""
    if one.keys == other.keys and one.present.all() and other.present.all():
        return one.keys
    theirs = set(complete_keys(other, rounds))
    return tuple(key for key in complete_keys(one, rounds) if key in theirs)


def _percentiles(values: Floats, parts: Sequence[float]) -> list[float]:
    """Type 7, like ``distribution.percentile``, of values in any order."""
    last = len(values) - 1
    places = [((last * p), int(last * p), min(int(last * p) + 1, last)) for p in parts]
    # Only these places have to be in order: a third of the time of sorting all.
    ordered = np.partition(values, sorted({place for _, *both in places for place in both}))
    return [float(ordered[low] + (h - low) * (ordered[high] - ordered[low])) for h, low, high in places]
