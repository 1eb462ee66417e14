"""The score step: the metrics of one judgment. Tables recompute them; this copy is what a trial page shows."""

from __future__ import annotations

import threading

from crb_core.aggregate import to_json
from crb_core.protocols import protocol_named
from crb_core.store.judgments import finish_score, load_judged, load_trial
from crb_core.store.steps import TakenStep
from crb_worker.context import WorkerContext
from crb_worker.tasks.judging import judge_step

__all__ = ["score_step"]


def score_step(context: WorkerContext, step_id: int) -> None:
    """Score one trial under one judge."""

    def work(step: TakenStep, stopped: threading.Event) -> bool:  # noqa: ARG001
        with context.store.read() as connection:
            trial = load_trial(connection, step.trial_id)
            judged = load_judged(connection, step.trial_id, step.judge_id)
        document = to_json(protocol_named(trial.protocol).score([judged]))
        with context.store.write() as connection:
            return finish_score(connection, step, document)

    judge_step(context, step_id, work)
