"""Which steps go next: held against a slow and obvious oracle, and against what fairness means."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from crb_scheduler.choose import Choice, Group, Limits, SweepLimit, Turns, choose

groups = st.builds(Group, st.sampled_from(["s1", "s2", "s3"]), st.sampled_from(["b1", "b2", "b3"]))
#: Sums of their inverses are exact, so that an oracle may compare them.
weights = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])
caps = st.none() | st.integers(0, 6)


@dataclass(frozen=True)
class Situation:
    heads: dict[Group, list[int]]
    in_flight: dict[Group, int]
    limits: Limits
    room: int


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    names = draw(st.lists(groups, unique=True, max_size=9))
    heads, number = {}, 0
    for name in names:
        count = draw(st.integers(0, 5))
        heads[name] = list(range(number, number + count))
        number += count
    in_flight = draw(st.dictionaries(groups, st.integers(0, 4)))
    limits = Limits(
        sweeps={
            name: SweepLimit(priority=draw(st.integers(-1, 1)), weight=draw(weights), cap=draw(caps))
            for name in draw(st.sets(st.sampled_from(["s1", "s2", "s3"])))
        },
        builds={name: draw(st.integers(0, 6)) for name in draw(st.sets(st.sampled_from(["b1", "b2", "b3"])))},
    )
    return Situation(heads, in_flight, limits, draw(st.integers(0, 20)))


@dataclass
class After:
    """A situation after a choice, counted anew from what was chosen."""

    flying: dict[Group, int]
    left: dict[Group, list[int]]
    chosen: dict[Group, int] = field(default_factory=dict)

    def of_sweep(self, sweep_id: str) -> int:
        return sum(count for group, count in self.flying.items() if group.sweep_id == sweep_id)

    def of_build(self, build_id: str) -> int:
        return sum(count for group, count in self.flying.items() if group.build_id == build_id)

    def is_open(self, group: Group, limits: Limits) -> bool:
        sweep_cap = limits.sweep(group.sweep_id).cap
        build_cap = limits.builds.get(group.build_id)
        return (
            bool(self.left[group])
            and (sweep_cap is None or self.of_sweep(group.sweep_id) < sweep_cap)
            and (build_cap is None or self.of_build(group.build_id) < build_cap)
        )


def after(situation: Situation, choice: Choice) -> After:
    owner = {step_id: group for group, ids in situation.heads.items() for step_id in ids}
    found = After(dict(situation.in_flight), {group: list(ids) for group, ids in situation.heads.items()})
    for step_id in choice.step_ids:
        group = owner[step_id]
        assert found.left[group].pop(0) == step_id, "each group's steps go in order of position, each once"
        found.flying[group] = found.flying.get(group, 0) + 1
        found.chosen[group] = found.chosen.get(group, 0) + 1
    return found


@given(situations())
def test_no_cap_is_passed(situation: Situation) -> None:
    """Neither a sweep's nor a build's, which counts over all sweeps; what was in flight before is not our doing."""
    choice = choose(situation.heads, situation.in_flight, situation.limits, situation.room)
    found = after(situation, choice)
    assert len(choice.step_ids) <= situation.room
    for group in found.chosen:
        sweep_cap = situation.limits.sweep(group.sweep_id).cap
        build_cap = situation.limits.builds.get(group.build_id)
        assert sweep_cap is None or found.of_sweep(group.sweep_id) <= sweep_cap
        assert build_cap is None or found.of_build(group.build_id) <= build_cap


@given(situations())
def test_no_slot_is_left_idle(situation: Situation) -> None:
    """Where room is left over, nothing waits that its caps would let go."""
    choice = choose(situation.heads, situation.in_flight, situation.limits, situation.room)
    found = after(situation, choice)
    if len(choice.step_ids) < situation.room:
        assert not [group for group in found.left if found.is_open(group, situation.limits)]


@given(situations())
def test_priority_goes_first(situation: Situation) -> None:
    """Nothing goes while something of a higher priority that may go still waits."""
    choice = choose(situation.heads, situation.in_flight, situation.limits, situation.room)
    found = after(situation, choice)
    priority = {group: situation.limits.sweep(group.sweep_id).priority for group in situation.heads}
    for group in found.chosen:
        for other in found.left:
            if found.is_open(other, situation.limits):
                assert priority[other] <= priority[group]


@given(situations())
def test_weights_are_respected_within_one_step(situation: Situation) -> None:
    """A sweep that got a step had, before its last one, no more in flight for its weight than one that still waits.

    Inside a sweep the same holds for its builds.
    """
    limits = situation.limits
    found = after(situation, choose(situation.heads, situation.in_flight, limits, situation.room))
    for group in found.chosen:
        for other in found.left:
            if not found.is_open(other, limits):
                continue
            mine, theirs = limits.sweep(group.sweep_id), limits.sweep(other.sweep_id)
            if group.sweep_id == other.sweep_id:
                assert found.flying[group] - 1 <= found.flying.get(other, 0)
            elif mine.priority == theirs.priority:
                before = (found.of_sweep(group.sweep_id) - 1) / mine.weight
                assert before <= found.of_sweep(other.sweep_id) / theirs.weight


def oracle(situation: Situation) -> list[int]:
    """Look at every group anew for every single step; turns begin at nothing."""
    found = After(dict(situation.in_flight), {name: list(ids) for name, ids in situation.heads.items()})
    turns: dict[object, float] = {}
    chosen: list[int] = []
    while len(chosen) < situation.room:
        best = None
        for name in sorted(found.left):
            if not found.is_open(name, situation.limits):
                continue
            limit = situation.limits.sweep(name.sweep_id)
            rank = (
                -limit.priority,
                found.of_sweep(name.sweep_id) / limit.weight,
                turns.get(name.sweep_id, 0.0),
                found.flying.get(name, 0),
                turns.get(name, 0.0),
                name,
            )
            if best is None or rank < best:
                best = rank
        if best is None:
            return chosen
        name = best[-1]
        chosen.append(found.left[name].pop(0))
        found.flying[name] = found.flying.get(name, 0) + 1
        turns[name] = turns.get(name, 0.0) + 1
        turns[name.sweep_id] = turns.get(name.sweep_id, 0.0) + 1 / situation.limits.sweep(name.sweep_id).weight
    return chosen


@given(situations())
def test_chooses_what_the_oracle_chooses(situation: Situation) -> None:
    """Priority, least in flight for its weight, turn; then the build with the least in flight, turn."""
    choice = choose(situation.heads, situation.in_flight, situation.limits, situation.room)
    assert list(choice.step_ids) == oracle(situation)


@dataclass
class Farm:
    """Slots, and steps that end in random order, dispatched by ``choose`` again and again."""

    slots: int
    limits: Limits
    order: random.Random
    running: list[Group] = field(default_factory=list)
    turns: Turns = field(default_factory=Turns)

    def turn(self, waiting: dict[Group, int]) -> list[Group]:
        """One running step ends, the free slots are filled; returns the groups that got a step."""
        if self.running:
            self.running.pop(self.order.randrange(len(self.running)))
        heads = {group: [index * 1000 + n for n in range(min(count, self.slots))]
                 for index, (group, count) in enumerate(waiting.items())}  # fmt: skip
        owner = {step_id: group for group, ids in heads.items() for step_id in ids}
        flying = {group: self.running.count(group) for group in set(self.running)}
        choice = choose(heads, flying, self.limits, self.slots - len(self.running), self.turns)
        self.turns = choice.turns
        started = [owner[step_id] for step_id in choice.step_ids]
        self.running += started
        return started


@settings(max_examples=25)
@given(
    slots=st.integers(1, 5),
    shares=st.lists(weights, min_size=2, max_size=4),
    builds=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_nobody_starves(slots: int, shares: list[float], builds: int, seed: int) -> None:
    """However few the slots, every build of every sweep of one priority gets its turn within a bounded time.

    The bound: all turns that the others may have, by their weights, before the last one's is due.
    """
    names = [Group(f"s{sweep}", f"b{build}") for sweep in range(len(shares)) for build in range(builds)]
    limits = Limits(sweeps={f"s{sweep}": SweepLimit(weight=weight) for sweep, weight in enumerate(shares)})
    farm = Farm(slots, limits, random.Random(seed))
    waited = dict.fromkeys(names, 0)
    bound = sum(1 + weight / min(shares) for weight in shares) * builds * (slots + 1) + slots
    for _ in range(int(3 * bound)):
        started = farm.turn(dict.fromkeys(names, 100))
        for name in names:
            waited[name] = 0 if name in started or name in farm.running else waited[name] + 1
        assert max(waited.values()) <= bound


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_a_newcomer_does_not_push_the_others_aside(seed: int) -> None:
    """With one slot, a sweep that comes after another's hundred turns is ahead by one turn at most, not by a hundred.

    Nor does one that was away save its turns up.
    """
    farm = Farm(1, Limits(), random.Random(seed))
    old, new = Group("old", "b"), Group("new", "b")
    for _ in range(100):
        farm.turn({old: 100})
    for _ in range(2):
        turns = [farm.turn({old: 100, new: 100})[0] for _ in range(20)]
        assert turns.count(new) in {10, 11}
        assert all(first != second for first, second in pairwise(turns[1:]))
        for _ in range(50):
            farm.turn({old: 100})


def test_with_one_slot_turns_follow_the_weights() -> None:
    """Where only turns can tell sweeps apart, three times the weight is three turns of four."""
    limits = Limits(sweeps={"heavy": SweepLimit(weight=3.0), "light": SweepLimit(weight=1.0)})
    farm = Farm(1, limits, random.Random(0))
    waiting = {Group("heavy", "b"): 100, Group("light", "b"): 100}
    turns = [farm.turn(waiting)[0].sweep_id for _ in range(40)]
    assert turns.count("heavy") == 30


def test_builds_interleave() -> None:
    """Two builds of one sweep take turns, each in order of position."""
    heads = {Group("s", "a"): [1, 2, 3], Group("s", "b"): [11, 12, 13]}
    assert choose(heads, {}, Limits(), 4).step_ids == (1, 11, 2, 12)


def test_a_big_sweep_does_not_starve_a_small_one() -> None:
    """A sweep with five builds in flight gives way to one with none."""
    big = {Group("big", f"b{number}"): list(range(number * 10, number * 10 + 9)) for number in range(5)}
    small = {Group("small", "b"): [901, 902]}
    assert choose(big | small, dict.fromkeys(big, 1), Limits(), 2).step_ids == (901, 902)


def test_a_builds_cap_counts_over_all_sweeps() -> None:
    """A vendor's rate limit does not care for which sweep a review runs."""
    heads = {Group("s1", "a"): [1, 2], Group("s2", "a"): [3, 4], Group("s2", "b"): [5]}
    choice = choose(heads, {Group("s3", "a"): 1}, Limits(builds={"a": 2}), 9)
    assert choice.step_ids == (1, 5)


def test_a_tiny_weight_still_gets_a_slot() -> None:
    """Nobody gets a second step before everybody has one, however heavy."""
    limits = Limits(sweeps={"heavy": SweepLimit(weight=1000.0), "light": SweepLimit(weight=0.001)})
    heads = {Group("heavy", "b"): [1, 2, 3], Group("light", "b"): [9]}
    assert choose(heads, {}, limits, 2).step_ids == (1, 9)
