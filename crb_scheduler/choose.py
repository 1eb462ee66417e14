"""Which steps go next: a pure function, so that fairness can be checked by hand."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Choice", "Group", "Limits", "SweepLimit", "Turns", "choose"]


@dataclass(frozen=True, order=True)
class Group:
    """The steps of one build in one sweep and stage; the unit of fairness."""

    sweep_id: str
    build_id: str


@dataclass(frozen=True, kw_only=True)
class SweepLimit:
    """``priority``: higher goes first. ``weight``: share against other sweeps of that priority. ``cap``: see Limits."""

    priority: int = 0
    weight: float = 1.0
    cap: int | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sweeps by id, and caps: how many steps may be in flight at most (absent or None: no cap).

    A build's cap counts its steps in all sweeps together: it stands for its vendor's rate limit.
    """

    sweeps: Mapping[str, SweepLimit] = field(default_factory=dict)
    builds: Mapping[str, int] = field(default_factory=dict)

    def sweep(self, sweep_id: str) -> SweepLimit:
        return self.sweeps.get(sweep_id, SweepLimit())


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Whose turn it is among those with equally much in flight: the sweep, or the build in a sweep, that is due first.

    A turn puts who had it back by 1/weight. Who is new, or was away, is due with the first of those that wait, so
    nobody saves turns up. Losing this memory costs nothing but the order of a few steps.
    """

    sweeps: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[Group, float] = field(default_factory=dict)
    #: When the first was due at the last choice: of sweeps, and of the builds in a sweep by sweep id.
    now: float = 0.0
    now_in: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Step ids in the order in which they go, and the turns after them."""

    step_ids: tuple[int, ...]
    turns: Turns


FIRST_TURNS = Turns()


def choose(
    heads: Mapping[Group, Sequence[int]],
    in_flight: Mapping[Group, int],
    limits: Limits,
    room: int,
    turns: Turns = FIRST_TURNS,
) -> Choice:
    """Up to ``room`` step ids from the groups' waiting steps (each in order of position).

    Higher priority first; among equals the sweep with the least in flight for its weight, then the build with the
    least, so builds interleave and a big sweep does not starve a small one; among those the one whose turn it is. No
    sweep and no build passes its cap.
    """
    by_sweep: dict[str, int] = {}
    by_build: dict[str, int] = {}
    for group, count in in_flight.items():
        by_sweep[group.sweep_id] = by_sweep.get(group.sweep_id, 0) + count
        by_build[group.build_id] = by_build.get(group.build_id, 0) + count
    by_group = dict(in_flight)
    taken = dict.fromkeys(heads, 0)

    def is_open(group: Group) -> bool:
        return (
            taken[group] < len(heads[group])
            and _below(by_sweep.get(group.sweep_id, 0), limits.sweep(group.sweep_id).cap)
            and _below(by_build.get(group.build_id, 0), limits.builds.get(group.build_id))
        )

    open_groups = [group for group in heads if is_open(group)]
    if not open_groups or room <= 0:
        return Choice(step_ids=(), turns=turns)
    sweep_due = {group.sweep_id: max(turns.now, turns.sweeps.get(group.sweep_id, 0.0)) for group in open_groups}
    group_due = {
        group: max(turns.now_in.get(group.sweep_id, 0.0), turns.groups.get(group, 0.0)) for group in open_groups
    }
    now = min(sweep_due.values())
    now_in = {
        sweep_id: min(due for group, due in group_due.items() if group.sweep_id == sweep_id) for sweep_id in sweep_due
    }

    def rank(group: Group) -> tuple[int, float, float, int, float, Group]:
        limit = limits.sweep(group.sweep_id)
        return (
            -limit.priority,
            by_sweep.get(group.sweep_id, 0) / limit.weight,
            sweep_due[group.sweep_id],
            by_group.get(group, 0),
            group_due[group],
            group,
        )

    chosen: list[int] = []
    waiting = [rank(group) for group in open_groups]
    heapq.heapify(waiting)
    while waiting and len(chosen) < room:
        entry = heapq.heappop(waiting)
        group = entry[-1]
        if not is_open(group):
            # Others of its sweep or build reached the cap. Nothing leaves flight meanwhile, so it stays closed.
            continue
        if entry != rank(group):
            # Another build of the same sweep was chosen since: its place in the order has changed.
            heapq.heappush(waiting, rank(group))
            continue
        chosen.append(heads[group][taken[group]])
        taken[group] += 1
        by_sweep[group.sweep_id] = by_sweep.get(group.sweep_id, 0) + 1
        by_build[group.build_id] = by_build.get(group.build_id, 0) + 1
        by_group[group] = by_group.get(group, 0) + 1
        sweep_due[group.sweep_id] += 1 / limits.sweep(group.sweep_id).weight
        group_due[group] += 1
        heapq.heappush(waiting, rank(group))
    known = {**dict.fromkeys(in_flight), **dict.fromkeys(heads)}
    known_sweeps = {group.sweep_id for group in known}
    return Choice(
        step_ids=tuple(chosen),
        turns=Turns(
            sweeps={name: due for name, due in turns.sweeps.items() if name in known_sweeps} | sweep_due,
            groups={group: due for group, due in turns.groups.items() if group in known} | group_due,
            now=now,
            now_in={name: due for name, due in turns.now_in.items() if name in known_sweeps} | now_in,
        ),
    )


def _below(count: int, cap: int | None) -> bool:
    return cap is None or count < cap
