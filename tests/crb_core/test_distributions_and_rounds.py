"""Type-7 distributions, means over rounds, and durations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core import duration
from crb_core.distribution import Distribution, RoundValue, across_rounds, describe, percentile
from crb_core.duration import Measurement, round_duration
from crb_core.errors import InputError


@pytest.mark.parametrize(("p", "expected"), [(0, 1), (0.5, 5.5), (0.9, 9.1), (0.95, 9.55), (0.99, 9.91), (1, 10)])
def test_type_7_percentiles_of_one_to_ten(p, expected):
    """The worked examples of facts B, in any order of the values."""
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], p) == pytest.approx(expected, rel=1e-12)


def test_one_value_is_every_percentile():
    """n = 1 gives the value, n = 0 gives null."""
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([], 0.5) is None


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_percentiles_stay_inside_and_rise(values, one, other):
    """Between minimum and maximum, and not falling with p."""
    low, high = sorted((one, other))
    first, second = percentile(values, low), percentile(values, high)
    assert first is not None
    assert second is not None
    slack = 1e-9 * max(1.0, abs(first), abs(second))
    assert min(values) - slack <= first <= second + slack
    assert second <= max(values) + slack


def test_a_distribution_of_measured_trials():
    """Exact minimum and maximum, Type-7 p50 and p95."""
    assert describe([5.0, 1.0, 2.0, 3.0, 4.0]) == Distribution(
        minimum=1.0, p50=3.0, p95=4.8, maximum=5.0, measured=5, scored=5, reason=None
    )


@pytest.mark.parametrize(
    ("values", "measured", "reason"),
    [([1.0, None], 1, "only 1 of 2 scored trials measured it"), ([], 0, "no trial was scored")],
)
def test_a_partial_sample_gets_no_substitute(values, measured, reason):
    """It keeps its measured count and the reason (seed B)."""
    found = describe(values)
    assert (found.minimum, found.p50, found.p95, found.maximum) == (None, None, None, None)
    assert (found.measured, found.scored, found.reason) == (measured, len(values), reason)


def test_nan_is_no_measurement():
    """A missing value is None; NaN would poison the order silently."""
    with pytest.raises(InputError, match="nan is not a measurement"):
        describe([1.0, float("nan")])


def rounds(*values: tuple[float | None, int, int]) -> list[RoundValue]:
    return [
        RoundValue(number=number, value=value, scored=scored, planned=planned)
        for number, (value, scored, planned) in enumerate(values, start=1)
    ]


def test_three_complete_rounds_give_mean_and_sample_deviation():
    """0.2, 0.4, 0.6: mean 0.4, sample standard deviation 0.2; submittable."""
    found = across_rounds(rounds((0.6, 2, 2), (0.2, 2, 2), (0.4, 2, 2)))
    assert (found.mean, found.std) == (pytest.approx(0.4), pytest.approx(0.2))
    assert (found.used, found.ranked, found.submittable, found.reason) == ((1, 2, 3), True, True, None)


def test_an_incomplete_round_is_shown_but_not_averaged():
    """Rule 15: two complete rounds remain, ranked but not submittable."""
    found = across_rounds(rounds((0.6, 2, 2), (0.9, 1, 2), (0.4, 2, 2)))
    assert (found.mean, found.used, found.left_out) == (0.5, (1, 3), (2,))
    assert (found.ranked, found.submittable, len(found.rounds)) == (True, False, 3)


def test_partial_rounds_are_unranked():
    """``allow_partial`` uses what there is, says n of N and takes the row out of the ranking."""
    found = across_rounds(rounds((0.6, 2, 2), (0.9, 1, 2), (None, 0, 2)), allow_partial=True)
    assert (found.mean, found.scored, found.planned) == (0.75, 3, 4)
    assert (found.ranked, found.submittable) == (False, False)


def test_one_round_has_no_deviation():
    """Not 0: there is nothing to deviate."""
    found = across_rounds(rounds((0.5, 1, 1)))
    assert (found.mean, found.std, found.submittable) == (0.5, None, False)


def test_an_undefined_round_makes_the_row_undefined():
    """One unclassified candidate in a round withholds the row's augmented metrics (rule 10)."""
    found = across_rounds(rounds((0.5, 1, 1), (None, 1, 1), (0.7, 1, 1)))
    assert (found.mean, found.std, found.reason) == (None, None, "undefined in round 2")
    assert (found.ranked, found.submittable) == (False, False)


def test_no_complete_round_is_no_zero():
    """Reason instead of a number; the same round twice is refused."""
    assert across_rounds(rounds((0.5, 1, 2))).reason == "no round is complete"
    assert across_rounds([]).reason == "no round was run"
    with pytest.raises(InputError, match="round 1 is given twice"):
        across_rounds(rounds((0.5, 1, 1)) * 2)


def measured(*values: tuple[float | None, float | None]) -> list[Measurement]:
    return [
        Measurement(pull_request=f"{n}", review_ms=ms, duration_seconds=seconds)
        for n, (ms, seconds) in enumerate(values)
    ]


def test_durations_weigh_rounds_equally():
    """Round means 2,000 and 5,000 give 3,500, not the pooled 3,000 (seed A 7.5)."""
    first = round_duration(measured((1000, None), (3000, None)))
    second = round_duration(measured((5000, None)))
    found = duration.across_rounds([first, second])
    assert (found.mean_ms, found.std_ms) == (3500, pytest.approx(2121.320343559643))


def test_the_legacy_value_stands_in_and_is_flagged():
    """Seconds times 1,000, per pull request; review_ms wins where both are valid."""
    found = round_duration(measured((1000, 99), (None, 3), (0, 2), (-5, None), (float("nan"), None)))
    assert (found.mean_ms, found.measured, found.from_seconds, found.successful) == (2000, 3, 2, 5)
    latencies = [duration.latency(each) for each in measured((1000, 99), (None, 3))]
    assert [each.source for each in latencies if each] == ["review_ms", "duration_seconds"]


def test_the_longest_times_have_a_mean():
    """Two of the largest numbers sum to none, but their mean is one."""
    longest = round_duration(measured((1.7e308, None), (1.5e308, None)))
    assert longest.mean_ms == pytest.approx(1.6e308)
    assert duration.across_rounds([longest, longest, longest]).mean_ms == pytest.approx(1.6e308)


def test_rounds_without_a_measurement_are_skipped():
    """Missing is not 0, and one measured round has no deviation."""
    found = duration.across_rounds([round_duration(measured((None, None))), round_duration(measured((1500, None)))])
    assert (found.mean_ms, found.std_ms, found.measured_rounds) == (1500, None, 1)
    assert duration.across_rounds([round_duration([])]).mean_ms is None
