"""``crb leaderboard compare`` and ``crb leaderboard submit``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from crb_cli import filters
from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["compare", "submit"]


def compare(
    one: Annotated[str, typer.Argument(help="Agent, or build id.")],
    other: Annotated[str, typer.Argument(help="Agent, or build id.")],
    sweep: filters.OneSweep = None,
    judge: filters.Judge = None,
    severity: filters.Severity = None,
    category: filters.Category = None,
    scope: filters.Scope = None,
    difficulty: filters.Difficulty = None,
    context_required: filters.ContextRequired = None,
    actionability: filters.Actionability = None,
    producer: filters.Producer = None,
    profile: filters.Profile = None,
    no_dedup: filters.NoDedup = False,
    beta: filters.Beta = 1.0,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Also use incomplete rounds, where both have a score.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare two agents on the same pull requests: difference, 95% interval, and p of an exchange test."""
    from crb_cli.leaderboard_rows import load_rows, sample_of_row
    from crb_core.bootstrap import Bootstrap
    from crb_core.errors import InputError
    from crb_core.identity import differences
    from crb_core.strata import Subset
    from crb_core.usage import token_problem, usage_summary

    subset = Subset.parse(
        severity=severity,
        category=category,
        scope=scope,
        difficulty=difficulty,
        context_required=context_required,
        actionability=actionability,
        producer=producer,
    )
    about = load_rows(
        sweep,
        judge,
        beta=beta,
        subset=subset,
        allow_partial=allow_partial,
        profile=profile,
        no_dedup=no_dedup,
    )
    rows = [about.named(name) for name in (one, other)]
    if rows[0].build == rows[1].build:
        raise InputError(f"{one} and {other} are the same build", remedy="Name two")
    mixed = {
        name: values
        for name, values in differences(rows[0].identity, rows[1].identity).items()
        if name in {"corpus_fingerprint", "protocol", "judge", "harness"}
    }
    if mixed:
        fields = "; ".join(f"{name}: {left!r} and {right!r}" for name, (left, right) in mixed.items())
        raise InputError(f"{one} and {other} were not measured in the same way: {fields}")
    bootstrap = Bootstrap()
    samples = [sample_of_row(row, beta) for row in rows]
    found = [
        bootstrap.compare(samples[0], samples[1], metric, level)
        for level in ("macro", "micro")
        for metric in about.metrics
    ]
    used = [usage_summary([trial.usage for trial in row.trials if trial.scored]) for row in rows]
    problem = token_problem(*used)
    totals = [summary.metrics["total_tokens"].mean for summary in used]
    if as_json:
        print_json(
            {
                "format": "crb.comparison/1",
                **about.to_json(),
                "beta": beta,
                "subset": subset.to_json(),
                **{
                    side: {"agent": row.build.agent, "build": row.build.build_id, "marks": list(row.marks)}
                    for side, row in zip(("one", "other"), rows, strict=True)
                },
                "uncertainty": bootstrap.to_json(),
                "comparisons": [each.model_dump(mode="json") for each in found],
                "tokens_per_review": {
                    "one": totals[0],
                    "other": totals[1],
                    "comparable": problem is None,
                    "reason": problem,
                },
            }
        )
        return
    first = found[0]
    console.print(
        plain(
            f"{rows[0].build.agent} minus {rows[1].build.agent}: sweep {about.sweep_name}, judge {about.judge.name}, "
            f"{first.pull_requests} pull requests, rounds {', '.join(map(str, first.rounds)) or 'none'}"
        )
    )
    if about.counting:
        console.print(about.counting_words(), style="dim")
    table = Table(box=None, pad_edge=False)
    for title in ("", "metric", "difference", "95%", "p"):
        table.add_column(title, justify="left" if title in {"", "metric"} else "right")
    for each in found:
        table.add_row(
            each.level,
            each.metric,
            Text("–", style="dim") if each.difference is None else f"{each.difference:+.3f}",
            "" if each.low is None or each.high is None else f"{each.low:+.2f} to {each.high:+.2f}",
            "" if each.p is None else f"{each.p:.4f}",
        )
    console.print(table)
    kind = "all exchanges" if first.exact else f"{bootstrap.resamples} random exchanges"
    console.print(Text(f"p: exchange of both results of a pull request, two-sided, {kind}; unadjusted.", style="dim"))
    for reason in dict.fromkeys(each.reason for each in found if each.reason):
        console.print(Text(f"–: {reason}", style="dim"))
    if problem is not None:
        console.print(plain(f"Token totals cannot be compared: {problem}."), style="dim")


def submit(
    sweep: Annotated[str, typer.Argument(help="Name or id of the sweep.")],
    agent: Annotated[str, typer.Option(help="Agent, or build id.")],
    out: Annotated[Path, typer.Option(help="File to write; it must not be there yet.")],
    judge: Annotated[
        str | None, typer.Option(help="Judge by name or fingerprint; needed where the sweep has several.")
    ] = None,
    beta: filters.Beta = 1.0,
    uncalibrated: Annotated[
        bool, typer.Option("--uncalibrated", help="State that the judge has not been calibrated.")
    ] = False,
) -> None:
    """Write a submission: the row, its component runs, and the criteria that it was checked against."""
    from crb_cli.leaderboard import open_sweep
    from crb_core.bootstrap import Bootstrap
    from crb_core.errors import InputError, Where
    from crb_core.leaderboard import leaderboard, row_named
    from crb_core.store.boards import judge_json
    from crb_core.store.results import sweep_judges
    from crb_core.submission import criteria, submission

    store, about = open_sweep(sweep, judge)
    with store.read() as connection:
        judges = [each.name for each in sweep_judges(connection, about.sweep_id)]
    if judge is None and len(judges) > 1:
        raise InputError("The sweep has several judges", remedy=f"Name one with --judge: {', '.join(judges)}")
    board = leaderboard(about.measured(), beta=beta, bootstrap=Bootstrap())
    row = row_named(board.rows, agent)
    known = judge_json(about.judge)
    checked = criteria(
        row,
        corpus_pull_requests=about.corpus_pull_requests,
        calibration=known["calibration"],
        said_uncalibrated=uncalibrated,
    )
    document = submission(
        row,
        checked,
        {
            "sweep": about.sweep_name,
            "sweep_id": about.sweep_id,
            "corpus": about.corpus,
            "corpus_version": about.corpus_version,
            "corpus_fingerprint": about.corpus_fingerprint,
            "protocol": about.protocol,
            "beta": board.beta,
            "judge": known | {"document": about.judge.document, "calibrated": known["calibration"] is not None},
            "uncertainty": Bootstrap().to_json(),
        },
    )
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n"
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("the file is already there", where=Where(file=str(out)), remedy="Name another --out") from None
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", where=Where(file=str(out))) from None
    console.print(plain(f"Wrote the submission of {row.build.agent} ({row.identity.sha256}) to {out}."), soft_wrap=True)
