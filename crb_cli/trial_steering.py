"""``crb trial retry|cancel``: single trials, or all that a filter leaves."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.trial_filter import (
    Agent,
    Cancelled,
    Failed,
    OutcomeName,
    PullRequestKey,
    Round,
    Sweep,
    TrialNumbers,
    trial_filter,
)
from crb_core.errors import InputError, UsageError
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.store.operations import Operation
    from crb_core.store.retries import Retriable
    from crb_core.store.tables import Stage

__all__ = ["add_to"]

#: Trials of one build that a line names.
_NAMED = 10
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be changed.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file to ``crb trial``."""
    app.command()(retry)
    app.command()(cancel)


def retry(
    trial: TrialNumbers = None,
    sweep: Sweep = None,
    agent: Agent = None,
    pr: PullRequestKey = None,
    round: Round = None,
    outcome: OutcomeName = None,
    failed: Failed = False,
    cancelled: Cancelled = False,
    stage: Annotated[
        list[str] | None,
        typer.Option(help="Only steps of this stage: review, match, classify or score (repeatable)."),
    ] = None,
    dry_run: DryRun = False,
    as_json: JsonFlag = False,
) -> None:
    """Try again what failed or was cancelled: the named trials, or all that match.

    Earlier attempts stay visible, and what succeeded is kept: of a trial that was reviewed only failed judge steps are
    tried again, without a container. Reviews whose agent has become another build are left as they are, and named: the
    exit code is then 3, and 1 where nothing else is left to try.
    """
    from crb_cli.running import find_a_place, go_on
    from crb_cli.unchanged import compare_with_now
    from crb_core.store import open_store
    from crb_core.store.operations import COMMAND_LINE
    from crb_core.store.operations import retry as retry_steps
    from crb_core.store.retries import check_retries, choose_retries, planned_builds
    from crb_core.store.tables import Stage

    if not trial and not any((sweep, agent, pr, round, outcome, failed, cancelled, stage)):
        raise UsageError("No trial is named", remedy="Give trial numbers, or --failed, --outcome or another filter")
    wanted = trial_filter(
        trials=trial,
        sweep=sweep,
        agent=agent,
        pr=pr,
        round_number=round,
        outcome=outcome,
        failed=failed,
        cancelled=cancelled,
    )
    stages = _stages(stage or ())
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            chosen = choose_retries(connection, wanted, stages)
            reviews = [(step.sweep_id, step.build) for step in chosen if step.stage == Stage.REVIEW.value]
            planned = planned_builds(connection, reviews)
        checked = check_retries(chosen, planned, lambda planned: compare_with_now(planned, settings))
        if dry_run:
            _print_chosen(checked, as_json=as_json)
            _end_with(checked)
            return
        place = find_a_place(settings)
        with store.write() as connection:
            done = retry_steps(connection, checked.steps, actor=COMMAND_LINE, refused=checked.refused)
    finally:
        store.close()
    trials = [number for operation in done for number in operation.trials]
    sweeps = sorted({str(operation.sweep) for operation in done if operation.trials})
    if as_json:
        print_json(
            {
                "retried": trials,
                "steps": sum(operation.steps for operation in done),
                "sweeps": sweeps,
                "refused": [each.to_json() for each in checked.refused],
                "notes": list(checked.notes),
                "operations": [operation.to_json() for operation in done],
            }
        )
    else:
        for note in checked.notes:
            console.print(plain(f"{note}."), soft_wrap=True)
        console.print(f"{_trials(len(trials))} ready again")
    _say_refused(checked)
    if sweeps:
        go_on(settings, place, sweeps, quiet=as_json)
    _end_with(checked)


