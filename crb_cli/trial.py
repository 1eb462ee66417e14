"""``crb trial``: single trials."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.trial_filter import Agent, Cancelled, Failed, OutcomeName, PullRequestKey, Round, Sweep, trial_filter
from crb_cli.trial_steering import add_to
from crb_core.errors import InputError
from crb_core.settings import load_settings

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List and show trials, read their logs, cancel and retry single ones.")


@app.command("list")
def list_(
    sweep: Sweep = None,
    agent: Agent = None,
    pr: PullRequestKey = None,
    round: Round = None,
    outcome: OutcomeName = None,
    failed: Failed = False,
    cancelled: Cancelled = False,
    as_json: JsonFlag = False,
) -> None:
    """List trials with their last outcome."""
    from crb_core.store import open_store
    from crb_core.store.trials import list_trials

    wanted = trial_filter(
        sweep=sweep,
        agent=agent,
        pr=pr,
        round_number=round,
        outcome=outcome,
        failed=failed,
        cancelled=cancelled,
    )
    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        records = list_trials(connection, wanted)
    if as_json:
        print_json({"trials": records})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("trial", "agent", "pull request", "round", "review", "tries", "outcome", "ms"):
        table.add_column(title, justify="right" if title in {"trial", "round", "tries", "ms"} else "left")
    for record in records:
        table.add_row(
            str(record["trial"]),
            plain(record["agent"]),
            plain(record["pull_request"]),
            str(record["round"]),
            record["review"],
            str(record["attempts"]),
            record["outcome"] or "",
            "" if record["review_ms"] is None else f"{record['review_ms']:.0f}",
        )
    console.print(table)
    console.print(f"{len(records)} trials")


def _no_trial(number: int) -> InputError:
    return InputError(f"There is no trial {number}", remedy="`crb trial list` shows the numbers")


@app.command()
def show(trial: Annotated[int, typer.Argument(help="Number of the trial.")], as_json: JsonFlag = False) -> None:
    """Show a trial: attempts, findings, scores, and artifacts that cannot be audited; --json has all of it."""
    from crb_cli.latency import split_line
    from crb_core.evidence import open_evidence
    from crb_core.store import open_store
    from crb_core.store.trial_audit import trial_document

    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    with store.read() as connection:
        record = trial_document(connection, open_evidence(settings.resolved_evidence_url), trial)
    if record is None:
        raise _no_trial(trial)
    if as_json:
        print_json(record)
        return
    console.print(
        f"trial {record['trial']}: {record['agent']} on {record['pull_request']}, round {record['round']}, "
        f"sweep {record['sweep']}, review {record['review']}",
        markup=False,
        soft_wrap=True,
    )
    for attempt in record["attempts"]:
        took = "" if attempt["review_ms"] is None else f", {attempt['review_ms']:.0f} ms"
        engine = "" if attempt["engine_ms"] is None else f" (engine {attempt['engine_ms']:.0f} ms)"
        console.print(
            plain(
                f"  attempt {attempt['number']}: {attempt['outcome'] or 'running'}{took}{engine}: "
                f"{attempt['detail'] or ''}"
            ),
            soft_wrap=True,
        )
        if (line := split_line(attempt["phases_ms"], attempt["review_ms"])) is not None:
            console.print(plain(f"    {line}"), soft_wrap=True)
    for finding in record["findings"]:
        lines = f"{finding['file']}:{finding['start_line']}-{finding['end_line']}"
        outside = "" if finding["in_diff"] else " (outside the diff)"
        console.print(plain(f"  {finding['position']:>3} {lines}{outside} {finding['message']}"), soft_wrap=True)
    for score in record["scores"]:
        micro = score["score"]["micro"]["overall"]
        console.print(
            plain(
                f"  judge {score['judge']}: grounded precision {_ratio(micro['grounded_precision'])}, "
                f"recall {_ratio(micro['grounded_recall'])}"
            )
        )
    for artifact in record["artifacts"]:
        if artifact["state"] != "present":
            detail = f": {artifact['detail']}" if artifact["detail"] else ""
            console.print(
                plain(f"  {artifact['of']}, {artifact['name']} is {artifact['state']}{detail}"), soft_wrap=True
            )
    for step in record["steps"]:
        if step["reason"]:
            console.print(plain(f"  {step['stage']} {step['state']}: {step['reason']}"), soft_wrap=True)


@app.command()
def logs(
    trial: Annotated[int, typer.Argument(help="Number of the trial.")],
    attempt: Annotated[int | None, typer.Option(help="Attempt, from 1; the last one by default.")] = None,
    stream: Annotated[str, typer.Option(help="stdout, stderr, findings or all.")] = "all",
    as_json: JsonFlag = False,
) -> None:
    """Print what an agent wrote: its output streams and its findings file."""
    from crb_core.evidence import open_evidence
    from crb_core.store import open_store
    from crb_core.store.trial_audit import trial_record

    names = ("stdout", "stderr", "findings")
    if stream not in (*names, "all"):
        raise InputError(f"There is no stream {stream!r}", remedy=f"Choose from {', '.join(names)}, all")
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    with store.read() as connection:
        record = trial_record(connection, trial)
    if record is None:
        raise _no_trial(trial)
    made = record["attempts"]
    chosen = [record for record in made if attempt in {None, record["number"]}][-1:]
    if not chosen:
        raise InputError(
            f"Trial {trial} has no attempt {attempt or 'yet'}", remedy=f"It has {len(made)} attempts so far"
        )
    evidence = open_evidence(settings.resolved_evidence_url)
    stored = chosen[0]["evidence"] or {}
    texts = {
        name: evidence.get(stored[name]).decode(errors="replace")
        for name in names
        if stream in {name, "all"} and name in stored
    }
    if as_json:
        print_json(
            {"trial": trial, "attempt": chosen[0]["number"], "evidence": stored}
            | {name: texts.get(name) for name in names}
        )
        return
    for name, text in texts.items():
        if stream == "all":
            cut = " (its beginning was dropped)" if stored.get(f"{name}_truncated") else ""
            print(f"--- {name}{cut}", flush=True)
        # An agent's text must not move the reader's cursor or colour the terminal.
        safe = "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)
        sys.stdout.write(safe if safe.endswith("\n") or not safe else safe + "\n")


add_to(app)


def _ratio(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
