"""Rows and ranks: the rules that decide what a leaderboard may say (rules 10, 11, 14, 15, 16, 22)."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

import pytest

from crb_core.aggregate import ranks, to_json
from crb_core.bootstrap import Bootstrap
from crb_core.errors import InputError
from crb_core.leaderboard import leaderboard, row_named
from crb_core.metrics import score
from crb_core.protocols import answer_key
from crb_core.row_usage import row_usage
from crb_core.strata import Subset
from crb_core.submission import criteria, submission
from crb_core.trial_distributions import trial_distributions
from crb_core.usage import UsageRecord
from tests.crb_core.judged_sweeps import build, golden, judged, measured

PROOF = "a" * 64


def found_of(*found):
    """One round of pull requests with two golden TPs each, of which the given numbers are found."""
    return [judged(f"pr-{n}", "tt", {place: [place] for place in range(each)}) for n, each in enumerate(found)]


def three(*found):
    return dict.fromkeys((1, 2, 3), found_of(*found))


def test_a_row_is_what_the_definition_gives():
    """Mean and sample deviation of the rounds' own values, every component kept (rule 11; seed A 7.7)."""
    rounds = {1: found_of(2, 0), 2: found_of(1, 1), 3: found_of(0, 1)}
    row = leaderboard(measured({"a": rounds}), beta=2.0).rows[0]
    expected = [score(prs, beta=2.0) for prs in rounds.values()]
    for level in ("macro", "micro"):
        values = [getattr(each, level).overall.grounded_f for each in expected]
        shown = getattr(row, level)["grounded_f"]
        assert [each.value for each in shown.rounds] == values
        assert shown.mean == pytest.approx(statistics.fmean(values), abs=1e-15)
        assert shown.std == pytest.approx(statistics.stdev(values))
    assert [to_json(each.score) for each in row.rounds] == [to_json(each) for each in expected]
    # Precision is defined in one, two and one pull requests.
    assert (row.n["grounded_precision"], row.n["grounded_recall"], row.n["grounded_f"]) == (4, 6, 4)
    assert row.counts["golden_covered_count"] == 5


def test_a_round_of_many_pull_requests_is_what_the_definition_gives():
    """The fast path takes some pull requests at a time; where one run of them ends shows in no digit."""
    prs = [
        judged(f"pr-{n}", "t" * (1 + n % 7), {place: [place] for place in range(n % 4 % (1 + n % 7))})
        for n in range(101)
    ]
    row = leaderboard(measured({"a": {1: prs}})).rows[0]
    assert to_json(row.rounds[0].score) == to_json(score(prs))


def test_ranks_by_macro_f_and_equal_values_share_one():
    """Headline metric: macro grounded f; ties have one rank and agents in order of their names."""
    board = leaderboard(measured({"b": three(2, 1), "c": three(2, 1), "a": three(2, 2)}))
    assert [(row.build.agent, row.rank) for row in board.rows] == [("a", 1), ("b", 2), ("c", 2)]
    assert board.sort == "grounded_f"


def test_what_only_rounding_tells_apart_shares_a_rank():
    """0.1, 0.2 and 0.3 have the mean of 0.2, 0.2 and 0.2, but their sums as floats differ in the last digit."""

    def of_ten(*found):
        return {1: [judged(f"pr-{n}", "t" * 10, {p: [p] for p in range(each)}) for n, each in enumerate(found)]}

    sweep = measured({"b": of_ten(2, 2, 2), "a": of_ten(1, 2, 3), "c": of_ten(1, 2, 2)})
    board = leaderboard(sweep, sort="grounded_recall")
    first, second, _ = (row.macro["grounded_recall"].mean for row in board.rows)
    assert first != second == pytest.approx(first)
    assert [(row.build.agent, row.rank) for row in board.rows] == [("a", 1), ("b", 1), ("c", 3)]
    assert ranks([None, 0.5, 0.5 + 1e-12, 0.7, 0.5 + 1e-6]) == [None, 3, 3, 1, 2]


