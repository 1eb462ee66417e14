"""How stable is what an agent build finds: agreement between its rounds (rule 22)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import combinations
from typing import Any

from crb_core.aggregate import mean
from crb_core.fast_score import golden_inside
from crb_core.finding import Record
from crb_core.scoring_arrays import ScoringArrays
from crb_core.strata import EVERYTHING, Subset

__all__ = ["RoundPair", "Stability", "jaccard", "stability"]


class RoundPair(Record):
    """Two rounds: Jaccard of the golden TPs that they cover, over the pull requests that both have scored.

    ``pooled`` is over the findings of all of these; ``macro`` the mean of the pull requests' own values where they are
    defined. Both are None where neither round covers anything.
    """

    rounds: tuple[int, int]
    pooled: float | None
    macro: float | None
    pull_requests: int


class Stability(Record):
    """The means over the pairs of rounds that have a value; None under two rounds."""

    pooled: float | None
    macro: float | None
    pairs: tuple[RoundPair, ...]


def jaccard(one: Set[Any], other: Set[Any]) -> float | None:
    """Shared elements among all elements; None where both sets are empty."""
    union = len(one | other)
    return len(one & other) / union if union else None


def stability(arrays: ScoringArrays, rounds: Mapping[int, int], subset: Subset = EVERYTHING) -> Stability:
    """Agreement between the rounds of one build inside a subset; ``rounds`` maps a round's number to its group."""
    covered = {number: _covered(arrays, group, subset) for number, group in rounds.items()}
    pairs = []
    for one, other in combinations(sorted(covered), 2):
        shared = sorted(covered[one].keys() & covered[other].keys())
        values = [jaccard(covered[one][pr], covered[other][pr]) for pr in shared]
        everything = [{(pr, golden) for pr in shared for golden in covered[number][pr]} for number in (one, other)]
        pairs.append(
            RoundPair(
                rounds=(one, other),
                pooled=jaccard(*everything),
                macro=mean(values)[0],
                pull_requests=len(shared),
            )
        )
    return Stability(
        pooled=mean(pair.pooled for pair in pairs)[0], macro=mean(pair.macro for pair in pairs)[0], pairs=tuple(pairs)
    )


def _covered(arrays: ScoringArrays, group: int, subset: Subset) -> dict[int, set[int]]:
    """By pull request of a group the golden TPs that it covers."""
    found: dict[int, set[int]] = {
        int(arrays.position_pull_request[position]): set() for position in arrays.positions(group)
    }
    position, golden = arrays.covered
    mine = (position % len(arrays.groups) == group) & golden_inside(arrays, subset)[golden]
    for place, finding in zip(position[mine], golden[mine], strict=True):
        found[int(arrays.position_pull_request[place])].add(int(finding))
    return found
