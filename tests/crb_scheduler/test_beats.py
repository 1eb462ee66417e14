"""Liveness is a beat that moves, by the reader's own clock."""

from __future__ import annotations

from crb_scheduler.beats import BeatState, BeatWatch


def test_one_reading_tells_nothing_and_a_moving_beat_is_life() -> None:
    """Unknown at first; alive once it moved; silent after the lease without a change; alive again when it moves."""
    now = [0.0]
    watch = BeatWatch(30, clock=lambda: now[0])
    assert watch.read([("w", 7)]) == {"w": BeatState(alive=None, silent_seconds=0)}
    now[0] = 5
    assert watch.read([("w", 8)])["w"] == BeatState(alive=True, silent_seconds=0)
    now[0] = 34
    assert watch.read([("w", 8)])["w"] == BeatState(alive=True, silent_seconds=29)
    now[0] = 35
    assert watch.read([("w", 8)])["w"] == BeatState(alive=False, silent_seconds=30)
    assert watch.read([("w", 9)])["w"].alive is True


def test_a_beat_that_never_moves_is_silent_after_the_lease() -> None:
    """A row that a killed worker left behind."""
    now = [0.0]
    watch = BeatWatch(30, clock=lambda: now[0])
    watch.read([("gone", 3)])
    now[0] = 30
    assert watch.read([("gone", 3)])["gone"].alive is False


def test_a_worker_that_signed_off_is_forgotten() -> None:
    """A later worker of the same name starts unknown."""
    watch = BeatWatch(30)
    watch.read([("w", 1)])
    assert watch.read([]) == {}
    assert watch.read([("w", 2)])["w"].alive is None
