"""Sweeps in the middle of their run: what the tests of progress, latency and the picture in the terminal look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert, literal, select, update

from crb_core.agent import Outcome
from crb_core.store import Store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.judgments import add_judge_steps, finish_match, finish_score
from crb_core.store.steps import TakenStep, finish_attempt, mark_queued, take
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.tables import AttemptRow, JudgmentRow, Stage, StepRow, StepState, TrialRow, WorkerRow, core
from tests.crb_core.store.planned import LIMITS, build, corpus

steps = core(StepRow)
trials = core(TrialRow)
attempts = core(AttemptRow)
judgments = core(JudgmentRow)
workers = core(WorkerRow)

#: What the docker sandbox notes of an attempt, in milliseconds.
PHASES = {
    "queue": 40.0,
    "snapshot": 10.0,
    "prepare": 20.0,
    "slot": 5.0,
    "permit": 1.0,
    "create": 30.0,
    "start": 20.0,
    "wait": 900.0,
    "collect": 15.0,
    "teardown": 25.0,
}


class RunningSweep:
    """A planned sweep that a test moves on step by step, through the store's own transitions."""

    def __init__(
        self, store: Store, *, agents: Sequence[str] = ("alpha", "beta"), pull_requests: int = 4, rounds: int = 1
    ) -> None:
        self.store = store
        self.builds = {agent: build(agent) for agent in agents}
        with store.write() as connection:
            corpus_id = save_corpus(connection, corpus(pull_requests))
            self.sweep_id, _ = plan_sweep(
                connection,
                SweepPlan(
                    name="nightly",
                    corpus_id=corpus_id,
                    rounds=rounds,
                    builds=list(self.builds.values()),
                    pull_requests=list(pull_request_ids(connection, corpus_id).values()),
                    judges=[JudgePlan(judge_id="j-1", name="offline", classifies=False, document={})],
                    snapshot_source={"kind": "none", "template": None},
                ),
            )

    def worker(self, name: str = "w", **values: Any) -> None:
        row = {"name": name, "host": "h", "pid": 1, "beat": 0, "slots": {"review": 2}, "started_at": "now"} | values
        with self.store.write() as connection:
            connection.execute(insert(workers).values(**row))

    def step(self, agent: str, place: int, *, stage: Stage = Stage.REVIEW, round_number: int = 1) -> int:
        """The step of an agent on its ``place``-th pull request (from 0)."""
        with self.store.read() as connection:
            ids = connection.execute(
                select(steps.c.id)
                .join(trials, trials.c.id == steps.c.trial_id)
                .where(
                    steps.c.build_id == self.builds[agent].build_id,
                    trials.c.round == round_number,
                    steps.c.stage == stage.value,
                )
                .order_by(steps.c.position)
            ).scalars()
            return list(ids)[place]

    def take(self, step_id: int, worker: str = "w") -> TakenStep:
        with self.store.write() as connection:
            assert mark_queued(connection, [step_id]) == [step_id]
        taken = take(self.store, step_id, worker)
        assert taken is not None
        return taken

    def review(
        self, step_id: int, outcome: Outcome = Outcome.SUCCEEDED, *, review_ms: float = 1000.0, detail: str = "said so"
    ) -> TakenStep:
        """One attempt from its take to its end."""
        taken = self.take(step_id)
        with self.store.write() as connection:
            state = finish_attempt(
                connection,
                taken,
                outcome=outcome,
                detail=detail,
                values={"review_ms": review_ms, "phases_ms": PHASES},
                limits=LIMITS,
            )
            if state is StepState.DONE:
                add_judge_steps(connection, taken)
            # The farm's own failures wait before they are tried again; a test does not.
            connection.execute(update(steps).where(steps.c.id == step_id).values(not_before=None))
        return taken

    def judge(self, agent: str, place: int, **where: Any) -> None:
        """Match and score a reviewed trial."""
        with_match = self.take(self._judge_step(agent, place, Stage.MATCH, **where))
        with self.store.write() as connection:
            assert finish_match(connection, with_match, (), next_stage=Stage.SCORE)
        with_score = self.take(self._judge_step(agent, place, Stage.SCORE, **where))
        with self.store.write() as connection:
            assert finish_score(connection, with_score, {})

    def done(self, agent: str, place: int, **where: Any) -> None:
        """A whole trial: reviewed, matched, scored."""
        self.review(self.step(agent, place, **where))
        self.judge(agent, place, **where)

    def _judge_step(self, agent: str, place: int, stage: Stage, **where: Any) -> int:
        review = self.step(agent, place, **where)
        with self.store.read() as connection:
            trial = select(steps.c.trial_id).where(steps.c.id == review).scalar_subquery()
            found: int = connection.execute(
                select(steps.c.id).where(steps.c.trial_id == trial, steps.c.stage == stage.value)
            ).scalar_one()
            return found


