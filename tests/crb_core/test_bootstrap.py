"""Intervals and comparisons against brute force through the pure definition (rule 22)."""

from __future__ import annotations

import itertools
import random
import statistics

import numpy as np
import pytest

from crb_core import draws
from crb_core.bootstrap import FEWEST, SEED, Bootstrap, caution
from crb_core.distribution import percentile
from crb_core.draws import swaps, weights
from crb_core.errors import InputError
from crb_core.fast_aggregate import rescore
from crb_core.metrics import score
from crb_core.samples import sample_of
from crb_core.scoring_arrays import arrays_of
from crb_core.strata import Subset
from tests.crb_core.judged_sweeps import judged

METRICS = (
    "grounded_precision",
    "grounded_recall",
    "grounded_f",
    "augmented_precision",
    "augmented_recall",
    "augmented_f",
    "novel_tp_yield",
)


def made_up(seed, prs, rounds, labelled=True):
    """Rounds of random judgments over the same pull requests."""
    draw = random.Random(seed)
    kinds = {key: "".join(draw.choice("ttf") for _ in range(4)) for key in (f"pr-{n}" for n in range(prs))}
    found = {}
    for number in range(1, rounds + 1):
        prs_of_round = []
        for key, kind in kinds.items():
            matches = {place: [draw.randrange(4)] for place in range(4) if draw.random() < 0.6}
            claimed: dict[int, int] = {}
            for place, (golden,) in matches.items():
                if golden not in claimed.values():
                    claimed[place] = golden
            labels = {p: draw.choice(("tp", "fp")) for p in range(5) if p not in claimed} if labelled else {}
            prs_of_round.append(judged(key, kind, matches, labels, candidates=5))
        found[number] = prs_of_round
    return found


def sample(rounds, **options):
    scores = rescore(arrays_of(rounds), **options)
    return sample_of(scores, {number: place for place, number in enumerate(rounds)})


def by_definition(rounds, metric, level, drawn):
    """The metric of a resample: every round scored by the pure definition, each drawn copy a pull request."""
    values = []
    for prs in rounds.values():
        ordered = sorted(prs, key=lambda pr: pr.key)
        copies = [
            pr.model_copy(update={"key": f"{pr.key} copy {copy}"})
            for pr, times in zip(ordered, drawn, strict=True)
            for copy in range(int(times))
        ]
        values.append(getattr(getattr(score(copies), level).overall, metric))
    return None if None in values else statistics.fmean(values)


@pytest.mark.parametrize("level", ["macro", "micro"])
def test_intervals_equal_the_definition_on_every_resample(level):
    """Each resample is scored anew from its pull requests with all rounds; the bounds are Type-7 percentiles."""
    rounds = made_up(1, 5, 2)
    found = Bootstrap(resamples=60).intervals([sample(rounds)], level, METRICS)[0]
    drawn = weights(5, 60, SEED)
    for metric in METRICS:
        values = [by_definition(rounds, metric, level, row) for row in drawn]
        defined = [value for value in values if value is not None]
        if len(defined) < 0.95 * len(values):
            assert found[metric].low is None
            assert found[metric].reason == f"undefined in {60 - len(defined)} of 60 resamples"
        else:
            assert found[metric].low == pytest.approx(percentile(defined, 0.025), abs=1e-9)
            assert found[metric].high == pytest.approx(percentile(defined, 0.975), abs=1e-9)


def test_every_resample_draws_as_many_as_there_are():
    """Sampling with replacement: rows sum to n, every pull request is drawn about equally often."""
    drawn = weights(7, 10_000, SEED)
    assert set(drawn.sum(axis=1)) == {7}
    assert np.allclose(drawn.mean(axis=0), 1, atol=0.05)
    # Multinomial: the variance of a count is 1 - 1/n.
    assert np.allclose(drawn.var(axis=0), 6 / 7, atol=0.06)


def test_what_is_drawn_in_parts_is_one_stream(monkeypatch):
    """Many pull requests are drawn some at a time, which changes no number."""
    whole = weights.__wrapped__(7, 50, SEED), swaps.__wrapped__(17, 50, SEED)
    monkeypatch.setattr(draws, "_AT_ONCE", 40)
    for mine, made in zip(whole, (weights.__wrapped__(7, 50, SEED), swaps.__wrapped__(17, 50, SEED)), strict=True):
        assert np.array_equal(mine, made)
    parts = [swaps.__wrapped__(17, 25, SEED, first) for first in (0, 25)]
    assert np.array_equal(whole[1], np.concatenate(parts))


