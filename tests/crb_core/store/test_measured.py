"""What the fast path loads is what the records hold: equal scores by either way, and nothing lost."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, update

from benchmarks.filled_sweep import PRODUCERS, fill
from crb_core.aggregate import to_json
from crb_core.errors import InputError
from crb_core.leaderboard import leaderboard
from crb_core.metrics import score
from crb_core.store.judge_costs import judge_costs
from crb_core.store.measured import load_sweep
from crb_core.store.results import load_results
from crb_core.store.tables import (
    AttemptRow,
    ClassificationRow,
    CorpusRow,
    ImportRow,
    JudgeCallRow,
    JudgmentRow,
    StepRow,
    core,
)
from crb_core.strata import Subset

attempts = core(AttemptRow)
classifications = core(ClassificationRow)
judgments = core(JudgmentRow)
PROOF = "c" * 64


@pytest.fixture
def sweep(store):
    """Two builds, five pull requests, two rounds; judgments as a judge would give them."""
    return fill(store, builds=2, pull_requests=5, rounds=2)


def load(store, sweep, **options):
    with store.read() as connection:
        return load_sweep(connection, *sweep, **options)


@pytest.mark.parametrize(
    "subset", [Subset(), Subset.parse(severity=["high"], category=["security"]), Subset.parse(producer=[PRODUCERS[1]])]
)
def test_rows_equal_the_definition_on_the_records(store, sweep, subset):
    """Every round of every build, under a filter too, digit by digit."""
    board = leaderboard(load(store, sweep).measured(), subset=subset, beta=0.5)
    with store.read() as connection:
        results = load_results(connection, *sweep)
    for row in board.rows:
        for each in row.rounds:
            prs = [
                trial.judged
                for trial in results.trials
                if trial.build_id == row.build.build_id and trial.round == each.number
            ]
            assert to_json(each.score) == to_json(score(prs, beta=0.5, subset=subset))


def test_an_unjudged_and_a_failed_trial_are_named(store, sweep):
    """They stay in the row with their reason; the round is not averaged."""
    with store.write() as connection:
        connection.execute(update(judgments).where(judgments.c.id == 1).values(scored_at=None))
        connection.execute(delete(classifications).where(classifications.c.judgment_id == 2))
        connection.execute(update(attempts).where(attempts.c.trial_id == 3).values(outcome="timeout", review_ms=None))
        connection.execute(update(judgments).where(judgments.c.id == 3).values(scored_at=None))
        connection.execute(
            update(core(StepRow)).where(core(StepRow).c.trial_id == 3).values(state="failed", reason="timeout: 900 s")
        )
    about = load(store, sweep)
    trials = {trial.problem: trial for of_build in about.trials.values() for trial in of_build if not trial.scored}
    assert set(trials) == {"not finished yet", "timeout: 900 s"}
    assert trials["not finished yet"].succeeded
    assert not trials["timeout: 900 s"].succeeded
    row = next(row for row in leaderboard(about.measured()).rows if row.rounds[0].scored == 3)
    assert (row.used, row.rounds[0].planned) == ((2,), 5)
    partial = leaderboard(about.measured(), allow_partial=True)
    row = next(row for row in partial.rows if row.rounds[0].scored == 3)
    # Trial 2 lost its labels, so its candidates are unclassified and withhold the row's augmented metrics.
    assert row.macro["augmented_precision"].mean is None
    assert row.counts["unclassified_count"] > 0


def test_excluded_producers_are_another_corpus(store, sweep):
    """Rows without some golden findings have another identity; the report says what is gone."""
    about = load(store, sweep)
    whole, reduced = about.measured(), about.measured(["llm_review:"])
    assert set(reduced.arrays.producers) <= {"human_review"}
    assert reduced.entries[0].identity.sha256 != whole.entries[0].identity.sha256
    assert (
        reduced.entries[0].identity.corpus_fingerprint
        != about.measured_without("llm_review:one").entries[0].identity.corpus_fingerprint
    )
    assert about.exclusion(["llm_review:"]).excluded + len(reduced.arrays.golden_tp) == 45
    row = leaderboard(reduced).rows[0]
    assert row.macro["augmented_precision"].mean is None
    assert row.macro["grounded_recall"].mean is not None


def test_usage_carries_the_digest_that_states_it(store, sweep):
    """The findings file's of a review that ran here; the imported file's of one that did not."""
    first = {"usage": {"cost_usd": 0.5}, "evidence": {"findings": PROOF}}
    second = {"usage": {"cost_usd": 0.25}, "source": {"files": [{"file": "pr.json"}]}}
    third = {"usage": {"cost_usd": 9.0}, "source": {"files": [{"file": "same.json"}]}}
    with store.write() as connection:
        for trial, values in enumerate((first, second, third), start=1):
            connection.execute(update(attempts).where(attempts.c.trial_id == trial).values(**values))
        files = {"a/pr.json": "d" * 64, "a/same.json": "e" * 64, "b/same.json": "f" * 64}
        connection.execute(
            core(ImportRow)
            .insert()
            .values(
                kind="sweep",
                target=sweep[0],
                format="reviewbench",
                fingerprint="1",
                document={"files": files},
                imported_at="2026-01-01T00:00:00.000Z",
            )
        )
    usages = [trial.usage for of_build in load(store, sweep).trials.values() for trial in of_build]
    found = {usage.cost_usd: usage.evidence for usage in usages if usage.cost_usd is not None}
    # Two imported files share a name, so neither proves anything.
    assert found == {0.5: PROOF, 0.25: "d" * 64, 9.0: None}


def test_the_age_of_the_answer_key_is_that_of_the_corpus(store, sweep):
    """Rule 14: the corpus' import against the trials' first attempts."""
    assert {row.answer_key for row in leaderboard(load(store, sweep).measured()).rows} == {"older"}
    with store.write() as connection:
        connection.execute(update(core(CorpusRow)).values(imported_at="2999-01-01T00:00:00.000Z"))
    late = leaderboard(load(store, sweep).measured())
    assert {(row.answer_key, row.rank) for row in late.rows} == {("not older", None)}


def test_a_judge_costs_what_was_observed(store, sweep):
    """Charges with the answer that states them; a list price stays an estimate; nothing is 0 (rule 21)."""
    sweep_id, judge = sweep
    with store.read() as connection:
        nothing = judge_costs(connection, sweep_id, judge.judge_id)
    assert (nothing.calls, nothing.charge_usd, nothing.list_price_usd) == (0, None, None)
    call = {
        "judge_id": judge.judge_id,
        "stage": "match",
        "label": "x",
        "secret": "s",
        "attempt": 1,
        "model": "m",
        "request_digest": "r",
        "started_at": "2026-01-01T00:00:00.000Z",
        "trial_id": 1,
    }
    rows = (
        {"request_hash": "1", "charge_usd": 0.5, "answer_digest": PROOF, "list_price_usd": 0.6, "price_table": "2026"},
        {"request_hash": "2", "charge_usd": 0.7, "list_price_usd": None},
        {"request_hash": "3", "list_price_usd": 0.1, "price_table": "2026"},
    )
    with store.write() as connection:
        for row in rows:
            connection.execute(core(JudgeCallRow).insert().values(**call, **row))
    with store.read() as connection:
        found = judge_costs(connection, sweep_id, judge.judge_id)
    assert (found.calls, found.charge_usd, found.charged, found.evidence) == (3, 0.5, 1, (PROOF,))
    assert (found.list_price_usd, found.priced, found.price_tables) == (pytest.approx(0.7), 2, ("2026",))


def test_golden_comments_have_a_table_of_their_own(store, sweep):
    """A protocol without claims is refused here, not scored by another's rules."""
    with store.write() as connection:
        connection.execute(update(core(CorpusRow)).values(protocol="golden-comments"))
    with pytest.raises(InputError, match="golden-comments has no ranking by claims"):
        load(store, sweep)


def test_a_judgment_beyond_its_findings_is_named(store, sweep):
    """A stored label of a candidate that is not there is an error, not a silent row."""
    with store.write() as connection:
        connection.execute(classifications.insert().values(judgment_id=1, candidate=99, document={"tp_fp": "tp"}))
    with pytest.raises(InputError, match="candidate 99 does not exist"):
        load(store, sweep).measured()
