"""The classify step: labels for the candidates that claim no golden finding (seed A 6.3)."""

from __future__ import annotations

import threading

from crb_core.errors import InputError
from crb_core.store.judgments import finish_classify, load_judged, load_trial
from crb_core.store.steps import TakenStep
from crb_worker.context import WorkerContext
from crb_worker.judge.base import Classifier
from crb_worker.judge.complete import complete_labels, unmatched
from crb_worker.tasks.judging import judge_step

__all__ = ["classify_step"]


def classify_step(context: WorkerContext, step_id: int) -> None:
    """Classify one trial's unmatched candidates with one judge."""

    def work(step: TakenStep, stopped: threading.Event) -> bool:
        with context.store.read() as connection:
            trial = load_trial(connection, step.trial_id)
            judged = load_judged(connection, step.trial_id, step.judge_id)
        judge = context.judge_for(step, trial, stopped)
        if not isinstance(judge, Classifier):
            raise InputError(f"The judge {judge.name} does not classify")
        rest = unmatched(judged.correspondences, len(judged.candidates), len(judged.golden))
        classifications = complete_labels(judge, judged.key, judged.candidates, rest, protocol=trial.protocol)
        with context.store.write() as connection:
            return finish_classify(connection, step, classifications)

    judge_step(context, step_id, work)