def test_a_row_without_a_value_to_be_ranked_by_says_so():
    """An agent that finds nothing has recall 0 and no precision: it is not ranked, and its marks say why."""
    board = leaderboard(measured({"silent": three(0, 0), "a": three(1, 2)}))
    silent = row_named(board.rows, "silent")
    assert (silent.macro["grounded_recall"].mean, silent.macro["grounded_f"].mean) == (0.0, None)
    assert (silent.rank, silent.ranked, silent.to_json()["ranked"]) == (None, False, False)
    assert silent.marks == ("unranked: macro grounded_f is undefined in round 1, 2, 3",)
    by_recall = leaderboard(measured({"silent": three(0, 0), "a": three(1, 2)}), sort="grounded_recall")
    assert [(row.build.agent, row.rank, row.marks) for row in by_recall.rows] == [("a", 1, ()), ("silent", 2, ())]
    nothing = leaderboard(measured({"a": three(1, 2)}), subset=Subset.parse(severity=["high"])).rows[0]
    assert (nothing.rank, nothing.ranked) == (None, False)
    assert nothing.marks == ("unranked: macro grounded_f is undefined in round 1, 2, 3",)


def test_augmented_recall_sorts_with_a_warning_and_ranks_nobody():
    """7/12 against 105/110 with equal grounded results: the denominator is the agent's own (seed A 7.2)."""
    ten = "t" * 10
    half = {place: [place] for place in range(5)}
    few = {1: [judged("pr", ten, half, dict.fromkeys(range(5, 7), "tp"))]}
    many = {1: [judged("pr", ten, half, dict.fromkeys(range(5, 105), "tp"))]}
    board = leaderboard(measured({"few": few, "many": many}), sort="augmented_recall")
    assert [row.build.agent for row in board.rows] == ["many", "few"]
    assert [row.macro["augmented_recall"].mean for row in board.rows] == [105 / 110, 7 / 12]
    assert [row.rank for row in board.rows] == [None, None]
    assert "denominator of its own" in board.warnings[0]
    honest = leaderboard(measured({"few": few, "many": many}))
    assert ([row.rank for row in honest.rows], honest.warnings) == ([1, 1], ())


def test_an_unknown_metric_does_not_sort():
    """Named with what there is."""
    with pytest.raises(InputError, match="beauty is no metric"):
        leaderboard(measured({"a": three(1)}), sort="beauty")


def test_one_unclassified_candidate_withholds_the_row():
    """Rule 10: augmented metrics of the row are null, its grounded ones stay, and the count says why."""
    rounds = three(1, 1)
    rounds[2] = [rounds[2][0], judged("pr-1", "tt", {0: [0]}, candidates=2)]
    row = leaderboard(measured({"a": rounds}), bootstrap=Bootstrap(resamples=50)).rows[0]
    assert row.macro["augmented_precision"].mean is None
    assert row.macro["augmented_precision"].reason == "undefined in round 2"
    assert row.intervals["macro"]["augmented_precision"].low is None
    assert row.counts["unclassified_count"] == 1
    assert row.macro["grounded_f"].mean is not None


def test_an_incomplete_round_is_named_and_left_out():
    """Rule 15: two complete rounds are averaged and ranked; the failure is shown, never 0."""
    rounds = {1: found_of(2, 2), 2: found_of(2), 3: found_of(2, 2)}
    row = leaderboard(measured({"a": rounds})).rows[0]
    assert (row.used, row.rank, row.submittable) == ((1, 3), 1, False)
    assert row.macro["grounded_recall"].mean == 1.0
    assert row.rounds[1].problems == (("pr-1", "timeout"),)
    assert "round 2 incomplete" in row.marks


def test_a_round_without_a_trial_of_some_pull_request_is_incomplete():
    """An imported round may lack a review that other rounds, or other agents, have: it is no smaller complete round."""
    whole = measured({"a": {1: found_of(2, 2), 2: found_of(2, 2)}, "b": three(1, 1)})
    cut = tuple(trial for trial in whole.entries[0].trials if (trial.round, trial.pull_request) != (2, "pr-1"))
    short = replace(whole, entries=(replace(whole.entries[0], trials=cut), whole.entries[1]))
    row = row_named(leaderboard(short).rows, "a")
    assert (row.used, [(each.scored, each.planned) for each in row.rounds]) == ((1,), [(2, 2), (1, 2)])
    assert row.rounds[1].problems == (("pr-1", "the round has no trial of it"),)
    assert "round 2 incomplete" in row.marks
    nowhere = replace(short, pull_requests=("pr-0", "pr-1", "pr-2"))
    assert [row.rank for row in leaderboard(nowhere).rows] == [None, None]