def cancel(
    trial: TrialNumbers = None,
    sweep: Sweep = None,
    agent: Agent = None,
    pr: PullRequestKey = None,
    round: Round = None,
    reason: Annotated[str | None, typer.Option(help="Why, for those who see it.")] = None,
    dry_run: DryRun = False,
    as_json: JsonFlag = False,
) -> None:
    """End trials that wait or run: the named ones, or all that match. Running containers are stopped within seconds.

    `crb trial retry` goes on with them.
    """
    from crb_core.store import open_store
    from crb_core.store.operations import COMMAND_LINE, cancel_trials
    from crb_core.store.trials import list_trials

    if not trial and not any((sweep, agent, pr, round)):
        raise UsageError("No trial is named", remedy="Give trial numbers, or --sweep, --agent or another filter")
    wanted = trial_filter(trials=trial, sweep=sweep, agent=agent, pr=pr, round_number=round)
    store = open_store(load_settings().resolved_store_url)
    try:
        with store.write() as connection:
            numbers = [record["trial"] for record in list_trials(connection, wanted) if record["open_steps"]]
            for number in wanted.trial_ids:
                if number not in numbers:
                    raise _nothing_to_cancel(list_trials(connection, trial_filter(trials=[number])), number)
            if not numbers:
                raise InputError("No trial that waits or runs matches", remedy="`crb trial list` shows them")
            done = [] if dry_run else cancel_trials(connection, numbers, actor=COMMAND_LINE, reason=reason)
    finally:
        store.close()
    _print_cancelled(numbers, done, is_dry=dry_run, as_json=as_json)


def _nothing_to_cancel(found: Sequence[dict[str, object]], number: int) -> InputError:
    if not found:
        return InputError(f"There is no trial {number}", remedy="`crb trial list` shows the numbers")
    return InputError(f"Nothing of trial {number} waits or runs", remedy=f"See `crb trial show {number}`")


def _print_cancelled(numbers: Sequence[int], done: Sequence[Operation], *, is_dry: bool, as_json: bool) -> None:
    stopping = sum(operation.running for operation in done)
    if as_json:
        print_json(
            {"trials": list(numbers), "dry_run": is_dry, "operations": [operation.to_json() for operation in done]}
        )
    elif is_dry:
        console.print(f"{_trials(len(numbers))} to be cancelled: {', '.join(map(str, numbers))}", soft_wrap=True)
    else:
        running = f"; {stopping} running steps are being stopped" if stopping else ""
        console.print(f"{_trials(len(numbers))} cancelled{running}; `crb trial retry` goes on with them")


def _say_refused(checked: Retriable) -> None:
    """On standard error, so that who reads the JSON with a program is told as well."""
    for each in checked.refused:
        shown = ", ".join(map(str, each.trials[:_NAMED])) + (", ..." if len(each.trials) > _NAMED else "")
        numbers = f"Trial {shown} is" if len(each.trials) == 1 else f"{len(each.trials)} trials ({shown}) are"
        print(plain(f"crb: {numbers} not tried again: {each.reason}").plain, file=sys.stderr)


def _end_with(checked: Retriable) -> None:
    from crb_cli.running import SOME_TRIALS_FAILED

    if checked.refused:
        raise typer.Exit(SOME_TRIALS_FAILED)


def _print_chosen(checked: Retriable, *, as_json: bool) -> None:
    chosen, notes = checked.steps, checked.notes
    _say_refused(checked)
    if as_json:
        print_json(
            {
                "steps": [step.to_json() for step in chosen],
                "refused": [each.to_json() for each in checked.refused],
                "notes": list(notes),
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for title in ("trial", "agent", "pull request", "round", "stage", "state", "tries", "outcome"):
        table.add_column(title, justify="right" if title in {"trial", "round", "tries"} else "left", overflow="fold")
    for step in chosen:
        stage = step.stage if step.judge is None else f"{step.stage} ({step.judge})"
        table.add_row(
            str(step.trial),
            plain(step.agent),
            plain(step.pull_request),
            str(step.round),
            plain(stage),
            step.state,
            str(step.attempts),
            step.outcome or "",
        )
    console.print(table)
    for note in notes:
        console.print(plain(f"{note}."), soft_wrap=True)
    counts = Counter(step.stage for step in chosen)
    console.print(", ".join(f"{count} {stage}" for stage, count in counts.items()) + " steps would be tried again")


def _stages(names: Sequence[str]) -> tuple[Stage, ...]:
    from crb_core.store.tables import Stage

    for name in names:
        if name not in list(Stage):
            raise UsageError(f"There is no stage {name!r}", remedy=f"Choose from {', '.join(Stage)}")
    return tuple(Stage(name) for name in names)


def _trials(count: int) -> str:
    return "1 trial is" if count == 1 else f"{count} trials are"
