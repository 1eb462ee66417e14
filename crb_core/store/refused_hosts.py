"""A build that asks for hosts it does not declare is paused after its first trial, before it spends a sweep on it."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from crb_core.agent import Outcome
from crb_core.store.operations import FARM, Operation, pause_build
from crb_core.store.steps import TakenStep
from crb_core.store.tables import AgentBuildRow, AttemptRow, StepRow, core

__all__ = ["pause_for_refused_hosts"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
steps = core(StepRow)


def pause_for_refused_hosts(connection: Connection, step: TakenStep, refused: str) -> Operation | None:
    """Pause the build of a review whose attempt was just closed, if that was the build's first in the sweep.

    ``refused`` names the hosts and why they were refused. First is the attempt of a build in a sweep before which none
    ended by itself: what the farm lost or a person cancelled does not count, and what runs beside it is left to end.
    Whoever resumes the build has seen the reason, so it is paused for this once. None where it is not the first.
    """
    mine = (
        select(func.count())
        .select_from(attempts.join(steps, steps.c.trial_id == attempts.c.trial_id))
        .where(
            steps.c.sweep_id == step.sweep_id,
            steps.c.build_id == step.build_id,
            steps.c.stage == step.stage.value,
            attempts.c.outcome.in_([each.value for each in Outcome if _ends_by_itself(each)]),
            (attempts.c.trial_id != step.trial_id) | (attempts.c.number != step.attempt_number),
        )
    )
    if connection.execute(mine).scalar_one():
        return None
    agent = connection.execute(select(builds.c.agent).where(builds.c.id == step.build_id)).scalar_one()
    reason = (
        f"The egress proxy refused {refused} on the first trial (trial {step.trial_id}, attempt {step.attempt_number})."
        f" Declare what the agent needs in its agent.toml and start a new sweep, or go on without it:"
        f" crb sweep resume {step.sweep_id} --agent {agent}"
    )
    return pause_build(connection, step.sweep_id, step.build_id, actor=FARM, reason=reason[:1000])


def _ends_by_itself(outcome: Outcome) -> bool:
    return outcome is not Outcome.CANCELLED and not outcome.is_farms_fault