def test_one_score_beside_two_timeouts_is_no_score_of_one():
    """A review that found everything and two that timed out: no mean; where it is asked for, 3 of 9 and no rank."""
    rounds = {number: found_of(2) for number in (1, 2, 3)}
    planned = ["pr-0", "pr-1", "pr-2"]
    row = leaderboard(measured({"a": rounds}, planned=planned)).rows[0]
    assert (row.macro["grounded_recall"].mean, row.rank, row.used) == (None, None, ())
    assert [each.problems for each in row.rounds] == [(("pr-1", "timeout"), ("pr-2", "timeout"))] * 3
    partial = leaderboard(measured({"a": rounds}, planned=planned), allow_partial=True).rows[0]
    assert (partial.macro["grounded_recall"].scored, partial.macro["grounded_recall"].planned) == (3, 9)
    assert (partial.rank, partial.ranked, partial.submittable) == (None, False, False)


def test_partial_rounds_are_shown_unranked():
    """``allow_partial`` scores the pull requests that have a score and says n of N; such a row has no rank."""
    rounds = {1: found_of(2, 2), 2: found_of(0)}
    row = leaderboard(measured({"a": rounds}), allow_partial=True).rows[0]
    assert (row.macro["grounded_recall"].mean, row.rank, row.ranked) == (0.5, None, False)
    assert (row.macro["grounded_recall"].scored, row.macro["grounded_recall"].planned) == (3, 4)
    assert "unranked: 1 of 4 trials have no score" in row.marks
    alone = leaderboard(measured({"a": {1: found_of(2)}}, planned=["pr-0", "pr-1"])).rows[0]
    assert (alone.rank, alone.macro["grounded_f"].reason, alone.used) == (None, "no round is complete", ())


@pytest.mark.parametrize(
    ("count", "expected"), [(1, "1 pull request is too few"), (5, "too few"), (9, "few"), (10, None)]
)
def test_few_pull_requests_are_said(count, expected):
    """What intervals and letters over so few are worth stands beside them."""
    board = leaderboard(measured({"a": three(*[1] * count)}), bootstrap=Bootstrap(resamples=50))
    found = board.to_json(pull_requests=False)["uncertainty"]["caution"]
    assert found is None if expected is None else expected in found


def test_a_row_without_any_complete_round_has_no_uncertainty():
    """Nothing is averaged, so nothing has an interval, a letter or a stability."""
    sweep = measured({"a": {1: found_of(2)}, "b": three(1, 1)}, planned=["pr-0", "pr-1"])
    row = row_named(leaderboard(sweep, bootstrap=Bootstrap(resamples=20)).rows, "a")
    assert row.letters is None
    assert row.stability.pairs == ()
    assert {each.low for each in row.intervals["macro"].values()} == {None}
    json.dumps(row.to_json(), allow_nan=False)


def test_score_and_duration_are_of_the_same_rounds():
    """Rule 15 and 16: a round that is not averaged lends no time; legacy seconds are flagged."""
    rounds = {1: found_of(1, 1), 2: found_of(1)}
    row = leaderboard(measured({"a": rounds}, trial={"review_ms": 1000.0})).rows[0]
    assert (row.duration.mean_ms, row.duration.measured_rounds) == (1000.0, 1)
    legacy = leaderboard(measured({"a": rounds}, trial={"duration_seconds": 2})).rows[0]
    assert (legacy.duration.mean_ms, legacy.duration.from_seconds) == (2000.0, 2)
    assert "duration includes retries" in legacy.marks


@pytest.mark.parametrize(
    ("answer_key_at", "expected"),
    [
        ("2026-01-31T23:59:59.999Z", ("older", 1)),
        ("2026-02-01T00:00:00.000Z", ("not older", None)),
        ("2026-02-01T00:00:00.001Z", ("not older", None)),
        (None, ("unknown", 1)),
    ],
)
def test_an_answer_key_must_be_older_than_the_trial(answer_key_at, expected):
    """Rule 14: otherwise the row is marked and not ranked. Trials begin on 1 February."""
    row = leaderboard(measured({"a": three(1, 1)}, answer_key_at=answer_key_at)).rows[0]
    assert (row.answer_key, row.rank) == expected
    assert any("the answer key is not older" in mark for mark in row.marks) == (row.answer_key == "not older")


def test_when_an_imported_review_ran_is_not_known():
    """Its times are those of the import: the row is ranked and marked as imported, its key's age unknown."""
    imported = build("a", runner="imported", adapter="imported")
    row = leaderboard(measured({"a": three(1)}, builds={"a": imported}, answer_key_at="2026-03-01T00:00:00.000Z")).rows[
        0
    ]
    assert (row.answer_key, row.rank, row.submittable) == ("unknown", 1, False)
    assert "imported" in row.marks


