"""Intervals and letters of golden-comments rows, whose counts come from their own protocol."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.bootstrap import Bootstrap
from crb_core.comment_rows import CommentTrial
from crb_core.fast_aggregate import rescore
from crb_core.golden_leaderboard import strict_rows
from crb_core.identity import RowIdentity
from crb_core.metrics import pull_request_counts
from crb_core.recipes import RECIPES
from crb_core.row_usage import comment_usage
from crb_core.rows import Trial
from crb_core.samples import sample_of, sample_of_counts
from crb_core.scoring_arrays import arrays_of
from crb_core.trial_distributions import comment_distributions
from crb_core.usage import UsageRecord
from tests.crb_core.judged_sweeps import build, golden, judged
from tests.crb_core.test_bootstrap import METRICS, made_up


@pytest.mark.parametrize("level", ["macro", "micro"])
def test_a_sample_of_counts_is_the_sample_of_the_arrays(level):
    """Two ways to the same counts give the same intervals, digit by digit."""
    rounds = made_up(3, 7, 2)
    fast = sample_of(rescore(arrays_of(rounds)), {number: place for place, number in enumerate(rounds)})
    counts = {number: {pr.key: pull_request_counts(pr).counts.overall for pr in prs} for number, prs in rounds.items()}
    slow = sample_of_counts(RECIPES["reviewbench"], counts, 1.0)
    bootstrap = Bootstrap(resamples=200)
    one, other = bootstrap.intervals([fast, slow], level, METRICS)
    assert one == other


def rows(found, number: int = 10, **options: Any):
    """Ten pull requests with two comments each; by agent how many of them each review finds, and no noise."""
    entries = []
    keys = [f"pr-{n}" for n in range(number)]
    for agent, hits in found.items():
        subject = build(agent)
        trials = [
            CommentTrial(
                pull_request=key,
                round=1,
                judged=judged(
                    key, [golden(f"{key} {n}", category="bug") for n in (0, 1)], {n: [n] for n in range(each)}
                ),
            )
            for key, each in zip(keys, hits, strict=True)
        ]
        identity = RowIdentity.of_build(subject, corpus_fingerprint="c", protocol="golden-comments", judge="j")
        entries.append((subject, identity, trials))
    return strict_rows(entries, judge="j", pull_requests=keys, profile="core", **options)


FOUND = {"all": [2] * 10, "half": [0, 1] * 5, "other half": [1, 0] * 5}


def test_rows_are_told_apart_by_micro_f():
    """All is ahead of both halves, which cannot be told from each other."""
    found = rows(FOUND, bootstrap=Bootstrap(resamples=2000))
    assert [(row.build.agent, row.letters) for row in found] == [("all", "a"), ("half", "b"), ("other half", "b")]
    interval = found[1].figures["intervals"]["micro"]["recall"]
    assert interval["low"] < 0.25 < interval["high"]
    assert found[0].figures["intervals"]["micro"]["f"] == {"low": 1.0, "high": 1.0, "reason": None}


def test_without_a_bootstrap_nothing_is_added():
    """The figures of a row are the same with and without."""
    plain, more = rows(FOUND), rows(FOUND, bootstrap=Bootstrap(resamples=50))
    assert [row.letters for row in plain] == [None] * 3
    for one, other in zip(plain, more, strict=True):
        assert {name: value for name, value in other.figures.items() if name != "intervals"} == one.figures


def test_an_unranked_row_has_intervals_but_no_letter():
    """It is shown with what is known of it, and compared with nobody."""
    found = rows(FOUND)[0].sample
    assert found is not None
    assert found.keys == tuple(sorted(f"pr-{n}" for n in range(10)))
    nothing = rows({"none": [0] * 10}, bootstrap=Bootstrap(resamples=50))[0]
    assert (nothing.rank, nothing.letters) == (None, None)
    assert nothing.figures["intervals"]["micro"]["precision"]["reason"] == "the metric is undefined"
    assert nothing.figures["intervals"]["micro"]["recall"]["high"] == 0.0


def test_two_rows_are_compared_on_the_same_pull_requests():
    """Recall is 8/8 and 6/8, macro as micro; p by hand."""
    one, other = (row.sample for row in rows({"all": [2] * 4, "half": [2, 2, 1, 1]}, number=4))
    assert one is not None
    assert other is not None
    for level in ("macro", "micro"):
        found = Bootstrap(resamples=500).compare(one, other, "recall", level)
        assert found.difference == pytest.approx(0.25)
        # 2 of the 4 pull requests differ: of their 4 exchanges, 2 leave a difference of a quarter.
        assert (found.p, found.exact, found.pull_requests) == (0.5, True, 4)


def test_the_profile_decides_what_is_compared():
    """Style comments are outside of the core profile and count without one."""
    style = {"a": {1: [1]}, "b": {}}
    for profile, expected in (("core", 0.0), (None, 0.5)):
        entries = []
        for agent, links in style.items():
            subject = build(agent)
            value = judged("x", [golden("x 0", category="bug"), golden("x 1", category="style")], {0: [0], **links})
            identity = RowIdentity.of_build(subject, corpus_fingerprint="c", protocol="golden-comments", judge="j")
            entries.append((subject, identity, [CommentTrial(pull_request="x", round=1, judged=value)]))
        both = strict_rows(entries, judge="j", pull_requests=["x"], profile=profile)
        samples = {row.build.agent: row.sample for row in both}
        assert samples["a"] is not None
        assert samples["b"] is not None
        assert Bootstrap(resamples=50).compare(samples["a"], samples["b"], "recall").difference == expected


def reviewed(scored_usage: bool):
    """A row of two reviews whose times are known, with and without usage."""
    subject = build("a")
    identity = RowIdentity.of_build(subject, corpus_fingerprint="c", protocol="golden-comments", judge="j")
    usage = UsageRecord(total_tokens=300.0, cost_usd=0.5, evidence="a" * 64, models=("m",)) if scored_usage else None
    trials = [
        CommentTrial(
            pull_request=key,
            round=1,
            judged=judged(key, [golden(f"{key} {n}", category="bug") for n in (0, 1)], {n: [n] for n in range(hits)}),
            review=Trial(pull_request=key, round=1, scored=True, succeeded=True, review_ms=milliseconds, usage=usage),
        )
        for key, hits, milliseconds in (("x", 1, 1000.0), ("y", 2, 3000.0))
    ]
    # A review that was not judged has a time, but is no scored trial.
    trials.append(
        CommentTrial(
            pull_request="z",
            round=1,
            judged=None,
            review=Trial(pull_request="z", round=1, scored=False, succeeded=True, review_ms=9000.0),
        )
    )
    return strict_rows(
        [(subject, identity, trials)], judge="j", pull_requests=["x", "y", "z"], profile="core", allow_partial=True
    )[0]


def test_distributions_over_the_scored_trials():
    """Of times and of every metric, over what was scored; tokens that nobody reported have no distribution."""
    row = reviewed(scored_usage=False)
    found = comment_distributions(row)
    assert (found["review_ms"].minimum, found["review_ms"].p50, found["review_ms"].maximum) == (1000.0, 2000.0, 3000.0)
    assert (found["recall"].minimum, found["recall"].p50, found["recall"].maximum) == (0.5, 0.75, 1.0)
    assert found["f"].minimum == pytest.approx(2 / 3)
    assert (found["total_tokens"].p50, found["total_tokens"].reason) == (None, "only 0 of 2 scored trials measured it")
    assert comment_distributions(row, ["z"])["recall"].reason == "no trial was scored"


def test_usage_of_the_scored_reviews():
    """Three candidates cover three golden comments for a dollar, and what was not reported is absent with a reason."""
    found = comment_usage(reviewed(scored_usage=True))
    assert (found.usage.metrics["total_tokens"].total, found.charges.total_usd) == (600.0, 1.0)
    assert found.efficiency.usd_per_covered_golden.value == pytest.approx(1 / 3)
    assert found.efficiency.recall_per_usd.value == pytest.approx(0.75 / 0.5)
    nothing = comment_usage(reviewed(scored_usage=False))
    assert nothing.charges.total_usd is None
    assert nothing.efficiency.usd_per_finding.reason == "only 0 of 2 scored reviews have an observed charge"
    assert nothing.efficiency.ms_per_finding.value == pytest.approx(4000 / 3)
