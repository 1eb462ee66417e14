"""From count arrays to macro and micro metrics of every group at once (the rules of ``crb_core.aggregate``).

Equal to ``aggregate.summarise`` digit by digit: ratios and F measures use the same operations in the same order, and
the sums of a mean are compensated (Neumaier), so that they round once like ``math.fsum``.

Neumaier, A. (1974). Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen. ZAMM 54, 39-51.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from crb_core.aggregate import Level, PullRequestScore, Score, check_beta
from crb_core.fast_score import CountArrays, count
from crb_core.recipes import Floats, RatioRecipe, Recipe
from crb_core.scoring_arrays import Ints, ScoringArrays
from crb_core.strata import EVERYTHING, Subset

__all__ = ["FastScores", "f_measure_array", "ratio_arrays", "rescore"]


#: Names, and by name, group and level the value.
_Table: TypeAlias = tuple[tuple[str, ...], list[list[list[Any]]]]

#: How many slots ``_means`` takes at a time.
_SLOTS = 32


@dataclass(frozen=True, eq=False)
class FastScores:
    """Macro and micro metrics of every group, overall and by stratum; NaN stands for undefined.

    ``macro`` and ``micro`` map a metric to an array of shape (levels, groups), ``n`` a ratio to how many pull requests
    its macro mean stands on, ``total`` a count to its sum. Level 0 is the whole subset.
    """

    counted: CountArrays
    beta: float
    macro: Mapping[str, Floats]
    micro: Mapping[str, Floats]
    n: Mapping[str, Ints]
    total: Mapping[str, Floats]

    @property
    def arrays(self) -> ScoringArrays:
        return self.counted.arrays

    def score(self, group: int, *, per_pull_request: bool = True) -> Score[Any]:
        """One group as the record that ``aggregate.summarise`` gives."""
        recipe, subset = self.arrays.recipe, self.counted.subset
        axes = self.counted.axes
        present = self.counted.exists[:, group]
        macro: dict[str, dict[str, Any]] = {axis: {} for axis in axes}
        micro: dict[str, dict[str, Any]] = {axis: {} for axis in axes}
        n: dict[str, Any] = {"overall": self._numbers(0, group), **{axis: {} for axis in axes}}
        places = {place: name for place, name in enumerate(self.counted.levels, start=1) if present[place]}
        for place, (axis, value) in sorted(places.items(), key=lambda item: item[1]):
            macro[axis][value] = self._metrics(self.macro, place, group)
            micro[axis][value] = self._metrics(self.micro, place, group)
            n[axis][value] = self._numbers(place, group)
        return Score(
            protocol=recipe.protocol,
            beta=self.beta,
            subset=subset,
            macro=Level(self._metrics(self.macro, 0, group), MappingProxyType(macro)),
            micro=Level(self._metrics(self.micro, 0, group), MappingProxyType(micro)),
            n=MappingProxyType(n),
            per_pull_request=self.per_pull_request(group) if per_pull_request else (),
        )

    def score_json(self, group: int) -> dict[str, Any]:
        """``aggregate.to_json`` of ``score(group)`` without single pull requests, made without its records."""
        axes, levels, present = self.counted.axes, self.counted.levels, self.counted.exists[:, group]
        places = [0, *sorted((p for p in range(1, len(levels) + 1) if present[p]), key=lambda p: levels[p - 1])]
        document: dict[str, Any] = {
            "format": "crb.score/1",
            "protocol": self.arrays.recipe.protocol,
            "beta": self.beta,
            "filters": self.counted.subset.to_json(),
        }
        for level in ("macro", "micro"):
            document[level] = _by_axis(axes, levels, places, self._plain[level], group)
        document["macro"]["n"] = _by_axis(axes, levels, places, self._plain["n"], group)
        return document

    @cached_property
    def _plain(self) -> Mapping[str, _Table]:
        """The metric sets of both levels, and the numbers behind the macro means, as plain Python values."""
        names = tuple(self.arrays.recipe.measures.metric_set.model_fields)
        # Its properties are sums and differences, of arrays as of numbers.
        counts = self.arrays.recipe.counts(**self.total)

        def metric_sets(values: Mapping[str, Floats]) -> _Table:
            columns = []
            for name in names:
                if name in values:
                    column = values[name].T.astype(object)
                    column[np.isnan(values[name].T)] = None
                else:
                    column = getattr(counts, name).T.astype(np.int64)
                columns.append(column.tolist())
            return names, columns

        numbers = tuple(self.n), [column.T.tolist() for column in self.n.values()]
        return {"macro": metric_sets(self.macro), "micro": metric_sets(self.micro), "n": numbers}

    def per_pull_request(self, group: int) -> tuple[PullRequestScore[Any], ...]:
        """The metrics of each pull request of a group, in the order in which they were given."""
        measures, subset = self.arrays.recipe.measures, self.counted.subset
        found = []
        for position in self.arrays.positions(group):
            pr = self.counted.of_position(int(position))
            strata = {
                axis: {
                    value: measures.of_counts(counts, self.beta, subset) for value, counts in sorted(of_axis.items())
                }
                for axis, of_axis in pr.counts.strata.items()
            }
            overall = measures.of_counts(pr.counts.overall, self.beta, subset)
            found.append(PullRequestScore(overall=overall, strata=strata, key=pr.key))
        return tuple(found)

    def _metrics(self, values: Mapping[str, Floats], level: int, group: int) -> Any:
        metric_set = self.arrays.recipe.measures.metric_set
        counts = self.arrays.recipe.counts(**{name: int(total[level, group]) for name, total in self.total.items()})
        fields = {}
        for name in metric_set.model_fields:
            if name in values:
                value = float(values[name][level, group])
                fields[name] = None if value != value else value
            else:
                fields[name] = getattr(counts, name)
        return metric_set.model_construct(**fields)

    def _numbers(self, level: int, group: int) -> dict[str, int]:
        return {name: int(numbers[level, group]) for name, numbers in self.n.items()}


def _by_axis(
    axes: Sequence[str], levels: Sequence[tuple[str, str]], places: Sequence[int], table: _Table, group: int
) -> dict[str, Any]:
    """What a group has as a whole, and by axis and value."""
    names, columns = table
    rows = list(zip(*[column[group] for column in columns], strict=True))
    found: dict[str, Any] = {"overall": dict(zip(names, rows[0], strict=True)), **{f"by_{axis}": {} for axis in axes}}
    for place in places[1:]:
        axis, value = levels[place - 1]
        found[f"by_{axis}"][value] = dict(zip(names, rows[place], strict=True))
    return found


def rescore(
    arrays: ScoringArrays, *, beta: float = 1.0, subset: Subset = EVERYTHING, axes: Sequence[str] | None = None
) -> FastScores:
    """Score every group inside a subset, from the persisted findings, matches and labels (seed A 7.4).

    ``axes`` are those of the strata, the protocol's own by default. Without any it takes a tenth of the time, and the
    metrics of the whole subset are the same to the last digit: no level is made of another.
    """
    beta = check_beta(beta)
    counted = count(arrays, subset, axes)
    recipe = arrays.recipe
    total = {name: column.sum(axis=0) for name, column in counted.columns.items()}
    withheld = (total["unclassified_count"] > 0) | subset.restricts_goldens_only
    means, numbers = _means(recipe, counted.columns, subset)
    macro = {name: means[place] for place, name in enumerate(recipe.ratios)}
    micro = {}
    for name, (above, below) in recipe.ratios.items():
        denominator = _sum(total, below)
        nothing = np.full(denominator.shape, np.nan)
        micro[name] = np.divide(_sum(total, above), denominator, out=nothing, where=denominator > 0)
    for name in recipe.needs_labels:
        for level in (macro, micro):
            level[name] = np.where(withheld, np.nan, level[name])
    return FastScores(
        counted=counted,
        beta=beta,
        macro={**macro, **_f_measures(recipe, macro, beta)},
        micro={**micro, **_f_measures(recipe, micro, beta)},
        n={name: numbers[place] for place, name in enumerate(recipe.ratios)},
        total=total,
    )


def ratio_arrays(recipe: RatioRecipe, columns: Mapping[str, Floats], subset: Subset) -> tuple[Floats, Ints]:
    """Every ratio of every position, in the order of ``recipe.ratios``, and behind each mean the defined ones.

    The shapes are (slots, ratios, levels, groups) and (ratios, levels, groups); an undefined ratio is 0.
    """
    slots, levels, groups = columns["unclassified_count"].shape
    values = np.empty((slots, len(recipe.ratios), levels, groups))
    numbers = np.empty((len(recipe.ratios), levels, groups), dtype=np.int64)
    judged = columns["unclassified_count"] == 0
    everything_judged = bool(judged.all())
    for place, (name, (above, below)) in enumerate(recipe.ratios.items()):
        denominator = _sum(columns, below)
        defined = denominator > 0
        # A numerator never exceeds its denominator, so an empty one gives 0 here.
        np.divide(_sum(columns, above), np.maximum(denominator, 1), out=values[:, place])
        if name in recipe.needs_labels and subset.restricts_goldens_only:
            values[:, place] = 0
            defined[:] = False
        elif name in recipe.needs_labels and not everything_judged:
            values[:, place] *= judged
            defined &= judged
        np.add.reduce(defined, axis=0, dtype=np.int64, out=numbers[place])
    return values, numbers


def f_measure_array(precision: Floats, recall: Floats, beta: float) -> Floats:
    """F-beta of each pair (rule 11); NaN stands for undefined, and both 0 give 0."""
    weight = beta * beta
    below = weight * precision + recall
    found = np.divide((1 + weight) * precision * recall, below, out=np.zeros(np.shape(below)), where=below > 0)
    return np.where(np.isnan(below), np.nan, found)


def _f_measures(recipe: Recipe, level: Mapping[str, Floats], beta: float) -> dict[str, Floats]:
    return {
        name: f_measure_array(level[precision], level[recall], beta)
        for name, (precision, recall) in recipe.measures.f_measures.items()
    }


def _sum(columns: Mapping[str, Floats], names: tuple[str, ...]) -> Floats:
    total = columns[names[0]]
    for name in names[1:]:
        total = total - columns[name[1:]] if name.startswith("-") else total + columns[name]
    return total


def _means(recipe: RatioRecipe, columns: Mapping[str, Floats], subset: Subset) -> tuple[Floats, Ints]:
    """The mean of every ratio over the slots, and over how many it is; NaN where over none.

    Some slots at a time: ratios of all of them at once would not fit a processor's cache, and time would grow faster
    than findings.
    """
    slots, levels, groups = columns["unclassified_count"].shape
    total = np.zeros((len(recipe.ratios), levels, groups))
    counted = np.zeros(total.shape, dtype=np.int64)
    lost, rounded, other = np.zeros_like(total), np.empty_like(total), np.empty_like(total)
    for start in range(0, slots, _SLOTS):
        # An undefined ratio is 0 here and not counted.
        values, numbers = ratio_arrays(
            recipe, {name: column[start : start + _SLOTS] for name, column in columns.items()}, subset
        )
        counted += numbers
        for value in values:
            np.add(total, value, out=rounded)
            np.subtract(rounded, total, out=other)
            # What the addition lost: (total - (rounded - other)) + (value - other); total holds the first part.
            np.subtract(value, other, out=value)
            np.subtract(rounded, other, out=other)
            np.subtract(total, other, out=other)
            lost += other
            lost += value
            total, rounded = rounded, total
    found = np.full(total.shape, np.nan)
    np.divide(total + lost, counted, out=found, where=counted > 0)
    return found, counted