def test_rows_carry_intervals_letters_and_stability():
    """Every headline metric, macro and micro, of ranked and unranked rows; pairs name their builds."""
    sweep = measured({"a": three(*[2] * 8), "b": three(*[0, 1] * 4)})
    board = leaderboard(sweep, bootstrap=Bootstrap(resamples=500))
    assert [row.letters for row in board.rows] == ["a", "b"]
    document = board.to_json(pull_requests=False)
    assert document["uncertainty"]["resamples"] == 500
    assert document["pairs"][0]["one"] == board.rows[0].build.build_id
    assert document["pairs"][0]["exact"]
    for level in ("macro", "micro"):
        for metric in board.rows[1].macro:
            assert "interval" in document["rows"][1][level][metric]
    interval = document["rows"][1]["macro"]["grounded_recall"]["interval"]
    assert interval["low"] < board.rows[1].macro["grounded_recall"].mean < interval["high"]
    assert document["rows"][1]["stability"]["pooled"] == 1.0
    assert document["rows"][1]["macro"]["grounded_precision"] | {"interval": None} == {
        "mean": 1.0,
        "std": 0.0,
        "rounds": [1.0, 1.0, 1.0],
        "reason": None,
        "n": 12,
        "of": 24,
        "interval": None,
    }
    assert "per_pull_request" not in document["rows"][0]["rounds"][0]["score"]
    assert board.to_json() == leaderboard(sweep, bootstrap=Bootstrap(resamples=500)).to_json()


def test_a_leaderboard_without_strata_has_the_same_rows():
    """Rows, intervals, letters and stability are made of the whole; scores of single rounds would lack their strata."""
    sweep = measured({"a": three(*[2] * 8), "b": three(*[0, 1] * 4)})
    whole, brief = (leaderboard(sweep, bootstrap=Bootstrap(resamples=50), strata=strata) for strata in (True, False))
    assert brief.to_json(scores=False) == whole.to_json(scores=False)
    with pytest.raises(ValueError, match="without strata"):
        brief.to_json()


def test_a_filter_moves_every_figure_of_the_row():
    """Score, n, counts, intervals and stability are all of the subset."""
    goldens = [golden("a", severity="high"), golden("b", severity="low")]
    rounds = {number: [judged("p", goldens, {0: [0]}), judged("q", goldens, {0: [1]})] for number in (1, 2)}
    board = leaderboard(
        measured({"a": rounds}), subset=Subset.parse(severity=["high"]), bootstrap=Bootstrap(resamples=50)
    )
    row = board.rows[0]
    assert row.macro["grounded_recall"].mean == 0.5
    assert (row.n["grounded_precision"], row.counts["golden_tp_count"]) == (2, 4)
    assert board.to_json()["subset"] == {"severity": ["high"]}


def test_strata_are_averaged_over_the_rounds_like_the_whole():
    """Seed A 7.3: by severity and category, macro and micro, with n; null where a used round has no value."""
    goldens = [golden("a", severity="high", category="security"), golden("b", severity="low")]
    rounds = {
        1: [judged("p", goldens, {0: [0]}), judged("q", goldens, {0: [1]})],
        2: [judged("p", goldens, {0: [0], 1: [1]}), judged("q", goldens, {0: [0]})],
        3: [judged("p", goldens, {0: [0]}), judged("q", goldens, {0: [1]}, {1: "tp"})],
    }
    row = leaderboard(measured({"a": rounds}), beta=0.5).rows[0]
    scores = [score(prs, beta=0.5) for prs in rounds.values()]
    strata = row.to_json()["strata"]
    assert [(each["axis"], each["value"]) for each in strata] == [
        ("category", "security"),
        ("severity", "high"),
        ("severity", "low"),
    ]
    for each in strata:
        for level in ("macro", "micro"):
            sets = [getattr(found, level).strata[each["axis"]][each["value"]] for found in scores]
            for metric, shown in each[level].items():
                values = [getattr(found, metric) for found in sets]
                assert shown["rounds"] == values
                expected = None if None in values else statistics.fmean(values)
                assert shown["mean"] == (None if expected is None else pytest.approx(expected, abs=1e-15))
                assert (shown["reason"] is None) == (expected is not None)
        ns = [found.n[each["axis"]][each["value"]]["grounded_recall"] for found in scores]
        assert each["macro"]["grounded_recall"]["n"] == sum(ns)
        assert each["counts"]["golden_tp_count"] == 6
    high = strata[1]["macro"]["grounded_recall"]
    assert (high["rounds"], high["n"]) == ([0.5, 1.0, 0.5], 6)
    assert high["std"] == pytest.approx(statistics.stdev([0.5, 1.0, 0.5]))
    assert "strata" not in row.to_json(scores=False)


