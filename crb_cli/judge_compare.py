"""``crb judge compare``: the leaderboard under every judge of a sweep side by side, and how far the judges agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from crb_cli.judge_calibrate import figure, interval
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.row_names import row_names
from crb_core.calibration_words import calibration_words

if TYPE_CHECKING:
    from crb_core.store import Store
    from crb_core.store.results import StoredJudge

__all__ = ["chosen_judges", "compare", "print_pairs"]


def compare(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge by name or fingerprint (repeatable); all of the sweep's by default.")
    ] = None,
    beta: Annotated[float, typer.Option(min=0.1, max=10, help="Weight of recall in F.")] = 1.0,
    profile: Annotated[
        str | None, typer.Option(help="golden-comments: strict, core (default), all, or none for no profile.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print each agent's scores under every judge, and the agreement of each pair of judges, by question and axis."""
    from crb_cli.golden_comments import refuse_options
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.judge_comparison import comparison_json

    store = open_store(load_settings().resolved_store_url)
    try:
        sweep_id, protocol, judges = chosen_judges(store, sweep, judge)
        if protocol != "golden-comments":
            refuse_options(protocol, compatible=False, profile=profile, no_dedup=False)
        document = comparison_json(store, sweep_id, protocol, judges, beta=beta, profile=profile)
    finally:
        store.close()
    if as_json:
        print_json(document)
        return
    _print_scores(judges, [each["rows"] for each in document["judges"]], beta)
    print_pairs(document["agreement"])
    for each in document["judges"]:
        if each["ties"]:
            _print_ties(each["name"], each["ties"])


def chosen_judges(store: Store, sweep: str | None, names: Sequence[str] | None) -> tuple[str, str, list[StoredJudge]]:
    """Sweep id, protocol and judges; InputError under two judges, because there is nothing to compare."""
    from crb_core.store.boards import chosen_sweep
    from crb_core.store.judge_comparison import require_two
    from crb_core.store.results import find_judge, sweep_judges

    sweep_id, protocol = chosen_sweep(store, sweep, None)
    with store.read() as connection:
        every = sweep_judges(connection, sweep_id)
        judges = [find_judge(connection, sweep_id, name) for name in names] if names else every
    return sweep_id, protocol, require_two(judges)


def _print_scores(judges: Sequence[StoredJudge], scores: Sequence[Sequence[dict[str, Any]]], beta: float) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("agent", overflow="fold")
    for place, judge in enumerate(judges):
        table.add_column(plain(judge.name), justify="right", overflow="fold", header_style="" if place else "bold")
    # A build a judge, as with imported extractions, is one line an agent.
    alone = all(len({row["agent"] for row in rows}) == len(rows) for rows in scores)
    name = "agent" if alone else "build"
    by_build = [{row[name]: row for row in rows} for rows in scores]
    builds = {row[name]: row["agent"] for rows in scores for row in rows}
    names = row_names((agent, build) for build, agent in builds.items())
    for build in builds:
        cells = []
        for rows in by_build:
            row = rows.get(build)
            rank = "" if row is None or row["rank"] is None else f" #{row['rank']}"
            cells.append("" if row is None else f"{figure(row['f'])}{rank}")
        table.add_row(plain(names[build]), *cells)
    console.print(table)
    console.print(Text(f"F{beta:g} as the leaderboard has it, with the rank under that judge.", style="dim"))
    for judge in judges:
        words = calibration_words(judge.calibration)
        console.print(plain(f"{judge.name} ({judge.judge_id}): {words}"), style="dim", soft_wrap=True)


def print_pairs(pairs: Sequence[dict[str, Any]]) -> None:
    """The agreement of each pair of judges, one line a question."""
    from crb_core.store.judge_comparison import QUESTIONS

    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("judges", overflow="fold")
    table.add_column("question", overflow="fold")
    for title in ("n", "equal", "kappa", "95%"):
        table.add_column(title, justify="right", no_wrap=True)
    for pair in pairs:
        rows = [(QUESTIONS[name], pair[name]) for name in QUESTIONS] + [*pair["axes"].items()]
        for place, (question, found) in enumerate(rows):
            table.add_row(
                plain(" and ".join(pair["judges"])) if place == 0 else "",
                question,
                str(found["n"]),
                figure(found["raw"]),
                figure(found["kappa"]),
                interval(found["kappa_low"], found["kappa_high"]),
            )
    console.print(table)


#: Ties that the terminal names; --json has all.
_NAMED = 10


def _print_ties(judge: str, ties: Sequence[dict[str, Any]]) -> None:
    console.print()
    console.print(plain(f"{judge}: {len(ties)} questions without a strict majority"), style="bold")
    for tie in ties[:_NAMED]:
        what = f"golden {tie['golden']}" if tie["golden"] is not None else tie["axis"]
        votes = ", ".join(f"{name} {vote}" for name, vote in tie["votes"].items())
        console.print(
            plain(
                f"  {tie['agent']} on {tie['pull_request']}, round {tie['round']}: "
                f"finding {tie['candidate']}, {what}: {votes}"
            ),
            soft_wrap=True,
        )
    if len(ties) > _NAMED:
        console.print(f"  and {len(ties) - _NAMED} more, all with --json", style="dim")
