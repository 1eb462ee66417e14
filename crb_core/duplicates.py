"""Golden findings that several producers gave for one issue: which stays, and what people must look at (rule 23)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from crb_core.finding import LABEL_AXES, GoldenFinding, Record

__all__ = ["Conflict", "DuplicateGroup", "components", "resolve_duplicates"]


class Conflict(Record):
    """An axis on which findings of one group are labelled differently; ``answers`` are by finding id."""

    axis: str
    answers: dict[str, str]


class DuplicateGroup(Record):
    """Findings of one issue, by position in the golden set. ``survivor`` keeps its own label; ``dropped`` go.

    ``conflicts`` are for audit: nothing is decided by them.
    """

    survivor: int = Field(ge=0)
    dropped: tuple[int, ...]
    producers: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


def components(count: int, links: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Connected components of ``count`` positions, each ascending, by their first position."""
    root = list(range(count))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    for first, second in links:
        low, high = sorted((find(first), find(second)))
        root[high] = low
    groups: dict[int, list[int]] = {}
    for place in range(count):
        groups.setdefault(find(place), []).append(place)
    return tuple(tuple(group) for group in groups.values())


def resolve_duplicates(
    key: str, golden: Sequence[GoldenFinding], groups: Iterable[Sequence[int]]
) -> tuple[DuplicateGroup, ...]:
    """Of each group the earliest finding whose tp/fp label a person gave or corrected; without one, the earliest.

    ``key`` is the pull request's, for the finding ids.
    """
    found = []
    for group in groups:
        places = sorted(group)
        reviewed = [place for place in places if golden[place].label.provenance.get("tp_fp", "").startswith("human")]
        survivor = (reviewed or places)[0]
        conflicts = []
        for axis in LABEL_AXES:
            answers = {
                golden[place].finding_id(key): str(value)
                for place in places
                if (value := getattr(golden[place].label, axis)) is not None
            }
            if len(set(answers.values())) > 1:
                conflicts.append(Conflict(axis=axis, answers=answers))
        found.append(
            DuplicateGroup(
                survivor=survivor,
                dropped=tuple(place for place in places if place != survivor),
                producers=tuple(dict.fromkeys(golden[place].producer for place in places)),
                conflicts=tuple(conflicts),
            )
        )
    return tuple(found)
