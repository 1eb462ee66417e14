"""A small planned sweep in a store, and a look at its steps and attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from crb_core.agent import AgentBuild
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.finding import GoldenFinding, Label, TpFp
from crb_core.pull_request import PullRequest
from crb_core.store import Store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.operations import cancel_sweep, pause_build, pause_sweep, resume_sweep
from crb_core.store.steps import AttemptLimits, TakenStep, mark_queued, take
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.tables import AttemptRow, Stage, StepRow, SweepState, core

steps = core(StepRow)
attempts = core(AttemptRow)

LIMITS = AttemptLimits(agent=2, farm=3)


def corpus(pull_requests: int) -> Corpus:
    return Corpus(
        name="small",
        version="1",
        title="A small corpus",
        source="none",
        entries=tuple(
            CorpusEntry(
                pull_request=PullRequest(
                    key=f"pr-{number}",
                    repo="https://github.com/example/shop",
                    number=number,
                    base="a" * 40,
                    head="b" * 40,
                    title="A change",
                ),
                golden=(
                    GoldenFinding(
                        file="shop.py",
                        start_line=1,
                        end_line=2,
                        message="The total is wrong.",
                        producer="a person",
                        label=Label(tp_fp=TpFp.TP),
                    ),
                ),
            )
            for number in range(1, pull_requests + 1)
        ),
    )


def build(agent: str = "minimal") -> AgentBuild:
    return AgentBuild(
        agent=agent,
        display_name=agent,
        provider="example",
        image=f"crb/{agent}",
        image_id="sha256:" + "0" * 64,
        runner="docker",
    )


@dataclass(frozen=True)
class Planned:
    """One sweep of one build and one judge, with what a test asks of it."""

    store: Store
    sweep_id: str
    build_id: str
    agent: str

    def ids(self, stage: Stage = Stage.REVIEW) -> list[int]:
        """Step ids of the store, whatever their sweep."""
        with self.store.read() as connection:
            return list(
                connection.execute(
                    select(steps.c.id).where(steps.c.stage == stage.value).order_by(steps.c.id)
                ).scalars()
            )

    def trial(self, step_id: int) -> int:
        return int(self.step(step_id).trial_id)

    def step(self, step_id: int) -> Any:
        with self.store.read() as connection:
            return connection.execute(select(steps).where(steps.c.id == step_id)).one()

    def state(self, step_id: int) -> str:
        return str(self.step(step_id).state)

    def attempts(self, step_id: int) -> list[tuple[int, str | None]]:
        """Number and outcome of a review's attempts, in order."""
        with self.store.read() as connection:
            rows = connection.execute(
                select(attempts.c.number, attempts.c.outcome)
                .join(steps, steps.c.trial_id == attempts.c.trial_id)
                .where(steps.c.id == step_id)
                .order_by(attempts.c.number)
            )
            return [(row.number, row.outcome) for row in rows]

    def queue(self, *step_ids: int) -> list[int]:
        with self.store.write() as connection:
            return mark_queued(connection, step_ids)

    def take(self, step_id: int, worker: str = "w") -> TakenStep:
        """Queue a ready step and take it."""
        assert self.queue(step_id) == [step_id]
        taken = take(self.store, step_id, worker)
        assert taken is not None
        return taken

    def set_state(self, state: SweepState) -> None:
        with self.store.write() as connection:
            change = {
                SweepState.ACTIVE: resume_sweep,
                SweepState.PAUSED: pause_sweep,
                SweepState.CANCELLED: cancel_sweep,
            }[state]
            change(connection, self.sweep_id, actor="a test")

    def pause_build(self, paused: bool) -> None:
        with self.store.write() as connection:
            if paused:
                pause_build(connection, self.sweep_id, self.build_id, actor="a test", reason="for a test")
            else:
                resume_sweep(connection, self.sweep_id, agent=self.agent, actor="a test")


def plan(
    store: Store, *, pull_requests: int = 1, rounds: int = 1, agent: str = "minimal", name: str | None = None
) -> Planned:
    small = corpus(pull_requests)
    subject = build(agent)
    with store.write() as connection:
        corpus_id = save_corpus(connection, small)
        ids = pull_request_ids(connection, corpus_id)
        sweep_id, new = plan_sweep(
            connection,
            SweepPlan(
                name=name or f"sweep-of-{agent}",
                corpus_id=corpus_id,
                rounds=rounds,
                builds=[subject],
                pull_requests=list(ids.values()),
                judges=[JudgePlan(judge_id="j-1", name="offline", classifies=False, document={})],
                snapshot_source={"kind": "none", "template": None},
            ),
        )
    assert new == pull_requests * rounds
    return Planned(store, sweep_id, subject.build_id, agent)
