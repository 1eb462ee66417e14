"""What `crb gc` removes: only what nobody needs, the longest unused first, never what is young."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crb_core.housekeeping import Thing, choose_removals

NOW, YOUNG = 1000.0, 10.0

things = st.lists(
    st.builds(
        Thing,
        kind=st.just("snapshot"),
        name=st.integers(0, 10**6).map(str),
        shown_as=st.just("x"),
        size=st.integers(0, 50),
        last_used=st.none() | st.integers(900, 1000).map(float),
        kept_because=st.none() | st.just("a row names it"),
    ),
    max_size=12,
    unique_by=lambda thing: thing.name,
)


def thing(name: str, size: int, unused: float | None, kept: str | None = None) -> Thing:
    used = None if unused is None else NOW - unused
    return Thing(kind="snapshot", name=name, shown_as=name, size=size, last_used=used, kept_because=kept)


def names(chosen: list[Thing]) -> list[str]:
    return [one.name for one in chosen]


def test_age() -> None:
    """What was last used long enough ago goes; what is needed, or of unknown age, stays."""
    held = [thing("old", 1, 60), thing("new", 1, 20), thing("needed", 1, 90, "a row names it"), thing("?", 1, None)]
    assert names(choose_removals(held, now=NOW, older_than=50, max_bytes=None, young=YOUNG)) == ["old"]


def test_size() -> None:
    """Over the size the longest unused goes until it fits; what is needed counts and stays; the young stay."""
    held = [thing("a", 5, 40), thing("b", 5, 30), thing("c", 5, 5), thing("needed", 10, 90, "a row names it")]
    choose = {
        limit: names(choose_removals(held, now=NOW, older_than=50, max_bytes=limit, young=YOUNG))
        for limit in (25, 24, 20, 19, 0)
    }
    assert choose == {25: [], 24: ["a"], 20: ["a"], 19: ["a", "b"], 0: ["a", "b"]}


@given(things, st.integers(10, 120), st.none() | st.integers(0, 300))
def test_against_one_at_a_time(held: list[Thing], older_than: int, max_bytes: int | None) -> None:
    """Removing one thing at a time, each time asking anew what may go and whether it must, ends the same."""
    left = list(held)
    gone: list[str] = []
    while True:
        may_go = [one for one in left if one.kept_because is None and one.last_used is not None]
        total = sum(one.size for one in left)
        must = [
            one
            for one in may_go
            if NOW - (one.last_used or 0) >= older_than
            or (max_bytes is not None and total > max_bytes and NOW - (one.last_used or 0) >= YOUNG)
        ]
        if not must:
            break
        first = min(must, key=lambda one: (one.last_used, one.name))
        left.remove(first)
        gone.append(first.name)
    assert names(choose_removals(held, now=NOW, older_than=older_than, max_bytes=max_bytes, young=YOUNG)) == gone
