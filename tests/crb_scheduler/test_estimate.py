"""The estimate of a sweep's end, by hand."""

from __future__ import annotations

import pytest

from crb_scheduler.estimate import BuildWork, Estimate, Window, estimate

#: Ten minutes in which 60 reviews of 20 s ended: two at once.
BUSY = Window(seconds=600, attempts=60, spent_ms=1_200_000, judged=60)


def work(waiting: int, ended: int, spent_ms: float, reviewing: int = 0) -> BuildWork:
    return BuildWork(waiting=waiting, reviewing=reviewing, ended=ended, spent_ms=spent_ms)


def test_what_is_left_counts_at_its_own_builds_mean_time() -> None:
    """30 reviews of 20 s and 4 of 300 s are 1,800 s of work; at two at once they take 900 s."""
    found = estimate(
        {"quick": work(30, 50, 1_000_000), "slow": work(4, 2, 600_000)}, BUSY, to_judge=0, judges_behind=False
    )
    assert found.seconds == pytest.approx(900)
    assert found.how == "34 reviews left at each agent's mean time, 2.0 at once as in the last 10 min"


def test_half_of_a_running_review_is_behind_it() -> None:
    """Two running reviews of 20 s are 20 s of work, at two at once 10 s."""
    found = estimate({"a": work(0, 50, 1_000_000, reviewing=2)}, BUSY, to_judge=0, judges_behind=False)
    assert found.seconds == pytest.approx(10)


def test_a_build_that_has_not_ended_anything_counts_at_the_mean_of_all() -> None:
    """Ten reviews of an unknown build, at the others' 20 s: 200 s of work."""
    found = estimate({"known": work(0, 5, 100_000), "new": work(10, 0, 0)}, BUSY, to_judge=0, judges_behind=False)
    assert found.seconds == pytest.approx(100)


def test_retries_make_a_trial_as_expensive_as_it_was() -> None:
    """Five trials took ten attempts of 20 s, so each trial that is left is 40 s."""
    found = estimate({"flaky": work(10, 5, 200_000)}, BUSY, to_judge=0, judges_behind=False)
    assert found.seconds == pytest.approx(200)


def test_judges_that_are_behind_hold_the_sweep_up() -> None:
    """100 reviews would take 1,000 s; 300 trials to judge at 6 a minute take 3,000 s."""
    builds = {"a": work(100, 50, 1_000_000)}
    behind = estimate(builds, BUSY, to_judge=200, judges_behind=True)
    assert behind.seconds == pytest.approx(3000)
    assert behind.how == "300 trials left to judge, 6.0 a minute in the last 10 min"
    assert estimate(builds, BUSY, to_judge=200, judges_behind=False).seconds == pytest.approx(1000)


def test_only_judging_is_left() -> None:
    """No review waits: 12 trials at 6 a minute."""
    assert estimate({"a": work(0, 72, 1.0)}, BUSY, to_judge=12, judges_behind=False).seconds == pytest.approx(120)


@pytest.mark.parametrize(
    ("builds", "window", "to_judge", "how"),
    [
        ({"a": work(0, 3, 1.0)}, BUSY, 0, "nothing is left to do"),
        ({"a": work(5, 0, 0.0)}, None, 0, "nothing has ended yet"),
        (
            {"a": work(5, 4, 4.0)},
            Window(seconds=90, attempts=4, spent_ms=4.0, judged=4),
            0,
            "only 4 reviews ended in the last 90 s; 5 are needed",
        ),
        (
            {"a": work(0, 9, 4.0)},
            Window(seconds=600, attempts=9, spent_ms=4.0, judged=1),
            3,
            "only 1 trials were judged in the last 10 min; 5 are needed",
        ),
    ],
)
def test_without_a_ground_there_is_no_estimate(
    builds: dict[str, BuildWork], window: Window | None, to_judge: int, how: str
) -> None:
    """An estimate that is not there says why; it is never 0."""
    assert estimate(builds, window, to_judge=to_judge, judges_behind=False) == Estimate(seconds=None, how=how)
