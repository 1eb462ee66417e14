"""``crb leaderboard``: the rows of a sweep under one judge or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.distribution import AcrossRounds
    from crb_core.leaderboard import Leaderboard, Row
    from crb_core.store import Store
    from crb_core.store.results import StoredJudge, SweepResults
    from crb_core.strata import Subset

__all__ = ["build_leaderboard", "leaderboard", "print_leaderboard"]


def leaderboard(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge by name or fingerprint (repeatable); all of the sweep's by default.")
    ] = None,
    severity: Annotated[list[str] | None, typer.Option(help="Only findings of this severity (repeatable).")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Only findings of this category (repeatable).")] = None,
    beta: Annotated[float, typer.Option(help="Beta of the F score, 0.1 to 10; below 1 favours precision.")] = 1.0,
    protocol: Annotated[
        str | None, typer.Option(help="The newest sweep of this protocol; a named sweep must be of it.")
    ] = None,
    compatible: Annotated[
        bool, typer.Option("--compatible", help="golden-comments: count as the public tool does, not strictly.")
    ] = False,
    profile: Annotated[
        str | None, typer.Option(help="golden-comments: strict, core (default), all, or none for no profile.")
    ] = None,
    no_dedup: Annotated[
        bool, typer.Option("--no-dedup", help="golden-comments: count every candidate, not every dedup group.")
    ] = False,
    sort: Annotated[str, typer.Option(help="Macro metric that ranks the rows.")] = "grounded_f",
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Also average incomplete rounds; such rows are not ranked.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print grounded and augmented precision and recall, macro and micro, with duration, over the rounds."""
    from crb_cli import golden_comments
    from crb_core.store import open_store
    from crb_core.store.results import find_judge, sweep_judges
    from crb_core.strata import Subset

    store = open_store(load_settings().resolved_store_url)
    subset = Subset.parse(severity=severity, category=category)
    sweep_id, sweep_protocol = _sweep(store, sweep, protocol)
    if sweep_protocol == golden_comments.PROTOCOL:
        golden_comments.leaderboard(
            store,
            sweep_id,
            judges=judge or (),
            options=golden_comments.Options(
                compatible=compatible,
                profile=profile,
                dedup=not no_dedup,
                beta=beta,
                subset=subset,
                partial=allow_partial,
            ),
            as_json=as_json,
        )
        return
    golden_comments.refuse_options(sweep_protocol, compatible=compatible, profile=profile, no_dedup=no_dedup)
    with store.read() as connection:
        judges = (
            [find_judge(connection, sweep_id, name) for name in judge] if judge else sweep_judges(connection, sweep_id)
        )
    boards = [
        build_leaderboard(store, sweep_id, each, beta=beta, subset=subset, sort=sort, allow_partial=allow_partial)
        for each in judges
    ]
    if as_json:
        print_json({"leaderboards": [board_json(board, results) for board, results in boards]})
        return
    for board, results in boards:
        print_leaderboard(board, results)


def build_leaderboard(
    store: Store,
    sweep_id: str,
    judge: StoredJudge,
    *,
    beta: float = 1.0,
    subset: Subset | None = None,
    sort: str = "grounded_f",
    allow_partial: bool = False,
) -> tuple[Leaderboard, SweepResults]:
    """A sweep's leaderboard under one judge, computed anew from what is stored."""
    from crb_core.identity import RowIdentity
    from crb_core.leaderboard import Trial
    from crb_core.leaderboard import leaderboard as compute
    from crb_core.store.results import load_results
    from crb_core.strata import EVERYTHING

    with store.read() as connection:
        results = load_results(connection, sweep_id, judge)
    board = compute(
        [
            (
                build,
                RowIdentity.of_build(
                    build,
                    corpus_fingerprint=results.corpus_fingerprint,
                    protocol=results.protocol,
                    judge=judge.judge_id,
                ),
                [
                    Trial(
                        pull_request=trial.pull_request,
                        round=trial.round,
                        judged=trial.judged,
                        review_ms=trial.review_ms,
                        succeeded=trial.succeeded,
                        problem=trial.problem,
                        duration_seconds=trial.duration_seconds,
                    )
                    for trial in results.trials
                    if trial.build_id == build.build_id
                ],
            )
            for build in results.builds
        ],
        beta=beta,
        subset=subset or EVERYTHING,
        sort=sort,
        allow_partial=allow_partial,
    )
    return board, results


def board_json(board: Leaderboard, results: SweepResults) -> dict[str, object]:
    """``crb.leaderboard/1`` with what it was computed from."""
    return {
        "sweep": results.sweep_name,
        "sweep_id": results.sweep_id,
        "corpus": results.corpus,
        "corpus_fingerprint": results.corpus_fingerprint,
        "protocol": results.protocol,
        "judge": {
            "name": results.judge.name,
            "fingerprint": results.judge.judge_id,
            "classifies": results.judge.classifies,
        },
        **board.to_json(),
    }


