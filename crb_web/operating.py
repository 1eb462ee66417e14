"""What operators do over HTTP: the operations of the command line, with the token's name as who did it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crb_core.errors import InputError
from crb_core.store import operations
from crb_core.store.operations import KEEP, Keep, Operation
from crb_core.store.retries import CheckUnchanged, Refused, check_retries, choose_retries, planned_builds
from crb_core.store.tables import Stage
from crb_core.store.trials import TrialFilter, list_trials
from crb_web.errors import NotFoundError
from crb_web.sources import Sources

__all__ = ["CheckUnchanged", "Operator", "Retried"]


@dataclass(frozen=True, kw_only=True)
class Retried:
    """What was put back to ready, what was not because its agent has changed, and what could not be compared."""

    operations: list[Operation]
    refused: Sequence[Refused]
    notes: Sequence[str]


class Operator:
    """Changes the store that ``sources`` reads; ``check_unchanged`` is asked before a review is tried again."""

    def __init__(self, sources: Sources, check_unchanged: CheckUnchanged) -> None:
        self._sources = sources
        self._check_unchanged = check_unchanged

    def pause(self, sweep: str, *, actor: str, agent: str | None, reason: str | None) -> Operation:
        sweep_id = self._sources.sweep(sweep).id
        with self._sources.store().write() as connection:
            return operations.pause_sweep(connection, sweep_id, actor=actor, agent=agent, reason=reason)

    def resume(self, sweep: str, *, actor: str, agent: str | None) -> Operation:
        sweep_id = self._sources.sweep(sweep).id
        with self._sources.store().write() as connection:
            return operations.resume_sweep(connection, sweep_id, actor=actor, agent=agent)

    def cancel(self, sweep: str, *, actor: str, agent: str | None, reason: str | None) -> Operation:
        sweep_id = self._sources.sweep(sweep).id
        with self._sources.store().write() as connection:
            return operations.cancel_sweep(connection, sweep_id, actor=actor, agent=agent, reason=reason)

    def set_limits(
        self,
        sweep: str,
        *,
        actor: str,
        agent: str | None,
        priority: int | Keep = KEEP,
        weight: float | Keep = KEEP,
        concurrency: int | Keep | None = KEEP,
    ) -> Operation:
        sweep_id = self._sources.sweep(sweep).id
        with self._sources.store().write() as connection:
            return operations.set_limits(
                connection,
                sweep_id,
                actor=actor,
                agent=agent,
                priority=priority,
                weight=weight,
                concurrency=concurrency,
            )

    def cancel_trials(self, numbers: Sequence[int], *, actor: str, sweep: str | None, reason: str | None) -> Operation:
        """End trials of one sweep: of ``sweep``, or of the one that the first belongs to."""
        with self._sources.store().write() as connection:
            found = {each["trial"]: each for each in list_trials(connection, TrialFilter(trial_ids=numbers))}
            sweep_id = None if sweep is None else self._sources.sweep(sweep).id
            for number in numbers:
                if number not in found or (sweep_id is not None and found[number]["sweep_id"] != sweep_id):
                    raise NotFoundError(f"There is no trial {number}{' in this sweep' if sweep else ''}")
                if not found[number]["open_steps"]:
                    raise InputError(f"Nothing of trial {number} waits or runs")
            return operations.cancel_trials(connection, numbers, actor=actor, reason=reason)[0]

    def retry(self, wanted: TrialFilter, stages: Sequence[Stage], *, actor: str) -> Retried:
        """Try again what failed or was cancelled among the wanted trials; what succeeded is kept.

        So are reviews of an agent that has become another build, which are named. InputError where nothing is left.
        """
        sweep_id = None if wanted.sweep is None else self._sources.sweep(wanted.sweep).id
        with self._sources.store().read() as connection:
            # A sweep may be named like another one's id.
            chosen = [
                each
                for each in choose_retries(connection, wanted, stages)
                if sweep_id is None or each.sweep_id == sweep_id
            ]
            reviews = [(step.sweep_id, step.build) for step in chosen if step.stage == Stage.REVIEW.value]
            planned = planned_builds(connection, reviews)
        checked = check_retries(chosen, planned, self._check_unchanged)
        with self._sources.store().write() as connection:
            done = operations.retry(connection, checked.steps, actor=actor, refused=checked.refused)
        return Retried(operations=done, refused=checked.refused, notes=checked.notes)
