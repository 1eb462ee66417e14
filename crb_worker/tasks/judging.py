"""What the judge's three steps share: taking, holding, failing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import structlog

from crb_core.agent import Outcome
from crb_core.errors import CrbError, InputError, StoreError, UnavailableError
from crb_core.store.steps import TakenStep, close, defer, fail
from crb_core.store.tables import StepState
from crb_worker.context import WorkerContext
from crb_worker.judge.base import LaterError, StoppedError
from crb_worker.patience import take_patiently

__all__ = ["judge_step"]

log = structlog.get_logger(__name__)


def judge_step(context: WorkerContext, step_id: int, work: Callable[[TakenStep, threading.Event], bool]) -> None:
    """Take a judge step and do its work. A failure is stored with its reason, never turned into "no match".

    The event that ``work`` is given is set when the step was cancelled or lost: then its result is of no use.
    """
    step = take_patiently(context, step_id)
    if step is None:
        return
    stopped = threading.Event()
    reasons: list[Outcome] = []

    def stop(outcome: Outcome) -> None:
        reasons.append(outcome)
        stopped.set()

    with (
        structlog.contextvars.bound_contextvars(**step.log_fields, judge=step.judge_id),
        context.metrics.holding(step.stage.value, step.queue_ms),
        context.watcher.hold(step, stop),
    ):
        result = "failed"
        try:
            kept = work(step, stopped)
            result = "done" if kept else "late"
            log.info("judge_step_finished" if kept else "late_result_dropped", stage=step.stage.value)
        except LaterError as error:
            result = "deferred"
            log.info("judge_step_deferred", stage=step.stage.value, seconds=error.seconds, reason=str(error))
            _end(context, partial(defer, context.store, step, seconds=error.seconds, reason=str(error)))
        except StoppedError:
            result = "stopped"
            log.info("judge_step_stopped", stage=step.stage.value, outcome=reasons[0].value)
            if reasons[0] is Outcome.CANCELLED:
                _end(context, partial(_cancel, context, step))
        except InputError as error:
            _fail(context, step, str(error), retryable=False)
        except (UnavailableError, StoreError) as error:
            _fail(context, step, str(error), retryable=True)
        except CrbError as error:
            _fail(context, step, str(error), retryable=False)
        except Exception as error:
            log.exception("judge_step_failed")
            _fail(context, step, f"{type(error).__name__}: {error}", retryable=True)
        context.metrics.judge_step_ended(step.stage.value, result, time.monotonic() - step.taken_at)
    context.nudge()


def _fail(context: WorkerContext, step: TakenStep, reason: str, *, retryable: bool) -> None:
    log.warning("judge_step_failed", stage=step.stage.value, reason=reason)
    _end(context, lambda: fail(context.store, step, reason=reason, retryable=retryable, limit=context.limits.farm))


def _cancel(context: WorkerContext, step: TakenStep) -> None:
    with context.store.write() as connection:
        close(connection, step, StepState.CANCELLED, reason="cancelled")


def _end(context: WorkerContext, end: Callable[[], object]) -> None:
    try:
        end()
    except StoreError as error:
        # The reconciler gives the step back once its beat stands still.
        context.store_outage.failed(error)
