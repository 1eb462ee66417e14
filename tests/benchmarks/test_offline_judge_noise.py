"""Chance alone, counted by hand."""

from __future__ import annotations

from benchmarks.offline_judge import Review
from benchmarks.offline_judge_noise import distances, report, tool_f1


def review(tool: str, *, matched: int, golden: int, wrong: int, judge: str = "one") -> Review:
    return Review(
        judge=judge,
        repository="shop",
        pull_request="https://example.org/owner/shop/pull/1",
        tool=tool,
        golden=tuple(f"golden {number}" for number in range(golden)),
        candidates=tuple(f"candidate {number}" for number in range(matched + wrong)),
        matched={number: f"candidate {number}" for number in range(matched)},
        false_positives=wrong,
    )


REVIEWS = [review("a", matched=6, golden=10, wrong=2), review("b", matched=2, golden=10, wrong=4)]


def test_f1_of_changed_answers() -> None:
    """One answer more turns a miss and a false positive into a hit."""
    assert tool_f1(REVIEWS) == {"a": 12 / 18, "b": 4 / 16}
    assert tool_f1(REVIEWS, [1, 0])["a"] == 14 / 18
    assert tool_f1(REVIEWS, [0, -1])["b"] == 2 / 16


def test_no_error_is_no_distance() -> None:
    """And errors without bias are one."""
    largest, taus = distances(REVIEWS, 0.0, draws=5)
    assert (set(largest), set(taus)) == ({0.0}, {1.0})
    largest, _ = distances(REVIEWS, 0.2, draws=20)
    assert max(largest) > 0.0


def test_the_recorded_judges_beside_each_other() -> None:
    """Every pair, with the largest difference of a tool."""
    others = [
        review("a", matched=5, golden=10, wrong=3, judge="two"),
        review("b", matched=2, golden=10, wrong=4, judge="two"),
    ]
    found = report([*REVIEWS, *others])
    (pair,) = found["recorded_judges"]
    assert pair["judges"] == ["one", "two"]
    assert round(pair["largest_f1_difference"], 4) == round(12 / 18 - 10 / 18, 4)
    assert pair["kendall_tau"] == 1.0
