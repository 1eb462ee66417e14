"""What the judge's three steps share: taking, holding, failing."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from crb_core.errors import CrbError, InputError, StoreError, UnavailableError
from crb_core.store.steps import TakenStep, fail, take
from crb_worker.context import WorkerContext

__all__ = ["judge_step"]

log = structlog.get_logger(__name__)


def judge_step(context: WorkerContext, step_id: int, work: Callable[[TakenStep], bool]) -> None:
    """Take a judge step and do its work. A failure is stored with its reason, never turned into "no match"."""
    step = take(context.store, step_id, context.worker)
    if step is None:
        return
    with (
        structlog.contextvars.bound_contextvars(sweep=step.sweep_id, trial=step.trial_id, judge=step.judge_id),
        context.watcher.hold(step),
    ):
        try:
            if not work(step):
                log.info("late_result_dropped", stage=step.stage.value)
        except InputError as error:
            _fail(context, step, str(error), retryable=False)
        except (UnavailableError, StoreError) as error:
            _fail(context, step, str(error), retryable=True)
        except CrbError as error:
            _fail(context, step, str(error), retryable=False)
        except Exception as error:
            log.exception("judge_step_failed")
            _fail(context, step, f"{type(error).__name__}: {error}", retryable=True)
    context.nudge()


def _fail(context: WorkerContext, step: TakenStep, reason: str, *, retryable: bool) -> None:
    log.warning("judge_step_failed", stage=step.stage.value, reason=reason)
    try:
        fail(context.store, step, reason=reason, retryable=retryable, limit=context.limits.farm)
    except StoreError as error:
        # The reconciler gives the step back once its beat stands still.
        log.warning("store_away", error=str(error))
