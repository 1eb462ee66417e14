"""Shares of three sweeps of very different sizes, and limits that change while they run, against what is documented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_scheduler.choose import FIRST_TURNS, Group, Limits, SweepLimit, Turns, choose

SIZES = {"big": 1000, "middle": 100, "small": 10}


@dataclass
class Farm:
    """A farm of equal slots in which every review takes as long: one ends in each turn, the one that began first.

    As in the dispatcher as many steps as slots wait in the queue, and those that run or are queued are in flight.
    """

    slots: int
    limits: dict[str, SweepLimit]
    caps: dict[str, int] = field(default_factory=dict)
    turns: Turns = FIRST_TURNS
    left: dict[str, list[int]] = field(
        default_factory=lambda: {name: list(range(size)) for name, size in SIZES.items()}
    )
    flying: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def turn(self) -> None:
        in_flight = {Group(name, name): count for name, count in Counter(self.flying).items()}
        heads = {Group(name, name): waiting[: 2 * self.slots] for name, waiting in self.left.items() if waiting}
        numbers = {
            number + place * 10_000: (group.sweep_id, number)
            for place, (group, waiting) in enumerate(heads.items())
            for number in waiting
        }
        shifted = {
            group: [number + place * 10_000 for number in waiting]
            for place, (group, waiting) in enumerate(heads.items())
        }
        limits = Limits(sweeps=self.limits, builds=self.caps)
        choice = choose(shifted, in_flight, limits, 2 * self.slots - len(self.flying), self.turns)
        self.turns = choice.turns
        for number in choice.step_ids:
            name, own = numbers[number]
            self.left[name].remove(own)
            self.flying.append(name)
        if self.flying:
            self.ended.append(self.flying.pop(0))

    def in_flight(self) -> Mapping[str, int]:
        return Counter(self.flying)

    def run(self) -> None:
        while self.flying or any(self.left.values()):
            self.turn()


def shares(farm: Farm, reviews: int) -> dict[str, float]:
    counted = Counter(farm.ended[:reviews])
    return {name: counted[name] / reviews for name in SIZES}


@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_equal_weights_share_alike_whatever_the_sizes(slots: int) -> None:
    """While the small one has work each gets a third; then the middle one half; the big one takes what is left."""
    farm = Farm(slots, dict.fromkeys(SIZES, SweepLimit()))
    farm.run()
    assert Counter(farm.ended) == SIZES
    last = {name: max(place for place, each in enumerate(farm.ended) if each == name) for name in SIZES}
    # 10 of each third, 100 of each half, and what is in flight around the moment of the change.
    assert last["small"] <= 30 + 4 * slots
    assert last["middle"] <= 210 + 4 * slots
    if slots <= 2:
        assert shares(farm, 30) == pytest.approx(dict.fromkeys(SIZES, 1 / 3), abs=0.05)


@pytest.mark.parametrize("slots", [4, 8, 32])
def test_twice_the_weight_is_twice_the_share(slots: int) -> None:
    """Weights 1 and 2 of the big and the middle one, while both have work: a third and two thirds.

    Every sweep has a first step in flight before any has a second, so few slots share alike whatever the weights are.
    """
    farm = Farm(slots, {"big": SweepLimit(weight=1), "middle": SweepLimit(weight=2), "small": SweepLimit(weight=4)})
    farm.run()
    both = [name for name in farm.ended[: farm.ended.index("big") + 150 - 2 * slots] if name != "small"][:120]
    assert both.count("middle") / len(both) == pytest.approx(2 / 3, abs=0.1)
    assert max(place for place, name in enumerate(farm.ended) if name == "small") <= 10 * 7 / 4 + 4 * slots


def test_a_higher_priority_goes_before_everything() -> None:
    """The big sweep waits, but for what was in flight, until nothing of the middle one is left to begin."""
    farm = Farm(8, {"big": SweepLimit(), "middle": SweepLimit(priority=1), "small": SweepLimit()})
    farm.run()
    assert farm.ended[: 100 - 16] == ["middle"] * 84
    assert Counter(farm.ended) == SIZES


@given(
    changes=st.lists(
        st.tuples(st.sampled_from([*SIZES]), st.one_of(st.none(), st.integers(1, 20)), st.integers(1, 30)), max_size=12
    ),
    slots=st.integers(1, 24),
)
def test_a_new_limit_holds_once_what_ran_has_ended(changes: list[tuple[str, int | None, int]], slots: int) -> None:
    """Lowered while more than that is in flight: nothing is added until it is below, and it never rises above again."""
    farm = Farm(slots, dict.fromkeys(SIZES, SweepLimit()))
    farm.turn()
    for name, cap, turns in changes:
        farm.limits[name] = SweepLimit(cap=cap)
        most = dict(farm.in_flight())
        for _ in range(turns):
            farm.turn()
            for each, limit in farm.limits.items():
                if limit.cap is not None:
                    assert farm.in_flight()[each] <= max(limit.cap, most.get(each, 0))
                    most[each] = min(most.get(each, 0), farm.in_flight()[each])
    for name in SIZES:
        farm.limits[name] = SweepLimit()
    farm.run()
    assert Counter(farm.ended) == SIZES
