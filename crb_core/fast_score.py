"""Counting judged trials over numpy arrays: the fast path of scoring.

The definition is pure Python (``crb_core.metrics``, ``crb_core.protocols.answer_key``) and the oracle of this module.
A filter only masks golden findings and labels, so re-scoring is a handful of passes over the arrays, linear in
findings. The seam is ``PullRequestCounts``: equal counts get equal metrics (``crb_core.fast_aggregate``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crb_core.aggregate import Breakdown, PullRequestCounts
from crb_core.recipes import Floats
from crb_core.scoring_arrays import Bools, Ints, ScoringArrays
from crb_core.strata import LABEL_FILTERS, Subset

__all__ = ["CountArrays", "count", "golden_inside"]


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where each finding is counted: precomputed places in a flat (slots, levels, groups) array, by list.

    ``places`` maps a list to (place, finding) pairs: level 0 and the level of each of the finding's strata. ``golden``
    maps a place to the entry of a flat (levels, pull requests) table that holds its pull request, the last column of
    which is empty for padding.
    """

    levels: tuple[tuple[str, str], ...]
    shape: tuple[int, int, int]
    places: Mapping[str, tuple[Ints, Ints]]
    golden: Ints
    golden_places: Mapping[str, tuple[Ints, Ints]]
    #: By group whether it holds the pull request: shape (groups, pull requests).
    holds: Floats


@dataclass(frozen=True, eq=False)
class CountArrays:
    """The counts of every position inside a subset, overall and by stratum.

    ``columns`` maps a count's name to an array of shape (slots, levels, groups) whose values are whole numbers;
    level 0 is the whole subset and ``levels`` names the others by (axis, value). ``exists`` has shape (levels, groups).
    """

    arrays: ScoringArrays
    subset: Subset
    axes: tuple[str, ...]
    levels: tuple[tuple[str, str], ...]
    columns: Mapping[str, Floats]
    exists: Bools
    golden_any: Ints

    def of_position(self, position: int) -> PullRequestCounts[Any]:
        """One trial's counts, as the pure definition gives them."""
        slot, group = divmod(position, len(self.arrays.groups))
        counts, pr = self.arrays.recipe.counts, int(self.arrays.position_pull_request[position])

        def at(level: int) -> Any:
            return counts(**{name: int(column[slot, level, group]) for name, column in self.columns.items()})

        overall = at(0)
        absent = counts(unclassified_count=overall.unclassified_count)
        strata: dict[str, dict[str, Any]] = {axis: {} for axis in self.axes}
        for level, (axis, value) in enumerate(self.levels, start=1):
            found = at(level)
            # A stratum that holds only unmatched findings, or only golden ones, is one all the same.
            if self.golden_any[level, pr] or found != absent:
                strata[axis][value] = found
        return PullRequestCounts(self.arrays.pull_requests[pr], Breakdown(overall, strata, absent))


def count(arrays: ScoringArrays, subset: Subset, axes: Sequence[str] | None = None) -> CountArrays:
    """Count every trial inside a subset, overall and in the strata of ``axes`` (the protocol's own by default)."""
    chosen_axes = tuple(arrays.recipe.axes if axes is None else axes)
    layout = _layout(arrays, chosen_axes)
    golden = _golden_mask(arrays, subset)
    label = _label_mask(arrays, subset)
    sums: dict[str, Floats] = {}
    for name, (place, finding) in layout.places.items():
        mask = label if name.startswith("unmatched") else golden
        chosen = place if mask is None else place[mask[finding]]
        sums[name] = np.bincount(chosen, minlength=math.prod(layout.shape)).astype(np.float64).reshape(layout.shape)
    prs = len(arrays.pull_requests)
    tables = {}
    for name, (place, finding) in layout.golden_places.items():
        chosen = place if golden is None else place[golden[finding]]
        tables[name] = np.bincount(chosen, minlength=layout.shape[1] * (prs + 1))
    sums["golden_tp"] = tables["golden_tp"].astype(np.float64)[layout.golden]
    grid = (layout.shape[0], 1, layout.shape[2])
    unclassified = arrays.unclassified.astype(np.float64).reshape(grid)
    sums["unclassified"] = np.broadcast_to(unclassified, layout.shape)
    sums["visible"] = np.zeros(layout.shape)
    if not subset.restricts_labels:
        sums["visible"][:, :1] = unclassified
    golden_any = tables["golden_any"].reshape(layout.shape[1], prs + 1)
    exists = golden_any[:, :prs].astype(np.float64) @ layout.holds.T
    for name in ("unmatched_tp", "unmatched_fp"):
        exists += sums[name].sum(axis=0)
    return CountArrays(arrays, subset, chosen_axes, layout.levels, arrays.recipe.columns(sums), exists > 0, golden_any)


