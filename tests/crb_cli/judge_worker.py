"""A worker for the judge steps of a home, in this process: the real steps, without the start of another process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, update

from crb_core.settings import load_settings
from crb_core.store import open_store
from crb_core.store.steps import mark_queued
from crb_core.store.tables import Stage, StepRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.context import WorkerContext
from crb_worker.tasks.classify import classify_step
from crb_worker.tasks.match import match_step
from crb_worker.tasks.score import score_step

__all__ = ["broker_of_a_farm", "judge_what_is_ready"]

steps = core(StepRow)
_TASKS = {Stage.MATCH: match_step, Stage.CLASSIFY: classify_step, Stage.SCORE: score_step}


@contextmanager
def broker_of_a_farm(folder: Path) -> Iterator[str]:
    """The URL of a broker. A command with it as ``CRB_BROKER_URL`` leaves judge steps to ``judge_what_is_ready``."""
    with EmbeddedBroker(folder / "broker.json") as broker:
        yield broker.url


def judge_what_is_ready(monkeypatch: pytest.MonkeyPatch, broker_url: str) -> None:
    """Work on the judge steps of the home that ``CRB_HOME`` names until none is ready, deferred ones included."""
    with monkeypatch.context() as patch:
        patch.setenv("CRB_BROKER_URL", broker_url)
        settings = load_settings()
    store = open_store(settings.resolved_store_url)
    context = WorkerContext(settings, store, broker_url, "worker", 1)
    ready = select(steps.c.id, steps.c.stage).where(steps.c.state == "ready").order_by(steps.c.id)
    try:
        for _ in range(1000):
            with store.read() as connection:
                waiting = connection.execute(ready.where(steps.c.stage != Stage.REVIEW.value)).all()
            if not waiting:
                return
            for step_id, stage in waiting:
                with store.write() as connection:
                    connection.execute(update(steps).where(steps.c.id == step_id).values(not_before=None))
                    mark_queued(connection, [step_id])
                _TASKS[Stage(stage)](context, step_id)
        pytest.fail("the judge steps never ended")
    finally:
        context.close()
        store.close()
