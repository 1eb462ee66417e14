"""The match step: correspondences between a trial's candidates and the golden findings."""

from __future__ import annotations

import threading

from crb_core.protocols import protocol_named
from crb_core.protocols.golden_comments import check_dedup_groups
from crb_core.store.judgments import finish_match, load_dedup_groups, load_judged, load_trial
from crb_core.store.steps import TakenStep
from crb_core.store.tables import Stage
from crb_worker.context import WorkerContext
from crb_worker.judge.complete import complete_matches
from crb_worker.tasks.judging import judge_step

__all__ = ["match_step"]


def match_step(context: WorkerContext, step_id: int) -> None:
    """Match one trial with one judge."""

    def work(step: TakenStep, stopped: threading.Event) -> bool:
        with context.store.read() as connection:
            trial = load_trial(connection, step.trial_id)
            judged = load_judged(connection, step.trial_id, step.judge_id)
            # Groups belong to the review: whoever judges it counts one false positive a group (seed C, step 2.5).
            groups = load_dedup_groups(connection, step.trial_id) if trial.protocol == "golden-comments" else None
        if groups is not None:
            check_dedup_groups(groups, len(judged.candidates))
        judge = context.judge_for(step, trial, stopped)
        # No transaction is open while a judge works.
        correspondences = complete_matches(judge, judged.key, judged.candidates, judged.golden, protocol=trial.protocol)
        labels = judge.classifies and protocol_named(trial.protocol).labels_unmatched
        with context.store.write() as connection:
            return finish_match(
                connection,
                step,
                correspondences,
                next_stage=Stage.CLASSIFY if labels else Stage.SCORE,
                document=None if groups is None else {"dedup_groups": groups},
            )

    judge_step(context, step_id, work)
