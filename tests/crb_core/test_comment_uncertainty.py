"""Intervals and letters of golden-comments rows, whose counts come from their own protocol."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.bootstrap import Bootstrap
from crb_core.fast_aggregate import rescore
from crb_core.golden_leaderboard import CommentTrial, strict_rows
from crb_core.identity import RowIdentity
from crb_core.metrics import pull_request_counts
from crb_core.recipes import RECIPES
from crb_core.samples import sample_of, sample_of_counts
from crb_core.scoring_arrays import arrays_of
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


def rows(found, **options: Any):
    """Ten pull requests with two comments each; by agent how many of them each review finds, and no noise."""
    entries = []
    keys = [f"pr-{n}" for n in range(10)]
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