def _layout(arrays: ScoringArrays, axes: tuple[str, ...]) -> _Layout:
    if axes not in arrays.layouts:
        arrays.layouts[axes] = _make_layout(arrays, axes)
    found: _Layout = arrays.layouts[axes]
    return found


def _make_layout(arrays: ScoringArrays, axes: tuple[str, ...]) -> _Layout:
    levels = tuple((axis, value) for axis in axes for value in arrays.values[axis])
    groups, prs = len(arrays.groups), len(arrays.pull_requests)
    shape = (arrays.slots, 1 + len(levels), groups)
    first = {axis: 1 + levels.index((axis, arrays.values[axis][0])) for axis in axes if arrays.values[axis]}

    def spread(home: Ints, finding: Ints, codes: Mapping[str, Ints], stride: int) -> tuple[Ints, Ints]:
        """``home`` is the place at level 0; one level is ``stride`` further on."""
        places, findings = [home], [finding]
        for axis, level in first.items():
            code = codes[axis][finding]
            there = code >= 0
            places.append(home[there] + (level + code[there]) * stride)
            findings.append(finding[there])
        return np.concatenate(places), np.concatenate(findings)

    def home_of(position: Ints) -> Ints:
        slot, group = position // max(groups, 1), position % max(groups, 1)
        return slot * shape[1] * groups + group

    def of_pairs(pairs: tuple[Ints, Ints], only_tp: bool) -> tuple[Ints, Ints]:
        position, finding = pairs
        if only_tp:
            position, finding = (each[arrays.golden_tp[finding]] for each in (position, finding))
        return spread(home_of(position), finding, arrays.golden_codes, groups)

    def of_labels(tp: bool) -> tuple[Ints, Ints]:
        finding = np.flatnonzero(arrays.label_tp == tp)
        return spread(home_of(arrays.label_position[finding]), finding, arrays.label_codes, groups)

    def of_goldens(finding: Ints) -> tuple[Ints, Ints]:
        return spread(arrays.golden_pull_request[finding], finding, arrays.golden_codes, prs + 1)

    pull_request = arrays.position_pull_request.reshape(arrays.slots, 1, groups)
    holds = np.zeros((groups, prs))
    trials = np.flatnonzero(arrays.position_pull_request >= 0)
    holds[trials % max(groups, 1), arrays.position_pull_request[trials]] = 1
    return _Layout(
        levels=levels,
        shape=shape,
        places={
            "claimed": of_pairs(arrays.claimed, False),
            "claimed_tp": of_pairs(arrays.claimed, True),
            "intended": of_pairs(arrays.intended, False),
            "covered": of_pairs(arrays.covered, True),
            "unmatched_tp": of_labels(True),
            "unmatched_fp": of_labels(False),
        },
        golden=np.where(pull_request < 0, prs, pull_request) + np.arange(shape[1]).reshape(1, -1, 1) * (prs + 1),
        golden_places={
            "golden_any": of_goldens(np.arange(len(arrays.golden_tp))),
            "golden_tp": of_goldens(np.flatnonzero(arrays.golden_tp)),
        },
        holds=holds,
    )


def golden_inside(arrays: ScoringArrays, subset: Subset) -> Bools:
    """Which golden findings are true positives inside a subset."""
    mask = _golden_mask(arrays, subset)
    return arrays.golden_tp if mask is None else mask & arrays.golden_tp


def _golden_mask(arrays: ScoringArrays, subset: Subset) -> Bools | None:
    """Which golden findings are inside; None for all of them."""
    mask = _mask(arrays, subset, arrays.golden_codes)
    if subset.producer is not None:
        mine = _table(arrays.producers, subset.producer)[arrays.golden_producer]
        mask = mine if mask is None else mask & mine
    return mask


def _label_mask(arrays: ScoringArrays, subset: Subset) -> Bools | None:
    """Which classified unmatched candidates are inside; None for all of them."""
    return _mask(arrays, subset, arrays.label_codes)


def _mask(arrays: ScoringArrays, subset: Subset, codes: Mapping[str, Ints]) -> Bools | None:
    mask = None
    for axis in LABEL_FILTERS:
        wanted = getattr(subset, axis)
        if wanted is not None:
            inside = _table(arrays.values[axis], wanted)[codes[axis]]
            mask = inside if mask is None else mask & inside
    return mask


def _table(values: Sequence[str], wanted: Iterable[Any]) -> Bools:
    """By code whether it is wanted; code -1 (no value) finds the last entry, which is False."""
    chosen = {str(value) for value in wanted}
    return np.array([*(value in chosen for value in values), False], dtype=np.bool_)
