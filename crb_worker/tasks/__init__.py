"""The four tasks, one a queue. A message carries a step id; what it means is read from the store."""

from __future__ import annotations

from celery import Celery

from crb_core.store.tables import Stage
from crb_worker.app import task_name
from crb_worker.context import WorkerContext
from crb_worker.tasks.classify import classify_step
from crb_worker.tasks.match import match_step
from crb_worker.tasks.review import review_step
from crb_worker.tasks.score import score_step

__all__ = ["register_tasks"]


def register_tasks(app: Celery, context: WorkerContext) -> None:
    """Bind the tasks of this process to its context."""

    def review(step_id: int) -> None:
        review_step(context, step_id)

    def match(step_id: int) -> None:
        match_step(context, step_id)

    def classify(step_id: int) -> None:
        classify_step(context, step_id)

    def score(step_id: int) -> None:
        score_step(context, step_id)

    bodies = {Stage.REVIEW: review, Stage.MATCH: match, Stage.CLASSIFY: classify, Stage.SCORE: score}
    for stage, body in bodies.items():
        # Not shared: tasks of one context must not appear in another app of this process.
        app.task(name=task_name(stage), shared=False)(body)
