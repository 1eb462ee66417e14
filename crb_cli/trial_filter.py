"""The options by which trials are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crb_core.errors import UsageError

if TYPE_CHECKING:
    from crb_core.store.trials import TrialFilter

__all__ = [
    "Agent",
    "Cancelled",
    "Failed",
    "OutcomeName",
    "PullRequestKey",
    "Round",
    "Sweep",
    "TrialNumbers",
    "trial_filter",
]

TrialNumbers = Annotated[list[int] | None, typer.Argument(help="Numbers of trials.")]
Sweep = Annotated[str | None, typer.Option(help="Name or id of a sweep.")]
Agent = Annotated[str | None, typer.Option(help="Agent name.")]
PullRequestKey = Annotated[str | None, typer.Option("--pr", help="Pull-request key.")]
Round = Annotated[int | None, typer.Option(min=1, help="Round, from 1.")]
OutcomeName = Annotated[str | None, typer.Option(help="Outcome of the last attempt, for example timeout.")]
Failed = Annotated[bool, typer.Option("--failed", help="Only trials of which a review or a judge's step failed.")]
Cancelled = Annotated[bool, typer.Option("--cancelled", help="Only trials of which something was cancelled.")]


def trial_filter(
    *,
    trials: list[int] | None = None,
    sweep: str | None = None,
    agent: str | None = None,
    pr: str | None = None,
    round_number: int | None = None,
    outcome: str | None = None,
    failed: bool = False,
    cancelled: bool = False,
) -> TrialFilter:
    """The filter of the options; UsageError for an outcome that does not exist."""
    from crb_core.agent import Outcome
    from crb_core.store.trials import TrialFilter

    if outcome is not None and outcome not in list(Outcome):
        raise UsageError(f"There is no outcome {outcome!r}", remedy=f"Choose from {', '.join(Outcome)}")
    return TrialFilter(
        trial_ids=tuple(dict.fromkeys(trials or ())),
        sweep=sweep,
        agent=agent,
        pull_request=pr,
        round=round_number,
        outcome=outcome,
        failed=failed,
        cancelled=cancelled,
    )
