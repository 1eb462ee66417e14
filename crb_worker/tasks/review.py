"""The review step: one attempt of a trial in its own container."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from crb_core.agent import Outcome
from crb_core.errors import CrbError, InputError, StoreError
from crb_core.scrub import Scrubber, keep_out_of_logs, scrub_log_line
from crb_core.store.judgments import TrialContext, add_judge_steps, load_trial, save_candidates
from crb_core.store.refused_hosts import pause_for_refused_hosts
from crb_core.store.steps import TakenStep, finish_attempt
from crb_core.store.tables import StepState
from crb_worker.context import WorkerContext
from crb_worker.patience import hand_back_if_possible, keep_trying, take_patiently
from crb_worker.sandbox.contract import AttemptRequest, AttemptResult
from crb_worker.sandbox.refusals import pausing_refusals
from crb_worker.sandbox.scrubbing import without_secrets
from crb_worker.sandbox.stops import Stops
from crb_worker.snapshot import source_for

__all__ = ["review_step"]

log = structlog.get_logger(__name__)

#: How long a finished review waits for a store that is away, before its attempt counts as lost.
FINISH_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """How an attempt ended, in the words of the attempt row.

    ``phases`` is what was measured until ``since``, a moment of the monotonic clock; without any the attempt ended
    before its sandbox had it.
    """

    outcome: Outcome
    detail: str
    values: dict[str, Any]
    phases: dict[str, float] = field(default_factory=dict)
    since: float | None = None
    result: AttemptResult | None = None
    final: bool = False


def review_step(context: WorkerContext, step_id: int) -> None:
    """Take a review step, run its container and store what came of it."""
    with context.review_gate.entered() as is_admitted:
        if not is_admitted:
            hand_back_if_possible(context, step_id)
            return
        step = take_patiently(context, step_id)
        if step is None:
            return
        with (
            structlog.contextvars.bound_contextvars(**step.log_fields),
            context.metrics.holding(step.stage.value, step.queue_ms),
        ):
            _review(context, step)
    context.nudge()


def _review(context: WorkerContext, step: TakenStep) -> None:
    assert step.attempt_tag is not None
    stops = Stops(step.attempt_tag)
    agent = "unknown"
    with context.watcher.hold(step, stops.stop):
        try:
            with context.store.read() as connection:
                trial = load_trial(connection, step.trial_id)
            agent = trial.build.agent
            log.info(
                "review_started",
                agent=trial.build.agent,
                pull_request=trial.pull_request.key,
                round=trial.round,
            )
            ended = _run(context, step, trial, stops)
        except InputError as error:
            # The same input gives the same error: another attempt would only repeat it.
            ended = _Ended(outcome=Outcome.ENGINE_ERROR, detail=scrub_log_line(str(error)), values={}, final=True)
        except CrbError as error:
            ended = _Ended(outcome=Outcome.ENGINE_ERROR, detail=scrub_log_line(str(error)), values={})
        except Exception as error:
            log.exception("review_failed_in_the_farm")
            what = scrub_log_line(f"The farm failed: {type(error).__name__}: {error}")
            ended = _Ended(outcome=Outcome.ENGINE_ERROR, detail=what, values={})
        try:
            state = _finish_patiently(context, step, ended)
        except Exception as error:
            # The store took nothing of it, so the attempt is still open: it says what happened instead of being lost.
            log.exception("review_result_refused")
            what = f"The farm could not store the result: {type(error).__name__}: {str(error).splitlines()[0][:300]}"
            ended = _Ended(outcome=Outcome.ENGINE_ERROR, detail=scrub_log_line(what), values={})
            state = _finish_patiently(context, step, ended)
    if state is None:
        context.metrics.late.labels(step.stage.value).inc()
    else:
        context.metrics.attempt_ended(
            agent,
            ended.outcome.value,
            phases_ms=_phases_until_now(step, ended),
            review_ms=ended.values.get("review_ms"),
        )
    log.info("review_finished", outcome=ended.outcome.value, detail=ended.detail, state=state and state.value)


def _run(
    context: WorkerContext,
    step: TakenStep,
    trial: TrialContext,
    stops: Stops,
) -> _Ended:
    sandbox = context.review_sandbox(trial.build.runner)
    snapshot = context.snapshots.get(
        source_for(trial.snapshot_source["kind"], trial.snapshot_source["template"]), trial.pull_request
    )
    assert step.attempt_tag is not None
    assert step.attempt_number is not None
    secrets = context.secrets(trial.build)
    scrubber = Scrubber(secrets.values())
    keep_out_of_logs(secrets.values())
    snapshot_ms = (time.monotonic() - step.taken_at) * 1000
    with stops.reaching(sandbox):
        if stops.outcome is not None:
            return _Ended(outcome=stops.outcome, detail="Stopped before the container started", values={})
        result = sandbox.run(
            AttemptRequest(
                attempt_id=step.attempt_tag,
                attempt_number=step.attempt_number,
                round=trial.round,
                pull_request=trial.pull_request,
                build=trial.build,
                repo=snapshot.repo,
                pr_files=snapshot.pr_files,
                workspace=context.workspace,
                farm=context.settings.farm,
                in_diff=snapshot.diff.in_diff,
                secrets=secrets,
            )
        )
    since = time.monotonic()
    result = without_secrets(result, scrubber)
    # Blob before row: a row never names evidence that is not there.
    evidence = {
        name: keep_trying(partial(context.evidence.put, data), context.evidence_outage, seconds=FINISH_PATIENCE_SECONDS)
        for name, data in (
            ("findings", result.findings_bytes),
            ("stdout", result.stdout),
            ("stderr", result.stderr),
            # What the reviewer was shown: the snapshot cache may be emptied.
            ("diff", (snapshot.pr_files / "diff.patch").read_bytes()),
        )
        if data is not None
    }
    return _Ended(
        outcome=result.outcome,
        detail=result.detail,
        result=result,
        phases={"snapshot": snapshot_ms, **result.phases},
        since=since,
        values={
            "review_ms": result.review_ms,
            "engine_ms": result.engine_ms,
            "exit_code": result.exit_code,
            "image_id": result.image_id,
            "host": result.host,
            "concurrent": result.concurrent,
            "cpus": trial.build.limits.cpus,
            "cores": os.cpu_count(),
            "usage": result.usage,
            "refused_hosts": None
            if result.refused_hosts is None
            else [refused.document() for refused in result.refused_hosts],
            "evidence": evidence
            | {f"{name}_truncated": True for name in ("stdout", "stderr") if getattr(result, f"{name}_truncated")},
        },
    )


def _phases_until_now(step: TakenStep, ended: _Ended) -> dict[str, float]:
    """The attempt's phases, without a gap from its publishing: what came after the sandbox was storing the result."""
    queue = {} if step.queue_ms is None else {"queue": step.queue_ms}
    last = "store" if ended.phases else "snapshot"
    since = step.taken_at if ended.since is None else ended.since
    return queue | ended.phases | {last: (time.monotonic() - since) * 1000}


def _finish(context: WorkerContext, step: TakenStep, ended: _Ended) -> StepState | None:
    with context.store.write() as connection:
        state = finish_attempt(
            connection,
            step,
            outcome=ended.outcome,
            detail=ended.detail,
            values=ended.values | {"phases_ms": _phases_until_now(step, ended)},
            limits=context.limits,
            final=ended.final,
        )
        if state is not None and ended.result is not None:
            refused = pausing_refusals(ended.result.refused_hosts or ())
            paused = pause_for_refused_hosts(connection, step, refused) if refused else None
            if paused is not None:
                log.warning("build_paused", build=step.build_id, reason=paused.reason)
        if state is StepState.DONE:
            assert ended.result is not None
            save_candidates(connection, step.trial_id, ended.result.findings)
            add_judge_steps(connection, step)
    return state


def _finish_patiently(context: WorkerContext, step: TakenStep, ended: _Ended) -> StepState | None:
    # A review may have cost money: its result is kept until the store answers, as long as that makes sense.
    try:
        return keep_trying(
            partial(_finish, context, step, ended), context.store_outage, seconds=FINISH_PATIENCE_SECONDS
        )
    except StoreError as error:
        log.error("review_result_dropped", error=str(error))
        return None
