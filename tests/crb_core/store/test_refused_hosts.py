"""A refused host pauses a build once: after the first of its trials that ended by itself."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from crb_core.agent import Outcome
from crb_core.store import Store
from crb_core.store.refused_hosts import pause_for_refused_hosts
from crb_core.store.steps import TakenStep, finish_attempt
from crb_core.store.tables import SweepBuildRow, core
from tests.crb_core.store.planned import LIMITS, Planned, plan

REFUSED = "telemetry.example.org:443 (not declared in agent.toml)"
sweep_builds = core(SweepBuildRow)


def finish(planned: Planned, step: TakenStep, outcome: Outcome, *, refused: str | None = REFUSED) -> str | None:
    """End an attempt that was ``refused`` a host; why the build is paused by that, or None."""
    with planned.store.write() as connection:
        finish_attempt(connection, step, outcome=outcome, detail="it ended", values={}, limits=LIMITS)
        operation = pause_for_refused_hosts(connection, step, refused) if refused is not None else None
    return None if operation is None else operation.reason


def pauses(planned: Planned) -> dict[str, str | None]:
    with planned.store.read() as connection:
        rows = connection.execute(select(sweep_builds).where(sweep_builds.c.paused))
        return {row.build_id: row.paused_reason for row in rows}


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.NONZERO_EXIT, Outcome.TIMEOUT])
def test_the_first_trial_pauses_its_build(store: Store, outcome: Outcome) -> None:
    """Whether it succeeded or not; the reason says what to do."""
    planned = plan(store, rounds=2)
    step = planned.take(planned.ids()[0])
    reason = finish(planned, step, outcome)
    assert reason is not None
    assert reason.startswith(
        f"The egress proxy refused {REFUSED} on the first trial (trial {step.trial_id}, attempt 1)."
    )
    assert reason.endswith(f"crb sweep resume {planned.sweep_id} --agent {planned.agent}")
    assert pauses(planned) == {planned.build_id: reason}


def test_it_is_paused_once(store: Store) -> None:
    """Who resumes has seen the reason: later trials are refused the same and go on."""
    planned = plan(store, rounds=2)
    assert finish(planned, planned.take(planned.ids()[0]), Outcome.SUCCEEDED) is not None
    planned.pause_build(False)
    assert finish(planned, planned.take(planned.ids()[1]), Outcome.SUCCEEDED) is None
    assert pauses(planned) == {}


def test_a_later_trial_pauses_nothing(store: Store) -> None:
    """The first one went well, so the agent can do without."""
    planned = plan(store, rounds=2)
    finish(planned, planned.take(planned.ids()[0]), Outcome.SUCCEEDED, refused=None)
    assert finish(planned, planned.take(planned.ids()[1]), Outcome.SUCCEEDED) is None


@pytest.mark.parametrize("outcome", [Outcome.ENGINE_ERROR, Outcome.IMAGE_UNAVAILABLE, Outcome.CANCELLED])
def test_what_the_farm_or_a_person_ended_is_no_first_trial(store: Store, outcome: Outcome) -> None:
    """Nothing is known of the agent by it."""
    planned = plan(store, rounds=2)
    finish(planned, planned.take(planned.ids()[0]), outcome, refused=None)
    assert finish(planned, planned.take(planned.ids()[1]), Outcome.SUCCEEDED) is not None


def test_builds_and_sweeps_do_not_speak_for_each_other(store: Store) -> None:
    """Each has a first trial of its own."""
    one, two = plan(store), plan(store, agent="other")
    first, second = (min(set(each.ids()) & _of(each)) for each in (one, two))
    assert finish(one, one.take(first), Outcome.SUCCEEDED) is not None
    assert finish(two, two.take(second), Outcome.SUCCEEDED) is not None
    assert set(pauses(one)) == {one.build_id, two.build_id}


def _of(planned: Planned) -> set[int]:
    return {step for step in planned.ids() if planned.step(step).sweep_id == planned.sweep_id}