def print_leaderboard(board: Leaderboard, results: SweepResults) -> None:
    """The table for a terminal of 80 columns: macro and micro lines a row, mean ± sample standard deviation."""
    console.print()
    console.print(
        Text.assemble(
            ("Leaderboard ", "bold"),
            f"of sweep {results.sweep_name}, corpus {results.corpus}, protocol {results.protocol}, "
            f"judge {results.judge.name} ({results.judge.judge_id})",
        ),
        soft_wrap=False,
    )
    if board.subset.restricted:
        console.print(plain(f"only {board.subset.to_json()}"))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("#", justify="right")
    table.add_column("agent", overflow="fold")
    table.add_column("")
    for title in ("precision", "recall", f"F{board.beta:g}", "aug. prec.", "aug. rec."):
        table.add_column(title, justify="right")
    table.add_column("s", justify="right")
    for row in board.rows:
        for line in _lines(row):
            table.add_row(*line)
    console.print(table)
    for note in _notes(board, results):
        console.print(note)


def _lines(row: Row) -> list[tuple[Text | str, ...]]:
    spent = "" if row.duration.mean_ms is None else f"{row.duration.mean_ms / 1000:.2f}"
    deviation = "" if row.duration.std_ms is None else f"±{row.duration.std_ms / 1000:.2f}"
    shown = ("grounded_precision", "grounded_recall", "grounded_f", "augmented_precision", "augmented_recall")
    return [
        (
            "-" if row.rank is None else str(row.rank),
            plain(row.build.agent),
            "macro",
            *(_value(row.macro[name]) for name in shown),
            spent,
        ),
        (
            "",
            Text(f"{row.macro['grounded_f'].scored}/{row.macro['grounded_f'].planned} trials", style="dim"),
            "micro",
            *(_value(row.micro[name]) for name in shown),
            Text(deviation, style="dim"),
        ),
    ]


def _value(value: AcrossRounds) -> Text:
    if value.mean is None:
        return Text("–", style="dim")
    deviation = "" if value.std is None else f"±{value.std:.2f}".replace("±0.", "±.")
    return Text.assemble(f"{value.mean:.2f}", (deviation, "dim"))


def _notes(board: Leaderboard, results: SweepResults) -> list[Text]:
    used = sorted({number for row in board.rows for number in row.macro["grounded_f"].used})
    notes = [
        Text(
            f"Mean of {len(used)} round{'s' if len(used) != 1 else ''} ± sample standard deviation; "
            f"s: seconds a review. Ranked by macro {board.sort}.",
            style="dim",
        )
    ]
    marks: dict[str, list[str]] = {}
    for row in board.rows:
        for mark in row.marks:
            marks.setdefault(mark, []).append(row.build.agent)
    meanings = {
        "recorded": "replays scripted reviews, no real reviewer",
        "not isolated": "ran as processes of this machine, without a container",
    }
    for mark, agents in marks.items():
        meaning = f" ({meanings[mark]})" if mark in meanings else ""
        notes.append(Text.assemble((f"{mark}", "yellow"), f"{meaning}: {', '.join(agents)}"))
    unclassified = sum(row.counts.get("unclassified_count", 0) for row in board.rows)
    if unclassified:
        why = "has not labelled yet" if results.judge.classifies else "does not classify"
        notes.append(
            Text(
                f"–: undefined. Judge {results.judge.name} {why} {unclassified} unmatched findings, so the augmented "
                "metrics are undefined, not 0.",
                style="dim",
            )
        )
    return notes


def _sweep(store: Store, reference: str | None, protocol: str | None) -> tuple[str, str]:
    """Id and protocol of a named sweep, or of the newest one (of ``protocol``)."""
    from sqlalchemy import select

    from crb_core.errors import InputError
    from crb_core.protocols import protocol_named
    from crb_core.store.sweeps import find_sweep
    from crb_core.store.tables import CorpusRow, SweepRow, core

    sweeps, corpora = core(SweepRow), core(CorpusRow)
    if protocol is not None:
        protocol_named(protocol)
    query = select(sweeps.c.id, sweeps.c.name, corpora.c.protocol).join(corpora, corpora.c.id == sweeps.c.corpus_id)
    with store.read() as connection:
        if reference is not None:
            query = query.where(sweeps.c.id == find_sweep(connection, reference).id)
        elif protocol is not None:
            query = query.where(corpora.c.protocol == protocol)
        row = connection.execute(query.order_by(sweeps.c.created_at.desc(), sweeps.c.id).limit(1)).one_or_none()
    if row is None:
        of = f" of the protocol {protocol}" if protocol is not None else ""
        raise InputError(
            f"The store has no sweep{of} yet",
            remedy="Start one with `crb sweep start` or `crb demo`, or import one with `crb sweep import`",
        )
    if protocol is not None and row.protocol != protocol:
        raise InputError(
            f"The sweep {row.name} is of the protocol {row.protocol}, not {protocol}",
            remedy="Leave --protocol out or name another sweep",
        )
    return str(row.id), str(row.protocol)
