"""A metric from summed columns of samples: of all pull requests, of a resample, after an exchange.

Ratios are rounded to whole multiples of a power of two before they are summed, so that no order of additions changes a
digit; counts are whole numbers already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crb_core.fast_aggregate import f_measure_array
from crb_core.recipes import Floats, RatioRecipe
from crb_core.samples import Sample

__all__ = [
    "LevelName",
    "columns_needed",
    "estimate",
    "metric_of_ratios",
    "products",
    "ratio_of_sums",
    "statistic",
    "totals",
]

LevelName: TypeAlias = Literal["macro", "micro"]

#: Resamples in one product of matrices; keeps memory flat.
_CHUNK = 500


def columns_needed(recipe: RatioRecipe, level: LevelName, metric: str) -> list[str]:
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


def products(
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


def totals(sample: Sample, level: LevelName, metric: str) -> dict[str, Floats]:
    """By column the sum over all pull requests: shape (rounds, 1)."""
    names = columns_needed(sample.recipe, level, metric)
    sums = _columns(sample, names).sum(axis=0)
    return {name: sums[:, place, None] for place, name in enumerate(names)}


def statistic(
    sample: Sample, sums: Mapping[str, Floats], level: LevelName, metric: str, known: dict[str, Floats] | None = None
) -> Floats:
    """The metric of summed columns of shape (..., rounds, rows), the mean over the rounds; NaN where a round has none.

    ``known`` keeps the ratios of these sums for the next metric.
    """
    ratios = {} if known is None else known
    for name in sample.recipe.measures.f_measures.get(metric, (metric,)):
        if name not in ratios:
            ratios[name] = ratio_of_sums(sample, sums, level, name)
    return metric_of_ratios(sample, ratios, metric)


def ratio_of_sums(sample: Sample, sums: Mapping[str, Floats], level: LevelName, name: str) -> Floats:
    """A ratio of summed columns, by round; NaN where it is undefined."""
    if level == "macro":
        above, below = sums[f"value {name}"] / _scale(len(sample.keys)), sums[f"defined {name}"]
    else:
        above, below = (_terms(sums, side) for side in sample.recipe.ratios[name])
    found: Floats = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below > 0)
    return found


def metric_of_ratios(sample: Sample, ratios: Mapping[str, Floats], metric: str) -> Floats:
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


def estimate(sample: Sample, level: LevelName, metric: str) -> float | None:
    ratios = sample.recipe.measures.f_measures.get(metric, (metric,))
    if not sample.rounds or sample.undefined & set(ratios):
        return None
    value = float(statistic(sample, totals(sample, level, metric), level, metric)[0])
    return None if value != value else value