def test_the_same_input_gives_the_same_digits():
    """Order of the pull requests and a second run change nothing; another seed does."""
    rounds = made_up(2, 9, 3)
    shuffled = {number: list(reversed(prs)) for number, prs in rounds.items()}
    first = Bootstrap().intervals([sample(rounds)], "macro", METRICS)
    assert Bootstrap().intervals([sample(shuffled)], "macro", METRICS) == first
    assert Bootstrap().intervals([sample(made_up(5, 9, 3)), sample(rounds)], "macro", METRICS)[1] == first[0]
    assert Bootstrap(seed=1).intervals([sample(rounds)], "macro", METRICS) != first


def test_the_digits_are_those_written_down():
    """PCG64's raw stream and whole-number sums: these digits must come out on every machine."""
    found = Bootstrap().intervals([sample(made_up(3, 8, 3))], "macro", ["grounded_f"])[0]["grounded_f"]
    assert (found.low, found.high) == (0.39169615645883793, 0.6200177830240657)


def test_undefined_is_no_interval():
    """One unclassified candidate withholds augmented intervals; one pull request has none at all."""
    found = Bootstrap().intervals([sample(made_up(4, 6, 2, labelled=False))], "macro", METRICS)[0]
    assert found["augmented_precision"].reason == "the metric is undefined"
    assert found["grounded_recall"].low is not None
    alone = Bootstrap().intervals([sample(made_up(4, 1, 2))], "micro", ["grounded_recall"])[0]["grounded_recall"]
    assert (alone.low, alone.high, alone.reason) == (None, None, "an interval needs two pull requests")


def test_goldens_only_filter_withholds_augmented_intervals():
    """Rule 7: a producer filter leaves no candidate labels to count with."""
    found = Bootstrap().intervals(
        [sample(made_up(1, 6, 2), subset=Subset.parse(producer=["human_review"]))], "macro", METRICS
    )[0]
    assert found["augmented_f"].low is None
    assert found["grounded_f"].low is not None


@pytest.mark.parametrize("level", ["macro", "micro"])
@pytest.mark.parametrize("metric", ["grounded_recall", "grounded_f", "augmented_precision"])
def test_p_counts_every_exchange(level, metric):
    """With 6 pull requests all 64 exchanges of both builds' results are enumerated, each scored by the definition."""
    one, other = made_up(11, 6, 2), made_up(12, 6, 2)
    other = _same_goldens(one, other)
    found = Bootstrap().compare(sample(one), sample(other), metric, level)
    ones = [1] * 6
    observed = by_definition(one, metric, level, ones) - by_definition(other, metric, level, ones)
    extreme = 0
    for swapped in itertools.product((False, True), repeat=6):
        mine, theirs = {}, {}
        for number in one:
            pairs = [sorted(rounds[number], key=lambda pr: pr.key) for rounds in (one, other)]
            mine[number] = [b if swap else a for a, b, swap in zip(*pairs, swapped, strict=True)]
            theirs[number] = [a if swap else b for a, b, swap in zip(*pairs, swapped, strict=True)]
        left, right = (by_definition(each, metric, level, ones) for each in (mine, theirs))
        extreme += left is None or right is None or abs(left - right) >= abs(observed) - 1e-9
    assert found.exact
    assert found.difference == pytest.approx(observed, abs=1e-9)
    assert found.p == extreme / 64
    assert (found.pull_requests, found.rounds) == (6, (1, 2))


def _same_goldens(one, other):
    """The judgments of ``other`` on the golden findings of ``one``, so that both are of the same pull requests."""
    kinds = {pr.key: pr.golden for pr in one[1]}
    return {number: [pr.model_copy(update={"golden": kinds[pr.key]}) for pr in prs] for number, prs in other.items()}


def perfect(keys, found):
    return {1: [judged(key, "t", {0: [0]} if found else {}) for key in keys]}


def test_a_clear_winner_on_five_pull_requests():
    """All five differ the same way: 2 of 32 exchanges are as extreme, p = 1/16 and no less."""
    keys = [f"pr-{n}" for n in range(5)]
    found = Bootstrap().compare(sample(perfect(keys, True)), sample(perfect(keys, False)), "grounded_recall")
    assert (found.difference, found.low, found.high, found.p) == (1.0, 1.0, 1.0, 2 / 32)


