"""One build's results by pull request: what intervals and comparisons resample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crb_core.fast_aggregate import FastScores, ratio_arrays
from crb_core.recipes import Floats, RatioRecipe
from crb_core.scoring_arrays import Bools

__all__ = ["Sample", "complete_keys", "restricted", "sample_of", "sample_of_counts"]


@dataclass(frozen=True, eq=False)
class Sample:
    """One build's results by pull request, in the order of their keys.

    ``data`` has shape (pull requests, rounds, names): for every ratio its value and whether it is defined, and every
    count. ``present`` says by pull request and round whether there is a score. ``undefined`` are the ratios that the
    whole withholds (rule 10).
    """

    recipe: RatioRecipe
    beta: float
    keys: tuple[str, ...]
    rounds: tuple[int, ...]
    names: tuple[str, ...]
    data: Floats
    present: Bools
    undefined: frozenset[str]


def sample_of(scores: FastScores, rounds: Mapping[int, int]) -> Sample:
    """The sample of one build: ``rounds`` maps a round's number to its group. Only the level of the whole is used."""
    arrays, recipe = scores.arrays, scores.arrays.recipe
    groups = list(rounds.values())
    columns = {name: column[:, :1, groups] for name, column in scores.counted.columns.items()}
    values, _ = ratio_arrays(recipe, columns, scores.counted.subset)
    names, stacked = [], []
    for place, (name, (_, below)) in enumerate(recipe.ratios.items()):
        denominator = sum((columns[each.removeprefix("-")] * (-1 if each.startswith("-") else 1)) for each in below)
        defined = np.asarray(denominator) > 0
        if name in recipe.needs_labels:
            defined &= (columns["unclassified_count"] == 0) & (not scores.counted.subset.restricts_goldens_only)
        names += [f"value {name}", f"defined {name}"]
        stacked += [values[:, place, 0], defined[:, 0].astype(np.float64)]
    for name, column in columns.items():
        names.append(f"count {name}")
        stacked.append(column[:, 0])
    table = np.stack(stacked, axis=-1)
    pull_requests = arrays.position_pull_request.reshape(arrays.slots, len(arrays.groups))[:, groups]
    known = sorted({int(number) for number in pull_requests[pull_requests >= 0]}, key=arrays.pull_requests.__getitem__)
    row = {number: place for place, number in enumerate(known)}
    data = np.zeros((len(known), len(groups), len(names)))
    present = np.zeros((len(known), len(groups)), dtype=np.bool_)
    for slot, column in zip(*np.nonzero(pull_requests >= 0), strict=True):
        place = row[int(pull_requests[slot, column])]
        data[place, column] = table[slot, column]
        present[place, column] = True
    withheld = any(scores.total["unclassified_count"][0, group] for group in groups)
    hidden = withheld or scores.counted.subset.restricts_goldens_only
    return Sample(
        recipe=recipe,
        beta=scores.beta,
        keys=tuple(arrays.pull_requests[number] for number in known),
        rounds=tuple(rounds),
        names=tuple(names),
        data=data,
        present=present,
        undefined=recipe.needs_labels if hidden else frozenset(),
    )


def sample_of_counts(recipe: RatioRecipe, rounds: Mapping[int, Mapping[str, Any]], beta: float) -> Sample:
    """The sample of one build whose counts another way gives: by round and pull request the protocol's counts."""
    keys = sorted({key for of_round in rounds.values() for key in of_round})
    terms = list(dict.fromkeys(name for sides in recipe.ratios.values() for side in sides for name in side))
    names = [f"{kind} {name}" for name in recipe.ratios for kind in ("value", "defined")]
    names += [f"count {name}" for name in terms]
    data = np.zeros((len(keys), len(rounds), len(names)))
    present = np.zeros((len(keys), len(rounds)), dtype=np.bool_)
    rows = {key: row for row, key in enumerate(keys)}
    for column, of_round in enumerate(rounds.values()):
        for key, counts in of_round.items():
            ratios = recipe.measures.ratios(counts)
            values = [part for name in recipe.ratios for part in (ratios[name] or 0.0, float(ratios[name] is not None))]
            row = rows[key]
            data[row, column] = [*values, *(getattr(counts, name) for name in terms)]
            present[row, column] = True
    return Sample(
        recipe=recipe,
        beta=beta,
        keys=tuple(keys),
        rounds=tuple(rounds),
        names=tuple(names),
        data=data,
        present=present,
        undefined=frozenset(),
    )


def complete_keys(sample: Sample, rounds: Sequence[int]) -> list[str]:
    """The pull requests that have a score in every one of these rounds."""
    columns = [sample.rounds.index(number) for number in rounds]
    complete = np.all(sample.present[:, columns], axis=1).tolist()
    return [key for key, is_complete in zip(sample.keys, complete, strict=True) if is_complete]


def restricted(sample: Sample, keys: tuple[str, ...], rounds: tuple[int, ...]) -> Sample:
    """The sample of some of its pull requests and rounds."""
    if keys == sample.keys and rounds == sample.rounds:
        return sample
    places = {key: place for place, key in enumerate(sample.keys)}
    rows = [places[key] for key in keys]
    columns = [sample.rounds.index(number) for number in rounds]
    return Sample(
        recipe=sample.recipe,
        beta=sample.beta,
        keys=keys,
        rounds=rounds,
        names=sample.names,
        data=sample.data[rows][:, columns],
        present=sample.present[rows][:, columns],
        undefined=sample.undefined,
    )
