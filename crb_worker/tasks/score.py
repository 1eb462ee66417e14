"""The score step: the metrics of one judgment. Tables recompute them; this copy is what a trial page shows."""

from __future__ import annotations

import threading

from crb_core.aggregate import to_json
from crb_core.protocols import golden_comments, protocol_named
from crb_core.store.judgments import finish_score, load_dedup_groups, load_judged, load_trial
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
            groups = load_dedup_groups(connection, step.trial_id) if trial.protocol == "golden-comments" else None
        if groups is not None:
            document = to_json(golden_comments.score([judged], dedup_groups={judged.key: groups}))
        else:
            document = to_json(protocol_named(trial.protocol).score([judged]))
        with context.store.write() as connection:
            return finish_score(connection, step, document)

    judge_step(context, step_id, work)