def test_equal_builds_cannot_be_told_apart():
    """Difference 0, interval 0 to 0, p 1; and comparing the other way round only changes the sign."""
    rounds = made_up(6, 20, 3)
    same = Bootstrap().compare(sample(rounds), sample(rounds), "grounded_f")
    assert (same.difference, same.low, same.high, same.p, same.exact) == (0.0, 0.0, 0.0, 1.0, False)
    other = _same_goldens(rounds, made_up(7, 20, 3))
    there = Bootstrap().compare(sample(rounds), sample(other), "grounded_f")
    back = Bootstrap().compare(sample(other), sample(rounds), "grounded_f")
    assert (back.difference, back.p) == (-there.difference, there.p)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-12)


def test_random_exchanges_come_near_the_exact_p():
    """13 pull requests are enumerated (8,192 exchanges); 2,000 random ones of them give nearly the same p."""
    one = made_up(21, 13, 2)
    other = _same_goldens(one, made_up(22, 13, 2))
    exact = Bootstrap().compare(sample(one), sample(other), "grounded_recall")
    near = Bootstrap(resamples=2000).compare(sample(one), sample(other), "grounded_recall")
    assert (exact.exact, near.exact) == (True, False)
    assert near.p == pytest.approx(exact.p, abs=0.05)
    assert near.p >= 1 / 2001


def test_only_shared_pull_requests_and_rounds_are_compared():
    """What one of the two has not scored in a shared round is no evidence about the other."""
    one = made_up(31, 6, 3)
    other = _same_goldens(one, made_up(32, 6, 3))
    del other[2]
    other[3] = other[3][1:]
    found = Bootstrap().compare(sample(one), sample(other), "grounded_recall")
    assert (found.rounds, found.pull_requests) == ((1, 3), 5)
    reduced = {number: prs[1:] for number, prs in one.items() if number != 2}
    left = by_definition(reduced, "grounded_recall", "macro", [1] * 5)
    right = by_definition({number: other[number][-5:] for number in (1, 3)}, "grounded_recall", "macro", [1] * 5)
    assert found.difference == pytest.approx(left - right, abs=1e-9)
    nothing = Bootstrap().compare(sample({1: one[1]}), sample({2: one[2]}), "grounded_recall")
    assert (nothing.difference, nothing.p) == (None, None)
    assert nothing.reason == "no pull request was scored in the same round for both"


def test_others_go_first_between_pieces_of_work():
    """It changes no digit, and who raises ends the work."""
    rounds = made_up(3, 12, 2)
    arrays = arrays_of(rounds)
    samples = [sample_of(rescore(arrays), {number: place for place, number in enumerate(rounds)})]
    calls: list[None] = []
    asked = Bootstrap(resamples=1200, between=lambda: calls.append(None)).intervals(samples, "macro", METRICS)
    assert asked == Bootstrap(resamples=1200).intervals(samples, "macro", METRICS)
    assert len(calls) == 3

    def stop():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Bootstrap(between=stop).compare(samples[0], samples[0], "grounded_f")


def test_fewer_than_six_pull_requests_tell_nobody_apart():
    """``caution`` says so, because the smallest p of all is 2/2^n."""
    for count in (5, 6):
        keys = [f"pr-{number}" for number in range(count)]
        found = Bootstrap().compare(sample(perfect(keys, True)), sample(perfect(keys, False)), "grounded_recall")
        assert found.p is not None
        assert (found.p > 0.05) == (count < FEWEST) == ("no two rows" in (caution(count) or ""))


@pytest.mark.thorough
@pytest.mark.parametrize(("count", "low", "high"), [(2, 0.4, 0.6), (5, 0.75, 0.91), (50, 0.91, 0.98)])
def test_how_many_intervals_hold_the_true_value(count, low, high):
    """Simulated recalls whose mean is known: over few pull requests it is far from 95% (decision 0007)."""
    draw = random.Random(5)

    def drawn(number):
        return {1: [judged(f"pr-{number}-{pr}", "ttttt", {0: [*range(draw.randint(0, 5))]}) for pr in range(count)]}

    samples = [sample(drawn(number)) for number in range(300)]
    found = [
        Bootstrap(resamples=500).intervals([each], "macro", ["grounded_recall"])[0]["grounded_recall"]
        for each in samples
    ]
    held = sum(each.low is not None and each.low <= 0.5 <= each.high for each in found) / len(found)
    assert low <= held <= high


def test_no_resamples_is_an_error():
    """An interval of nothing would be a made-up number."""
    with pytest.raises(InputError, match="at least one resample"):
        Bootstrap(resamples=0)