def fill(store: Store, *, builds: int, pull_requests: int, rounds: int, now: datetime | None = None) -> RunningSweep:
    """A big sweep in bulk: two thirds done, a few running, a few failed, the rest waiting."""
    end = now or datetime.now(UTC)
    sweep = RunningSweep(
        store, agents=[f"agent-{number:02}" for number in range(builds)], pull_requests=pull_requests, rounds=rounds
    )
    sweep.worker(slots={"review": 8, "match": 2, "score": 2}, status={"cpu_percent": 50.0})
    with store.write() as connection:
        rows = connection.execute(select(steps.c.id, steps.c.trial_id).order_by(steps.c.position, steps.c.id)).all()
        settled = rows[: 2 * len(rows) // 3]
        made = []
        for place, row in enumerate(settled):
            finished = end - timedelta(seconds=(len(settled) - place) * 0.5)
            failed = place % 50 == 49
            made.append(
                {
                    "trial_id": row.trial_id,
                    "number": 1,
                    "tag": f"t-{row.id}",
                    "worker": "w",
                    "outcome": "timeout" if failed else "succeeded",
                    "started_at": _text(finished - timedelta(seconds=4)),
                    "finished_at": _text(finished),
                    "review_ms": 4000.0,
                    "phases_ms": PHASES,
                }
            )
        connection.execute(insert(attempts), made)
        ids = {row.id: place % 50 == 49 for place, row in enumerate(settled)}
        for state, wanted in ((StepState.DONE, False), (StepState.FAILED, True)):
            chosen = [step_id for step_id, failed in ids.items() if failed is wanted]
            connection.execute(
                update(steps)
                .where(steps.c.id.in_(chosen))
                .values(state=state.value, reason="timeout" if wanted else None)
            )
        judged = [row for row in settled if not ids[row.id]]
        connection.execute(
            insert(steps).from_select(
                (
                    *("trial_id", "judge_id", "stage", "sweep_id", "build_id", "priority", "position", "state"),
                    *("fence", "beat", "cancel_requested", "attempts_before", "losses"),
                ),
                select(
                    steps.c.trial_id,
                    literal("j-1"),
                    literal(Stage.SCORE.value),
                    *(steps.c.sweep_id, steps.c.build_id, steps.c.priority, steps.c.position),
                    literal(StepState.DONE.value),
                    *(literal(0), literal(0), literal(False), literal(0), literal(0)),
                ).where(steps.c.id.in_([row.id for row in judged])),
            )
        )
        connection.execute(
            insert(judgments),
            [
                {"trial_id": row.trial_id, "judge_id": "j-1", "scored_at": made[place]["finished_at"]}
                for place, row in enumerate(settled)
                if not ids[row.id]
            ],
        )
        running = rows[len(settled) : len(settled) + 8]
        connection.execute(
            update(steps)
            .where(steps.c.id.in_([row.id for row in running]))
            .values(state=StepState.RUNNING.value, worker="w", fence=1)
        )
        connection.execute(
            insert(attempts),
            [
                {
                    "trial_id": row.trial_id,
                    "number": 1,
                    "tag": f"t-{row.id}",
                    "worker": "w",
                    "started_at": _text(end - timedelta(seconds=place)),
                }
                for place, row in enumerate(running)
            ],
        )
    return sweep


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
