"""Which rows of a ranking cannot be told apart.

Every pair of rows is compared on the same pull requests (``bootstrap.Bootstrap.compare``); the p values are adjusted
for their number, and two rows are told apart where the adjusted p is at most 5%. Many pairs need finer p values: from
10,000 random exchanges p is at least 0.0001, which adjusted for more than 500 pairs tells nobody apart, however clear.

"Cannot be told apart" is not transitive: the first row may be close to the second and the second to the third, and yet
the first clearly ahead of the third. One group for all three would deny that, so a row may be in several groups, each
named by a letter: two rows share a letter exactly where they are not told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from crb_core.bootstrap import Bootstrap, Comparison, LevelName
from crb_core.samples import Sample

__all__ = ["LEVEL_OF_TEST", "Grouping", "Pair", "holm", "letters", "tell_apart"]

#: Largest adjusted p at which two rows are told apart.
LEVEL_OF_TEST = 0.05
#: Random exchanges a pair: the smallest adjusted p that they can give is 1 in so many.
EXCHANGES_A_PAIR = 40


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The comparison of two rows by their places in the ranking. ``adjusted_p`` is None where there is no p."""

    one: int
    other: int
    comparison: Comparison
    adjusted_p: float | None

    @property
    def told_apart(self) -> bool:
        return self.adjusted_p is not None and self.adjusted_p <= LEVEL_OF_TEST


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """By row the letters of its groups, and every pair behind them."""

    letters: tuple[str, ...]
    pairs: tuple[Pair, ...]

    def to_json(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The pairs, with ``names`` by place for the rows."""
        return [
            {
                "one": names[pair.one],
                "other": names[pair.other],
                **pair.comparison.model_dump(mode="json"),
                "adjusted_p": pair.adjusted_p,
                "told_apart": pair.told_apart,
            }
            for pair in self.pairs
        ]


def tell_apart(bootstrap: Bootstrap, samples: Sequence[Sample], metric: str, level: LevelName = "macro") -> Grouping:
    """Compare all pairs of ``samples``, given in ranking order, by ``metric``."""
    bootstrap.prepare(samples, level, [metric])
    places = list(combinations(range(len(samples)), 2))
    found = [bootstrap.compare(samples[one], samples[other], metric, level) for one, other in places]
    known = [place for place, comparison in enumerate(found) if comparison.p is not None]
    if EXCHANGES_A_PAIR * len(known) > bootstrap.resamples:
        sides = [(samples[one], samples[other], each) for (one, other), each in zip(places, found, strict=True)]
        found = bootstrap.finer(sides, EXCHANGES_A_PAIR * len(known), metric, level)
    adjusted = dict(zip(known, holm([found[place].p or 0.0 for place in known]), strict=True))
    pairs = tuple(
        Pair(one=one, other=other, comparison=comparison, adjusted_p=adjusted.get(place))
        for place, ((one, other), comparison) in enumerate(zip(places, found, strict=True))
    )
    apart = [(pair.one, pair.other) for pair in pairs if pair.told_apart]
    return Grouping(letters=tuple(letters(len(samples), apart)), pairs=pairs)


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted for their number, in the given order.

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6,
    65-70.
    """
    adjusted = [0.0] * len(values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - place) * values[index]))
        adjusted[index] = largest
    return adjusted


def letters(count: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Letters of ``count`` ranked rows: two rows share one exactly where they are not in ``different``.

    Piepho, H.-P. (2004). An algorithm for a letter-based representation of all-pairwise comparisons. Journal of
    Computational and Graphical Statistics 13, 456-466.
    """
    groups: list[frozenset[int]] = [frozenset(range(count))] if count else []
    for one, other in different:
        parts: list[frozenset[int]] = []
        for group in groups:
            parts += [group - {one}, group - {other}] if {one, other} <= group else [group]
        unique = list(dict.fromkeys(parts))
        groups = [group for group in unique if not any(group < bigger for bigger in unique)]
    groups.sort(key=sorted)
    names = [_letter(place) for place in range(len(groups))]
    return ["".join(name for name, group in zip(names, groups, strict=True) if row in group) for row in range(count)]


def _letter(place: int) -> str:
    """a to z, then a1 to z1 and so on."""
    number, letter = divmod(place, 26)
    return chr(ord("a") + letter) + (str(number) if number else "")
