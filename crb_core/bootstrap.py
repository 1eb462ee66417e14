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

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crb_core.errors import InputError
from crb_core.fast_aggregate import f_measure_array
from crb_core.finding import Record
from crb_core.recipes import Floats, RatioRecipe
from crb_core.samples import Sample, complete_keys, restricted

__all__ = [
    "CONFIDENCE",
    "RESAMPLES",
    "SEED",
    "Bootstrap",
    "Comparison",
    "Interval",
    "LevelName",
]

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 20_261_122
#: Differences of scores smaller than this are ties: rounding, not a difference.
TIE = 1e-9
#: An interval needs the metric in at least this share of resamples.
_DEFINED = 0.95
#: Resamples in one product of matrices; keeps memory flat.
_CHUNK = 500

LevelName: TypeAlias = Literal["macro", "micro"]


class Interval(Record):
    """A 95% interval of a metric, in the metric's unit; both bounds are None together, with the reason."""

    low: float | None
    high: float | None
    reason: str | None = None


class Comparison(Record):
    """One build's metric minus another's, on the pull requests and rounds that both have scored.

    ``p`` is two-sided; ``exact`` says whether all exchanges were enumerated. What is undefined is None with a reason.
    """

    metric: str
    level: LevelName
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    exact: bool
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
        self._exchanged: tuple[Any, dict[str, tuple[Floats, Floats]]] = (None, {})

    def to_json(self) -> dict[str, Any]:
        """How intervals and p values were made."""
        return {
            "method": "percentile bootstrap over pull requests with all their rounds",
            "confidence": CONFIDENCE,
            "resamples": self.resamples,
            "seed": self.seed,
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
                elif _estimate(sample, level, metric) is None:
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
        needed = list(dict.fromkeys(name for metric in metrics for name in _needed(first.recipe, level, metric)))
        matrix = self._matrix("weights", len(first.keys))
        values = {metric: np.empty((len(samples), len(matrix))) for metric in metrics}
        for start, sums in _products(matrix, samples, needed):
            self._between()
            known: dict[str, Floats] = {}
            for metric in metrics:
                value = _statistic(first, sums, level, metric, known)
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
        exact = 2 ** min(len(keys), 64) <= self.resamples

        def answer(**known: Any) -> Comparison:
            empty = dict.fromkeys(("difference", "low", "high", "p", "reason"))
            fields = {"metric": metric, "level": level, "exact": exact, "pull_requests": len(keys), "rounds": rounds}
            return Comparison(**fields, **(empty | known))

        if not rounds or not keys:
            return answer(reason="no pull request was scored in the same round for both")
        mine, theirs = (restricted(sample, keys, rounds) for sample in (one, other))
        left, right = (_estimate(sample, level, metric) for sample in (mine, theirs))
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
        changed = self._after_exchanges(one, other, both, level, metric)
        # An exchange that leaves a side without a value says nothing against chance, so it counts as extreme.
        extreme = int(np.count_nonzero(np.isnan(changed) | (np.abs(changed) >= abs(difference) - TIE)))
        p = extreme / len(changed) if exact else (1 + extreme) / (1 + len(changed))
        return answer(difference=difference, low=bounds.low, high=bounds.high, p=p, reason=bounds.reason)

    def prepare(self, samples: Sequence[Sample], level: LevelName, metrics: Sequence[str]) -> None:
        """Make at once what comparing these samples with each other needs; saves time, changes no digit."""
        alike: dict[_Part, list[Sample]] = {}
        for sample in samples if metrics else ():
            if sample.rounds and sample.present.all():
                alike.setdefault((sample.keys, sample.rounds), []).append(sample)
        for part, mine in alike.items():
            by_metric = {metric: _needed(mine[0].recipe, level, metric) for metric in metrics}
            needed = list(dict.fromkeys(name for names in by_metric.values() for name in names))
            matrix = self._matrix("swaps", len(part[0]))
            sums = {name: np.empty((len(mine), len(part[1]), len(matrix))) for name in needed}
            for start, chunk in _products(matrix, mine, needed):
                self._between()
                for name in needed:
                    sums[name][:, :, start : start + chunk[name].shape[-1]] = chunk[name]
            values = self._values_of(mine, level, metrics)
            for place, sample in enumerate(mine):
                for metric, names in by_metric.items():
                    self._swap_sums[sample, part, level, metric] = {name: sums[name][place] for name in names}
                    self._values[sample, part, level, metric] = values[metric][place]

    def _resampled_values(self, sample: Sample, part: _Part, level: LevelName, metric: str) -> Floats:
        if (sample, part, level, metric) not in self._values:
            found = self._values_of([restricted(sample, *part)], level, [metric])[metric][0]
            self._values[sample, part, level, metric] = found
        return self._values[sample, part, level, metric]

    def _swapped(self, sample: Sample, part: _Part, level: LevelName, metric: str) -> dict[str, Floats]:
        """By column the sums over the exchanged pull requests: shape (rounds, exchanges)."""
        if (sample, part, level, metric) not in self._swap_sums:
            needed = _needed(sample.recipe, level, metric)
            chunks = [
                chunk
                for _, chunk in _products(self._matrix("swaps", len(part[0])), [restricted(sample, *part)], needed)
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
            my_total, their_total = (_totals(sample, level, ratio) for sample in (mine, theirs))
            my_swaps, their_swaps = (self._swapped(sample, part, level, metric) for sample in (one, other))
            moved = {name: their_swaps[name] - my_swaps[name] for name in my_total}
            known[ratio] = (
                _ratio(mine, {name: my_total[name] + moved[name] for name in moved}, level, ratio),
                _ratio(theirs, {name: their_total[name] - moved[name] for name in moved}, level, ratio),
            )
        sides = (mine, theirs)
        values = [_metric(sides[side], {ratio: known[ratio][side] for ratio in ratios}, metric) for side in (0, 1)]
        return values[0] - values[1]

    def _matrix(self, kind: str, n: int) -> NDArray[np.uint16]:
        return (_weights if kind == "weights" else _swaps)(n, self.resamples, self.seed)


def _common_keys(one: Sample, other: Sample, rounds: tuple[int, ...]) -> tuple[str, ...]:
    """The pull requests that have a score in each of these rounds of both."""
    if one.keys == other.keys and one.present.all() and other.present.all():
        return one.keys
    theirs = set(complete_keys(other, rounds))
    return tuple(key for key in complete_keys(one, rounds) if key in theirs)


@lru_cache(maxsize=8)
def _swaps(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """Which of ``n`` pull requests each exchange takes: 0 or 1."""
    if 2 ** min(n, 64) <= resamples:
        everyone = np.arange(2**n, dtype=np.uint64)[:, None]
        return ((everyone >> np.arange(n, dtype=np.uint64)) & np.uint64(1)).astype(np.uint16)
    # A stream of its own, so that exchanges are independent of the resamples.
    raw = np.random.PCG64(seed + 1).random_raw(resamples * n)
    return (raw >> np.uint64(63)).astype(np.uint16).reshape(resamples, n)


def _percentiles(values: Floats, parts: Sequence[float]) -> list[float]:
    """Type 7, like ``distribution.percentile``, of values in any order."""
    last = len(values) - 1
    places = [((last * p), int(last * p), min(int(last * p) + 1, last)) for p in parts]
    # Only these places have to be in order: a third of the time of sorting all.
    ordered = np.partition(values, sorted({place for _, *both in places for place in both}))
    return [float(ordered[low] + (h - low) * (ordered[high] - ordered[low])) for h, low, high in places]


@lru_cache(maxsize=8)
def _weights(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each of ``n`` pull requests is drawn in each resample; every row sums to ``n``."""
    if n >= 2**16:
        raise InputError(f"intervals are made for fewer than {2**16} pull requests, not {n}")
    raw = np.random.PCG64(seed).random_raw(resamples * n)
    drawn = ((raw >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)
    row = np.repeat(np.arange(resamples, dtype=np.int64), n)
    counted = np.bincount(row * n + drawn.astype(np.int64), minlength=resamples * n)
    return counted.astype(np.uint16).reshape(resamples, n)


def _needed(recipe: RatioRecipe, level: LevelName, metric: str) -> list[str]:
    """The columns that a metric is made of."""
    ratios = recipe.measures.f_measures.get(metric, (metric,))
    if level == "macro":
        return [f"{kind} {name}" for name in ratios for kind in ("value", "defined")]
    terms = [term.removeprefix("-") for name in ratios for side in recipe.ratios[name] for term in side]
    return [f"count {name}" for name in dict.fromkeys(terms)]


def _scale(n: int) -> float:
    """A power of two such that ``n`` rounded ratios of at most 1 sum to less than 2^53."""
    return 2.0 ** (52 - max(1, n).bit_length())


def _columns(sample: Sample, names: Sequence[str]) -> Floats:
    """The columns as whole numbers: shape (pull requests, rounds, names)."""
    scale = _scale(len(sample.keys))
    found = sample.data[:, :, [sample.names.index(name) for name in names]]
    rounded = [name.startswith("value ") for name in names]
    found[:, :, rounded] = np.rint(found[:, :, rounded] * scale)
    return found


def _products(
    matrix: NDArray[np.uint16], samples: Sequence[Sample], names: Sequence[str]
) -> Iterator[tuple[int, dict[str, Floats]]]:
    """Rows of ``matrix`` times the columns of samples of equal shape, in chunks of rows.

    Yields the first row of the chunk and by column its sums of shape (samples, rounds, rows).
    """
    # Rows last, so that what is computed of the sums runs along long contiguous lines.
    data = np.stack([_columns(sample, names) for sample in samples]).transpose(3, 0, 2, 1)
    shape = data.shape[:-1]
    flat = np.ascontiguousarray(data).reshape(-1, data.shape[-1])
    for start in range(0, len(matrix), _CHUNK):
        product = (flat @ matrix[start : start + _CHUNK].astype(np.float64).T).reshape(*shape, -1)
        yield start, {name: product[place] for place, name in enumerate(names)}


def _totals(sample: Sample, level: LevelName, metric: str) -> dict[str, Floats]:
    """By column the sum over all pull requests: shape (rounds, 1)."""
    names = _needed(sample.recipe, level, metric)
    sums = _columns(sample, names).sum(axis=0)
    return {name: sums[:, place, None] for place, name in enumerate(names)}


def _statistic(
    sample: Sample, sums: Mapping[str, Floats], level: LevelName, metric: str, known: dict[str, Floats] | None = None
) -> Floats:
    """The metric of summed columns of shape (..., rounds, rows), the mean over the rounds; NaN where a round has none.

    ``known`` keeps the ratios of these sums for the next metric.
    """
    ratios = {} if known is None else known
    for name in sample.recipe.measures.f_measures.get(metric, (metric,)):
        if name not in ratios:
            ratios[name] = _ratio(sample, sums, level, name)
    return _metric(sample, ratios, metric)


def _ratio(sample: Sample, sums: Mapping[str, Floats], level: LevelName, name: str) -> Floats:
    """A ratio of summed columns, by round; NaN where it is undefined."""
    if level == "macro":
        above, below = sums[f"value {name}"] / _scale(len(sample.keys)), sums[f"defined {name}"]
    else:
        above, below = (_terms(sums, side) for side in sample.recipe.ratios[name])
    found: Floats = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0)
    return found


def _metric(sample: Sample, ratios: Mapping[str, Floats], metric: str) -> Floats:
    """A metric of ratios by round (the last axis but one): the mean over the rounds."""
    parts = sample.recipe.measures.f_measures.get(metric)
    value = ratios[metric] if parts is None else f_measure_array(ratios[parts[0]], ratios[parts[1]], sample.beta)
    found: Floats = value.mean(axis=-2)
    return found


def _terms(sums: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    total: Floats = sum(
        (-sums[f"count {name[1:]}"] if name.startswith("-") else sums[f"count {name}"]) for name in names
    )  # type: ignore[assignment]
    return total


def _estimate(sample: Sample, level: LevelName, metric: str) -> float | None:
    ratios = sample.recipe.measures.f_measures.get(metric, (metric,))
    if not sample.rounds or sample.undefined & set(ratios):
        return None
    value = float(_statistic(sample, _totals(sample, level, metric), level, metric)[0])
    return None if value != value else value
