"""``crb leaderboard compare`` and ``crb leaderboard submit``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from crb_cli import filters
from crb_cli.new_file import new_file
from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["compare", "submit"]


def compare(
    agents: Annotated[list[str], typer.Argument(help="Two to four agents, or build ids.")],
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
    """Compare agents on the same pull requests: difference, 95% interval, and p of an exchange test.

    --json also has strata, single pull requests, what only one of them found, and each one's rounds.
    """
    from crb_cli.leaderboard_rows import counting_words, load_rows
    from crb_core.store.comparisons import comparison_json
    from crb_core.strata import Subset

    subset = Subset.parse(
        severity=severity,
        category=category,
        scope=scope,
        difficulty=difficulty,
        context_required=context_required,
        actionability=actionability,
        producer=producer,
    )
    found = load_rows(
        sweep,
        judge,
        beta=beta,
        subset=subset,
        allow_partial=allow_partial,
        profile=profile,
        no_dedup=no_dedup,
    )
    document = comparison_json(found.store, found.loaded, agents, found.rows.options)
    if as_json:
        print_json(document)
        return
    if found.rows.counting:
        console.print(counting_words(found.rows), style="dim")
    names = {build["build"]: build["agent"] for build in document["builds"]}
    for pair in document["pairs"]:
        _print_pair(pair, names, document)
    for each in document["found_by"]["only"]:
        console.print(
            plain(
                f"Only {names[each['build']]} covers {len(each['findings'])} of "
                f"{document['found_by']['golden_tp']} golden true positives."
            ),
            soft_wrap=True,
        )


def _print_pair(pair: Mapping[str, Any], names: Mapping[str, str], document: Mapping[str, Any]) -> None:
    first = pair["comparisons"][0]
    console.print(
        plain(
            f"{names[pair['one']]} minus {names[pair['other']]}: sweep {document['sweep']}, "
            f"judge {document['judge']['name']}, {first['pull_requests']} pull requests, "
            f"rounds {', '.join(map(str, first['rounds'])) or 'none'}"
        )
    )
    table = Table(box=None, pad_edge=False)
    for title in ("", "metric", "difference", "95%", "p"):
        table.add_column(title, justify="left" if title in {"", "metric"} else "right")
    for each in pair["comparisons"]:
        table.add_row(
            each["level"],
            each["metric"],
            Text("–", style="dim") if each["difference"] is None else f"{each['difference']:+.3f}",
            "" if each["low"] is None else f"{each['low']:+.2f} to {each['high']:+.2f}",
            "" if each["p"] is None else f"{each['p']:.4f}",
        )
    console.print(table)
    resamples = document["uncertainty"]["resamples"]
    kind = "all exchanges" if first["exact"] else f"{resamples} random exchanges"
    console.print(Text(f"p: exchange of both results of a pull request, two-sided, {kind}; unadjusted.", style="dim"))
    if document["uncertainty"]["caution"] is not None:
        console.print(Text(f"{document['uncertainty']['caution']}.", style="yellow"))
    for reason in dict.fromkeys(each["reason"] for each in pair["comparisons"] if each["reason"]):
        console.print(Text(f"–: {reason}", style="dim"))
    if not pair["tokens"]["comparable"]:
        console.print(plain(f"Token totals cannot be compared: {pair['tokens']['reason']}."), style="dim")


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
    from crb_core.errors import InputError
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
            "uncertainty": Bootstrap().to_json(board.pull_requests),
        },
    )
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n"
    with new_file(out) as file:
        file.write(text)
    console.print(plain(f"Wrote the submission of {row.build.agent} ({row.identity.sha256}) to {out}."), soft_wrap=True)
