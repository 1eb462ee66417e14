"""Which steps go next: a pure function, so that fairness can be checked by hand."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Group", "GroupLimit", "choose"]


@dataclass(frozen=True, order=True)
class Group:
    """The steps of one build in one sweep and stage; the unit of fairness."""

    sweep_id: str
    build_id: str


@dataclass(frozen=True, kw_only=True)
class GroupLimit:
    """``priority``: higher goes first. ``cap``: steps of the group in flight at most; None is no cap."""

    priority: int = 0
    cap: int | None = None


def choose(
    heads: Mapping[Group, Sequence[int]],
    in_flight: Mapping[Group, int],
    limits: Mapping[Group, GroupLimit],
    room: int,
) -> list[int]:
    """Up to ``room`` step ids from the groups' waiting steps (each in order of position).

    Higher priority first; among equals the sweep with the fewest steps in flight, then the build with the fewest, so
    builds interleave and a big sweep does not starve a small one. A group never passes its cap.
    """
    by_sweep: dict[str, int] = {}
    for group, count in in_flight.items():
        by_sweep[group.sweep_id] = by_sweep.get(group.sweep_id, 0) + count
    by_group = dict(in_flight)
    taken = dict.fromkeys(heads, 0)
    chosen: list[int] = []

    def rank(group: Group) -> tuple[int, int, int, Group]:
        priority = limits.get(group, GroupLimit()).priority
        return (-priority, by_sweep.get(group.sweep_id, 0), by_group.get(group, 0), group)

    def open_to_more(group: Group) -> bool:
        cap = limits.get(group, GroupLimit()).cap
        return taken[group] < len(heads[group]) and (cap is None or by_group.get(group, 0) < cap)

    waiting = [rank(group) for group in heads if open_to_more(group)]
    heapq.heapify(waiting)
    while waiting and len(chosen) < room:
        entry = heapq.heappop(waiting)
        group = entry[3]
        if entry != rank(group):
            # Another build of the same sweep was chosen since: its place in the order has changed.
            heapq.heappush(waiting, rank(group))
            continue
        chosen.append(heads[group][taken[group]])
        taken[group] += 1
        by_group[group] = by_group.get(group, 0) + 1
        by_sweep[group.sweep_id] = by_sweep.get(group.sweep_id, 0) + 1
        if open_to_more(group):
            heapq.heappush(waiting, rank(group))
    return chosen
