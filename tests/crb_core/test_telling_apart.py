"""Letters of rows that cannot be told apart, adjusted p values, and stability between rounds."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.bootstrap import Bootstrap
from crb_core.fast_aggregate import rescore
from crb_core.samples import sample_of
from crb_core.scoring_arrays import arrays_of
from crb_core.stability import jaccard, stability
from crb_core.strata import Subset
from crb_core.telling_apart import holm, letters, tell_apart
from tests.crb_core.judged_sweeps import golden, judged

brief = settings(deadline=None, max_examples=60)


@brief
@given(st.integers(0, 7), st.data())
def test_rows_share_a_letter_exactly_where_they_do_not_differ(count, data):
    """Whatever pairs differ, also where that is not transitive."""
    pairs = list(combinations(range(count), 2))
    different = set(data.draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else set()
    found = letters(count, sorted(different))
    assert all(found)
    for one, other in pairs:
        assert bool(set(found[one]) & set(found[other])) == ((one, other) not in different)


def test_close_neighbours_form_no_chain():
    """1 is close to 2 and 2 to 3, but 1 is ahead of 3: 2 belongs to both groups."""
    assert letters(3, [(0, 2)]) == ["a", "ab", "b"]
    assert letters(0, []) == []


def test_letters_do_not_run_out():
    """Thirty rows that all differ have thirty names."""
    found = letters(30, list(combinations(range(30), 2)))
    assert (found[0], found[25], found[26], len(set(found))) == ("a", "z", "a1", 30)


def test_holm_of_the_textbook():
    """0.01, 0.04, 0.03 times 3, 1 and 2, never falling: 0.03, 0.06, 0.06."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def sample(found):
    rounds = {1: [judged(f"pr-{n}", "tt", {p: [p] for p in range(each)}) for n, each in enumerate(found)]}
    return sample_of(rescore(arrays_of(rounds)), {1: 0})


def test_many_pairs_need_more_evidence():
    """A clear winner on ten pull requests is told apart; p is adjusted for the number of pairs."""
    best, middle, last = sample([2] * 10), sample([1, 0] * 5), sample([0, 1] * 5)
    grouping = tell_apart(Bootstrap(), [best, middle, last], "grounded_recall")
    assert grouping.letters == ("a", "b", "b")
    assert [pair.told_apart for pair in grouping.pairs] == [True, True, False]
    assert grouping.pairs[0].comparison.p == 2 / 1024
    assert grouping.pairs[0].adjusted_p == 6 / 1024
    assert grouping.pairs[2].adjusted_p == 1.0


def test_four_pull_requests_tell_nobody_apart():
    """Two of 16 exchanges are the least possible: p is at least 0.125 however clear it looks."""
    assert tell_apart(Bootstrap(), [sample([2] * 4), sample([0] * 4)], "grounded_recall").letters == ("a", "a")


def test_many_clear_rows_are_told_apart():
    """15 rows have 105 pairs: from 2,000 exchanges p is at least 1/2001, which times 105 is more than 5%."""
    best, worst = sample([2] * 16), sample([0] * 16)
    grouping = tell_apart(Bootstrap(resamples=2000), [best] * 7 + [worst] * 8, "grounded_recall")
    assert grouping.letters == ("a",) * 7 + ("b",) * 8
    assert {pair.comparison.exchanges for pair in grouping.pairs if pair.told_apart} == {6000}
    assert {pair.comparison.exchanges for pair in grouping.pairs if not pair.told_apart} == {2000}


def test_finer_p_is_that_of_as_many_exchanges():
    """Exchanges in parts are those of one longer run, and only p values that are known roughly are made again."""
    few = Bootstrap(resamples=2000)
    ahead, close, last = sample([2, 1] * 8), sample([1, 0] * 8), sample([0, 1] * 8)
    ten = sample([2] * 10), sample([0] * 10)
    pairs = [(ahead, close), (close, last), ten]
    found = [few.compare(*pair, "grounded_recall") for pair in pairs]
    clear, near, exact = few.finer(
        [(*pair, each) for pair, each in zip(pairs, found, strict=True)], 5000, "grounded_recall", "macro"
    )
    assert (clear.p, clear.exchanges) == (Bootstrap(resamples=6000).compare(ahead, close, "grounded_recall").p, 6000)
    assert (clear.difference, clear.low, clear.high) == (found[0].difference, found[0].low, found[0].high)
    assert (near, exact) == (found[1], found[2])
    # Of ten pull requests all exchanges were counted, and more there are not.
    assert (exact.exact, exact.exchanges, exact.p) == (True, 1024, 2 / 1024)


def test_preparing_changes_no_digit():
    """Pairs that are made at once equal those that are compared alone."""
    samples = [sample([2, 1, 0, 1, 2]), sample([1, 1, 0, 0, 2]), sample([0, 2, 2, 0, 1])]
    together = tell_apart(Bootstrap(), samples, "grounded_f")
    alone = [Bootstrap().compare(samples[one], samples[other], "grounded_f") for one, other in ((0, 1), (0, 2), (1, 2))]
    assert [pair.comparison for pair in together.pairs] == alone


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [({1, 2}, {2, 3}, 1 / 3), ({1}, {1}, 1.0), ({1}, set(), 0.0), (set(), set(), None)],
)
def test_jaccard(one, other, expected):
    """Shared among all; undefined, not 1 and not 0, where both are empty."""
    assert jaccard(one, other) == expected


def test_stability_is_the_mean_over_pairs_of_rounds():
    """Covered golden TPs only: the FP that every round matches makes no round more alike."""
    rounds = {
        1: [judged("pr-1", "ttf", {0: [0], 1: [2]}), judged("pr-2", "t")],
        2: [judged("pr-1", "ttf", {0: [0, 1], 1: [2]}), judged("pr-2", "t")],
        3: [judged("pr-1", "ttf", {1: [2]}), judged("pr-2", "t", {0: [0]})],
    }
    found = stability(arrays_of(rounds), {1: 0, 2: 1, 3: 2})
    # 1 and 2: {a} of {a, b}; 1 and 3: none of {a, c}; 2 and 3: none of {a, b, c}.
    assert [pair.pooled for pair in found.pairs] == [0.5, 0.0, 0.0]
    assert found.pooled == pytest.approx(1 / 6)
    # By pull request: (1/2, null), (0, 0), (0, 0).
    assert [pair.macro for pair in found.pairs] == [0.5, 0.0, 0.0]


def test_stability_without_a_pair_or_a_finding():
    """One round has no pair; two rounds that cover nothing have no value; only shared pull requests count."""
    rounds = {1: [judged("pr-1", "t"), judged("pr-2", "t", {0: [0]})], 2: [judged("pr-1", "t")]}
    arrays = arrays_of(rounds)
    assert stability(arrays, {1: 0}).pairs == ()
    assert stability(arrays, {1: 0}).pooled is None
    pair = stability(arrays, {1: 0, 2: 1}).pairs[0]
    assert (pair.pooled, pair.macro, pair.pull_requests) == (None, None, 1)


def test_stability_inside_a_subset():
    """Only the golden findings of the subset are compared."""
    goldens = [golden("a", severity="high"), golden("b", severity="low")]
    arrays = arrays_of({1: [judged("pr", goldens, {0: [0], 1: [1]})], 2: [judged("pr", goldens, {0: [0]})]})
    assert stability(arrays, {1: 0, 2: 1}).pooled == 0.5
    assert stability(arrays, {1: 0, 2: 1}, Subset.parse(severity=["high"])).pooled == 1.0
