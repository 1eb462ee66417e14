"""``crb trial``: single trials."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.trial_filter import Agent, Cancelled, Failed, OutcomeName, PullRequestKey, Round, Sweep, trial_filter
from crb_cli.trial_steering import add_to
from crb_core.errors import InputError, UsageError
from crb_core.finding import LABEL_AXES
from crb_core.settings import load_settings
from crb_core.usage import USAGE_METRICS

__all__ = ["app"]

#: Characters of a label's reason that the terminal shows.
_MAX_REASON = 400

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
    """Show a trial: attempts, findings with their labels and reasons, scores, and artifacts that cannot be audited.

    --json has all of it.
    """
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
        if attempt["outcome"] is not None:
            console.print(plain(f"    {_usage_line(attempt)}"), soft_wrap=True)
    for finding in record["findings"]:
        outside = " (outside the diff)" if finding["in_diff"] is False else ""
        console.print(
            plain(f"  {finding['position']:>3} {_place(finding)}{outside} {finding['message']}"), soft_wrap=True
        )
        for judgment in record["judgments"]:
            matches = [pair for pair in judgment["matches"] if pair["candidate"] == finding["position"]]
            if matches:
                console.print(plain(f"      {judgment['judge']}: matches {_match_words(matches)}"), soft_wrap=True)
            for label in judgment["labels"]:
                if label["candidate"] == finding["position"]:
                    _print_label(judgment["judge"], label)
    for score in record["scores"]:
        console.print(plain(f"  judge {score['judge']}: {_score_words(score['score'])}"))
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
        raise UsageError(f"There is no stream {stream!r}", remedy=f"Choose from {', '.join(names)}, all")
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    with store.read() as connection:
        record = trial_record(connection, trial)
    if record is None:
        raise _no_trial(trial)
    made = record["attempts"]
    chosen = [record for record in made if attempt in {None, record["number"]}][-1:]
    if not chosen:
        count = "1 attempt" if len(made) == 1 else f"{len(made)} attempts"
        raise InputError(
            f"Trial {trial} has no attempt {'yet' if attempt is None else attempt}", remedy=f"It has {count} so far"
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


def _place(finding: Mapping[str, Any]) -> str:
    if finding["file"] is None:
        return "(no place)"
    lines = "" if finding["start_line"] is None else f":{finding['start_line']}-{finding['end_line']}"
    return f"{finding['file']}{lines}"


def _match_words(matches: Sequence[Mapping[str, Any]]) -> str:
    """The golden ids that a judge matched, and what became of each."""
    words = {True: " (claims it)", False: " (covers it)", None: ""}
    return ", ".join(f"{pair['finding_id']}{words[pair['claims']]}" for pair in matches)


def _print_label(judge: str, label: Mapping[str, Any]) -> None:
    """What a judge said of a finding that matches nothing, and why; long reasons are cut, --json has them whole."""
    axes = ", ".join(str(label[axis]) for axis in LABEL_AXES if label.get(axis) is not None)
    console.print(plain(f"      {judge}: {axes}"), soft_wrap=True)
    for axis in LABEL_AXES:
        if why := label.get(f"{axis}_justification"):
            short = " ".join(why.split())
            cut = short if len(short) <= _MAX_REASON else f"{short[:_MAX_REASON]}…"
            console.print(plain(f"        {axis.replace('_', '/')}: {cut}"), soft_wrap=True, style="dim")


def _usage_line(attempt: Mapping[str, Any]) -> str:
    """What an attempt says that it used. A failed one may have been stopped before it could say."""
    figures = [
        f"{name} {attempt['usage'][name]:,}"
        for name in USAGE_METRICS
        if isinstance((attempt["usage"] or {}).get(name), int | float)
    ]
    if figures:
        failed = "" if attempt["outcome"] == "succeeded" else "; in no figure of a review"
        return f"usage: {', '.join(figures)}{failed}"
    return "usage: none reported, so it is not known and not 0"


def _score_words(score: Mapping[str, Any]) -> str:
    """Precision and recall by the names of the score's protocol; of golden comments inside a profile."""
    micro = score["micro"]["overall"]
    grounded = "grounded_" if "grounded_precision" in micro else ""
    profile = f" (profile {score['profile'] or 'none'})" if "profile" in score else ""
    return (
        f"{grounded.replace('_', ' ')}precision {_ratio(micro[f'{grounded}precision'])}, "
        f"recall {_ratio(micro[f'{grounded}recall'])}{profile}"
    )


def _ratio(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