def test_the_answer_key_protocol_has_its_own_metrics():
    """Precision, recall and F of rule 20, ranked by F."""
    rounds = {number: [judged("p", "ttf", {0: [0], 1: [2]}, {2: "tp"})] for number in (1, 2, 3)}
    board = leaderboard(measured({"a": rounds}, protocol="answer-key"))
    expected = answer_key.score(rounds[1]).macro.overall
    row = board.rows[0]
    assert (row.macro["precision"].mean, row.macro["recall"].mean) == (expected.precision, expected.recall) == (1, 0.5)
    assert (board.sort, row.rank, row.counts["intended_count"]) == ("f", 1, 3)


@pytest.mark.parametrize("field", ["corpus_fingerprint", "protocol", "judge"])
def test_a_leaderboard_refuses_to_mix(field):
    """Rule 13: rows of another corpus, protocol or judge are refused with the field and both values."""
    sweep = measured({"a": three(1), "b": three(2)})
    one, other = sweep.entries
    changed = replace(other, identity=other.identity.model_copy(update={field: "another"}))
    with pytest.raises(InputError, match=f"cannot mix a and b, which differ in {field}: .* and 'another'"):
        leaderboard(replace(sweep, entries=(one, changed)))


def test_a_name_with_two_builds_is_ambiguous():
    """Two builds of one agent are two rows; the build id chooses."""
    builds = {"a": build("same"), "b": build("same", image_id="sha256:" + "f" * 64)}
    rows = leaderboard(measured({"a": three(1), "b": three(2)}, builds=builds)).rows
    with pytest.raises(InputError, match="same has 2 builds here"):
        row_named(rows, "same")
    assert row_named(rows, builds["b"].build_id).build == builds["b"]
    with pytest.raises(InputError, match=r"no agent nobody here.*same"):
        row_named(rows, "nobody")


def test_distributions_need_every_scored_trial():
    """Seed B: one trial without a figure leaves the count and the reason; unscored trials change nothing."""
    sweep = measured({"a": {1: found_of(2, 0), 2: found_of(1)}}, trial={"review_ms": 500.0})
    row = leaderboard(sweep).rows[0]
    found = trial_distributions(row)
    assert (found["review_ms"].p50, found["review_ms"].measured, found["review_ms"].scored) == (500.0, 3, 3)
    assert (found["grounded_recall"].minimum, found["grounded_recall"].p50, found["grounded_recall"].maximum) == (
        0,
        0.5,
        1,
    )
    assert found["grounded_precision"].reason == "only 2 of 3 scored trials measured it"
    assert found["grounded_f"].p95 is None
    assert found["total_tokens"].measured == 0
    single = trial_distributions(row, ["pr-0"])
    assert (single["grounded_recall"].minimum, single["grounded_recall"].maximum) == (0.5, 1.0)
    assert single["grounded_precision"].p50 == 1.0


def test_a_cost_is_a_measurement_only_with_its_evidence():
    """A claimed amount is no observed charge (rule 21)."""
    for evidence, measured_trials in ((None, 0), (PROOF, 2)):
        usage = UsageRecord(cost_usd=0.5, total_tokens=10, models=("m",), evidence=evidence)
        row = leaderboard(measured({"a": {1: found_of(1, 1)}}, trial={"usage": usage})).rows[0]
        assert trial_distributions(row)["cost_usd"].measured == measured_trials
        assert trial_distributions(row)["total_tokens"].p95 == 10


