"""Dimensions of pull requests, by which a leaderboard can be restricted to some of them.

A dimension says something about a whole pull request: its language, its size. A label axis says something about one
finding and is another filter (``crb_core.strata``). Several values of one dimension are alternatives (OR), different
dimensions must all hold (AND); a pull request without a value in a restricted dimension is outside. A round is complete
when every pull request inside has a score.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from pydantic import Field

from crb_core.diff_traits import DiffTraits
from crb_core.errors import InputError, Where
from crb_core.finding import NonBlank, Record
from crb_core.pull_request import PullRequest

__all__ = [
    "COMPUTED",
    "EVERY_PULL_REQUEST",
    "SIZES",
    "Dimensions",
    "KnownDimensions",
    "PullRequestFilter",
    "computed_dimensions",
    "dimension_values",
    "dimensions_of",
]

#: By dimension the values of one pull request.
Dimensions: TypeAlias = Mapping[str, tuple[str, ...]]

#: Sizes by changed lines (added and removed): name and how many lines are too many for it. The bounds are those of the
#: size labels of Kubernetes' pull requests.
SIZES: tuple[tuple[str, float], ...] = (
    ("XS: under 10 lines", 10),
    ("S: 10 to 29", 30),
    ("M: 30 to 99", 100),
    ("L: 100 to 499", 500),
    ("XL: 500 to 999", 1000),
    ("XXL: 1000 and more", float("inf")),
)
#: What a diff says of a pull request whose corpus does not.
COMPUTED = ("language", "size")
_TRAITS = ("language", "change_type", "domain", "complexity")
#: Dimensions that crb itself knows, in the order in which they are offered; imported ones follow by name.
_OWN = ("language", "size", "change_type", "domain", "complexity", "repository", "subset")
#: Imported labels that are among the traits already.
_KNOWN_LABELS = {"language", "change_type", "domain", "code_complexity"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class KnownDimensions(dict[str, Dimensions]):
    """By key of the pull requests of a sweep what is known of each.

    ``computed`` says by dimension of which pull requests it was computed from the diff, because the corpus does not
    record it.
    """

    def __init__(
        self, known: Mapping[str, Dimensions] | None = None, computed: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        super().__init__(known or {})
        self.computed: Mapping[str, frozenset[str]] = dict(computed or {})

    def computed_counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """By dimension (of these ``names``) of how many pull requests it was computed; those of none are left out."""
        return {
            name: len(keys)
            for name, keys in sorted(self.computed.items())
            if keys and (names is None or name in set(names))
        }


def dimensions_of(pull_request: PullRequest, subsets: Iterable[str] = ()) -> Dimensions:
    """What is known of a pull request; a dimension that is not recorded is left out.

    ``subsets`` are the named parts of the corpus that it belongs to. Labels that an importer kept (``source.labels``)
    count where they are text or lists of text.
    """
    traits = pull_request.traits
    found: dict[str, list[str]] = {}

    def add(name: str, *values: Any) -> None:
        texts = [value.strip() for value in values if isinstance(value, str) and value.strip()]
        found[name] = list(dict.fromkeys([*found.get(name, ()), *texts]))

    for name in _TRAITS:
        add(name, getattr(traits, name))
    if traits.lines_added is not None and traits.lines_removed is not None:
        add("size", _size(traits.lines_added + traits.lines_removed))
    add("repository", pull_request.nwo)
    add("subset", *subsets)
    for name, value in _imported(pull_request.source.get("labels")):
        add(name, *(value if isinstance(value, list) else [value]))
    return {name: tuple(values) for name, values in found.items() if values}


def computed_dimensions(known: Dimensions, diff: DiffTraits) -> Dimensions:
    """The ``COMPUTED`` dimensions that are not ``known``, as the diff says them: every language that it touches."""
    found = {"language": diff.languages, "size": (_size(diff.lines_added + diff.lines_removed),)}
    return {name: values for name, values in found.items() if values and name not in known}


def _size(lines: int) -> str:
    return next(name for name, bound in SIZES if lines < bound)


def _imported(labels: Any) -> Iterator[tuple[str, Any]]:
    for group in labels.values() if isinstance(labels, dict) else ():
        for name, value in group.items() if isinstance(group, dict) else ():
            if _NAME.fullmatch(name) and name not in _KNOWN_LABELS:
                yield name, value


def dimension_values(known: Collection[Dimensions]) -> dict[str, dict[str, int]]:
    """By dimension its values with how many pull requests have each; sizes by size, all others by name."""
    counts: dict[str, dict[str, int]] = {}
    for each in known:
        for name, values in each.items():
            of_name = counts.setdefault(name, {})
            for value in values:
                of_name[value] = of_name.get(value, 0) + 1
    order = {name: place for place, name in enumerate(_OWN)}
    sizes = {name: place for place, (name, _) in enumerate(SIZES)}
    return {
        name: {
            value: counts[name][value] for value in sorted(counts[name], key=lambda value: (sizes.get(value, 0), value))
        }
        for name in sorted(counts, key=lambda name: (order.get(name, len(order)), name))
    }


class PullRequestFilter(Record):
    """Which pull requests count: by dimension the values of which one must hold."""

    dimensions: dict[NonBlank, frozenset[NonBlank]] = Field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str] | None) -> PullRequestFilter:
        """From texts like ``language=Go``; InputError for one of another form."""
        found: dict[str, set[str]] = {}
        for text in texts or ():
            name, equals, value = text.partition("=")
            name, value = name.strip(), value.strip()
            if not equals or not name or not value:
                raise InputError(
                    f"{text!r} is not of the form NAME=VALUE", where=Where(field="dimension"), remedy="Say language=Go"
                )
            found.setdefault(name, set()).add(value)
        return cls(dimensions={name: frozenset(values) for name, values in found.items()})

    def inside(self, known: Mapping[str, Dimensions]) -> tuple[str, ...]:
        """The keys of the pull requests inside, in the order of ``known``.

        InputError for a dimension or value that none of them has, and where none has all that is asked for.
        """
        if not self.dimensions:
            return tuple(known)
        offered = dimension_values(known.values())
        for name, values in sorted(self.dimensions.items()):
            if name not in offered:
                raise InputError(
                    f"no pull request of the sweep has the dimension {name!r}",
                    where=Where(field="dimension"),
                    remedy=f"The dimensions are: {', '.join(offered) or 'none'}",
                )
            for value in sorted(values - offered[name].keys()):
                raise InputError(
                    f"no pull request of the sweep has {name} {value!r}",
                    where=Where(field="dimension"),
                    remedy=f"The values are: {', '.join(offered[name])}",
                )
        found = tuple(key for key, each in known.items() if self._has(each))
        if not found:
            raise InputError(
                "no pull request of the sweep has all of these dimensions",
                where=Where(field="dimension"),
                remedy="Leave one out",
            )
        return found

    def _has(self, dimensions: Dimensions) -> bool:
        return all(values.intersection(dimensions.get(name, ())) for name, values in self.dimensions.items())

    def to_json(self) -> dict[str, list[str]]:
        """The restricted dimensions with their values, sorted."""
        return {name: sorted(values) for name, values in sorted(self.dimensions.items())}


#: The filter that restricts nothing.
EVERY_PULL_REQUEST = PullRequestFilter()
