"""The split of an attempt's time."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.phases import SPLIT, split


def test_the_finer_phases_add_up_to_the_parts() -> None:
    """prepare is snapshot and preparation, slot the waiting for slot and permit; create, start, wait lie in review."""
    phases = {
        "queue": 40.0,
        "snapshot": 10.0,
        "prepare": 20.0,
        "slot": 5.0,
        "permit": 1.0,
        "create": 30.0,
        "start": 20.0,
        "wait": 900.0,
        "collect": 15.0,
        "teardown": 25.0,
        "store": 3.0,
        "pull": 7.0,
    }
    found = split(phases, 950.0)
    assert found == {
        "queue": 40.0,
        "prepare": 30.0,
        "pull": 7.0,
        "slot": 6.0,
        "review": 950.0,
        "collect": 18.0,
        "teardown": 25.0,
    }
    assert list(found) == list(SPLIT)


@pytest.mark.parametrize("phases", [None, {}, {"queue": None}, {"queue": "soon", "pull": -1.0, "slot": float("nan")}])
def test_what_was_not_measured_is_absent(phases: dict[str, Any] | None) -> None:
    """Absent is not 0, and what is no duration is not one."""
    assert split(phases, None) == {}


def test_an_attempt_that_ended_before_it_was_measured_has_what_it_took() -> None:
    """A container that could not be created or started: the time is in review, since it is in no other part."""
    assert split({"create": 30.0, "start": 5.0}, None) == {"review": 35.0}
    assert split({"create": 30.0, "start": 5.0}, 35.5) == {"review": 35.5}


def test_zero_is_a_measurement() -> None:
    """A step that did not wait at all."""
    assert split({"queue": 0}, 1.0) == {"queue": 0.0, "review": 1.0}