def test_usage_of_a_row_is_of_the_averaged_trials():
    """Two complete rounds of two reviews: 4 x 0.25 USD for 6 findings, 3 covered goldens each round."""
    usage = UsageRecord(cost_usd=0.25, total_tokens=10, models=("m",), evidence=PROOF)
    rounds = {1: found_of(2, 1), 2: found_of(2, 1), 3: found_of(2)}
    row = leaderboard(measured({"a": rounds}, trial={"usage": usage, "review_ms": 60_000.0})).rows[0]
    used = row_usage(row)
    assert (used.charges.total_usd, used.charges.observed, used.charges.reviews) == (1.0, 4, 4)
    assert used.efficiency.usd_per_finding.value == pytest.approx(1 / 6)
    assert used.efficiency.tokens_per_covered_golden.value == pytest.approx(40 / 6)
    assert used.efficiency.recall_per_usd.value == pytest.approx(0.75 / 0.25)
    assert used.efficiency.recall_per_minute.value == pytest.approx(0.75)
    assert used.usage.models == ("m",)


def checked(row, **changes):
    options = {"corpus_pull_requests": 2, "calibration": {"kappa": 0.9}, "said_uncalibrated": False} | changes
    return criteria(row, **options)


def test_three_complete_rounds_can_be_submitted():
    """The document holds the row, its three component runs and every criterion."""
    row = leaderboard(measured({"a": three(1, 2)}), bootstrap=Bootstrap(resamples=20)).rows[0]
    document = submission(row, checked(row), {"corpus": "c"})
    assert all(each["passed"] for each in document["criteria"])
    assert [each["round"] for each in document["component_runs"]] == [1, 2, 3]
    assert document["component_runs"][0]["score"]["macro"]["overall"]["grounded_recall"] == 0.75
    assert document["result"]["row_sha256"] == row.identity.sha256
    assert row.submittable
    assert document == submission(row, checked(row), {"corpus": "c"})


def test_only_what_would_be_submitted_is_called_submittable():
    """As the criteria have it: no filter, part of a corpus, incomplete round or key of unknown age."""
    sweep = measured({"a": {**three(1, 1), 4: found_of(1)}}, planned=["pr-0", "pr-1"])
    assert (leaderboard(sweep).rows[0].used, leaderboard(sweep).rows[0].submittable) == ((1, 2, 3), False)
    whole = measured({"a": three(1, 1)})
    assert leaderboard(whole).rows[0].submittable
    for other, subset in (
        (replace(whole, answer_key_at=None), Subset()),
        (replace(whole, is_whole_corpus=False), Subset()),
        (whole.within(["pr-0"]), Subset()),
        (whole, Subset.parse(producer=["human_review"])),
    ):
        assert not leaderboard(other, subset=subset).rows[0].submittable


@pytest.mark.parametrize(
    ("sweep", "changes", "failed"),
    [
        ({"rounds": {1: (1, 1), 2: (1, 1)}}, {}, {"rounds"}),
        ({"rounds": {1: (1, 1), 2: (1, 1), 3: (1,)}}, {}, {"rounds"}),
        ({"rounds": {1: (1, 1), 2: (1, 1), 3: (1, 1), 4: (1,)}}, {}, {"rounds"}),
        ({}, {"corpus_pull_requests": 3}, {"whole corpus"}),
        ({"build": {"kind": "replay"}}, {}, {"reviewer"}),
        ({"build": {"runner": "process"}}, {}, {"isolated"}),
        ({"answer_key_at": "2026-03-01T00:00:00.000Z"}, {}, {"answer key"}),
        ({"answer_key_at": None}, {}, {"answer key"}),
        ({"rounds": {1: (0, 0), 2: (0, 0), 3: (0, 0)}}, {}, {"score"}),
        ({}, {"calibration": None}, {"judge"}),
        ({}, {"calibration": None, "said_uncalibrated": True}, set()),
    ],
)
def test_a_submission_is_refused_with_its_reasons(sweep, changes, failed):
    """Rounds, corpus, kind, isolation, age of the key, a score, and a calibrated judge or the word that it is not."""
    rounds = {
        number: found_of(*found) for number, found in sweep.get("rounds", dict.fromkeys((1, 2, 3), (1, 1))).items()
    }
    key = sweep.get("answer_key_at", "2026-01-01T00:00:00.000Z")
    row = leaderboard(
        measured({"a": rounds}, builds={"a": build("a", **sweep.get("build", {}))}, answer_key_at=key)
    ).rows[0]
    found = checked(row, **changes)
    assert {each.name for each in found if not each.passed} == failed
    if failed:
        with pytest.raises(InputError, match=f"a cannot be submitted. {failed.pop()}"):
            submission(row, found, {})
    else:
        assert submission(row, found, {})["format"] == "crb.submission/1"
