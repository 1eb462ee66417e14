"""Which steps go next, held against a slow and obvious oracle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crb_scheduler.choose import Group, GroupLimit, choose

groups = st.builds(Group, st.sampled_from(["s1", "s2", "s3"]), st.sampled_from(["b1", "b2", "b3"]))


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[Group, list[int]], dict[Group, int], dict[Group, GroupLimit], int]:
    names = draw(st.lists(groups, unique=True, max_size=7))
    heads, number = {}, 0
    for name in names:
        count = draw(st.integers(0, 5))
        heads[name] = list(range(number, number + count))
        number += count
    in_flight = {name: draw(st.integers(0, 4)) for name in names if draw(st.booleans())}
    limits = {
        name: GroupLimit(priority=draw(st.integers(-1, 1)), cap=draw(st.none() | st.integers(0, 5))) for name in names
    }
    return heads, in_flight, limits, draw(st.integers(0, 12))


def oracle(
    heads: dict[Group, list[int]], in_flight: dict[Group, int], limits: dict[Group, GroupLimit], room: int
) -> list[int]:
    """Look at every group anew for every single step."""
    flying = dict(in_flight)
    left = {name: list(ids) for name, ids in heads.items()}
    chosen: list[int] = []
    while len(chosen) < room:
        best = None
        for name in sorted(left):
            cap = limits[name].cap
            if not left[name] or (cap is not None and flying.get(name, 0) >= cap):
                continue
            of_sweep = sum(count for other, count in flying.items() if other.sweep_id == name.sweep_id)
            rank = (-limits[name].priority, of_sweep, flying.get(name, 0), name)
            if best is None or rank < best:
                best = rank
        if best is None:
            return chosen
        chosen.append(left[best[3]].pop(0))
        flying[best[3]] = flying.get(best[3], 0) + 1
    return chosen


@given(situations())
def test_chooses_what_the_oracle_chooses(
    situation: tuple[dict[Group, list[int]], dict[Group, int], dict[Group, GroupLimit], int],
) -> None:
    """Priority, then the sweep with least in flight, then the build with least; never beyond a cap or the room."""
    assert choose(*situation) == oracle(*situation)


def test_builds_interleave() -> None:
    """Two builds of one sweep take turns, each in order of position."""
    heads = {Group("s", "a"): [1, 2, 3], Group("s", "b"): [11, 12, 13]}
    assert choose(heads, {}, {}, 4) == [1, 11, 2, 12]


def test_a_big_sweep_does_not_starve_a_small_one() -> None:
    """A sweep with five builds in flight gives way to one with none."""
    big = {Group("big", f"b{number}"): list(range(number * 10, number * 10 + 9)) for number in range(5)}
    small = {Group("small", "b"): [901, 902]}
    assert choose(big | small, dict.fromkeys(big, 1), {}, 2) == [901, 902]


def test_a_cap_holds_across_what_is_in_flight() -> None:
    """A vendor's cap counts steps that run already."""
    group = Group("s", "a")
    assert choose({group: [1, 2, 3]}, {group: 1}, {group: GroupLimit(cap=2)}, 9) == [1]
