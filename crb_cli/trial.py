"""``crb trial``: single trials."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import InputError
from crb_core.settings import load_settings

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List and show trials, read their logs, retry single ones.")

Sweep = Annotated[str | None, typer.Option(help="Name or id of a sweep.")]
Agent = Annotated[str | None, typer.Option(help="Agent name.")]
PullRequestKey = Annotated[str | None, typer.Option("--pr", help="Pull-request key.")]
Round = Annotated[int | None, typer.Option(help="Round, from 1.")]
OutcomeName = Annotated[str | None, typer.Option(help="Outcome of the last attempt, for example timeout.")]
Failed = Annotated[bool, typer.Option("--failed", help="Only trials that failed or were cancelled.")]


def _filter(**values: Any) -> Any:
    from crb_core.agent import Outcome
    from crb_core.store.trials import TrialFilter

    outcome = values.get("outcome")
    if outcome is not None and outcome not in list(Outcome):
        raise InputError(f"There is no outcome {outcome!r}", remedy=f"Choose from {', '.join(Outcome)}")
    return TrialFilter(**values)


@app.command("list")
def list_(
    sweep: Sweep = None,
    agent: Agent = None,
    pr: PullRequestKey = None,
    round: Round = None,
    outcome: OutcomeName = None,
    failed: Failed = False,
    as_json: JsonFlag = False,
) -> None:
    """List trials with their last outcome."""
    from crb_core.store import open_store
    from crb_core.store.trials import list_trials

    wanted = _filter(sweep=sweep, agent=agent, pull_request=pr, round=round, outcome=outcome, failed=failed)
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


@app.command()
def show(trial: Annotated[int, typer.Argument(help="Number of the trial.")], as_json: JsonFlag = False) -> None:
    """Show a trial: attempts, findings, scores."""
    from crb_core.store import open_store
    from crb_core.store.trials import show_trial

    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        record = show_trial(connection, trial)
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
    from crb_core.store.trials import show_trial

    names = ("stdout", "stderr", "findings")
    if stream not in (*names, "all"):
        raise InputError(f"There is no stream {stream!r}", remedy=f"Choose from {', '.join(names)}, all")
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    with store.read() as connection:
        made = show_trial(connection, trial)["attempts"]
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


@app.command()
def retry(
    trial: Annotated[list[int] | None, typer.Argument(help="Numbers of trials.")] = None,
    sweep: Sweep = None,
    agent: Agent = None,
    pr: PullRequestKey = None,
    round: Round = None,
    outcome: OutcomeName = None,
    failed: Failed = False,
    as_json: JsonFlag = False,
) -> None:
    """Try failed trials again: the named ones, or all that match. Earlier attempts stay; what succeeded is kept."""
    from crb_cli.home import require_a_place_to_run
    from crb_cli.sweep import run_or_leave_to_the_farm
    from crb_core.store import open_store
    from crb_core.store.trials import list_trials, retry_trials

    if not trial and not any((sweep, agent, pr, round, outcome, failed)):
        raise InputError("No trial is named", remedy="Give trial numbers, or --failed, --outcome or another filter")
    wanted = _filter(
        trial_ids=tuple(trial or ()),
        sweep=sweep,
        agent=agent,
        pull_request=pr,
        round=round,
        outcome=outcome,
        failed=failed or not trial,
    )
    settings = load_settings()
    require_a_place_to_run(settings)
    store = open_store(settings.resolved_store_url)
    with store.write() as connection:
        retried = retry_trials(connection, wanted)
        names = sorted({record["sweep"] for record in list_trials(connection, _filter(trial_ids=tuple(retried)))})
    store.close()
    if as_json:
        print_json({"retried": retried, "sweeps": names})
    else:
        console.print(f"{len(retried)} trials are ready again")
    run_or_leave_to_the_farm(settings, names, quiet=as_json)


def _ratio(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
