"""The leaderboard of a golden-comments sweep: ``crb leaderboard`` hands over to this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from crb_cli.leaderboard_table import dimension_words
from crb_cli.output import console, plain, print_json
from crb_cli.row_names import row_names
from crb_core.calibration_words import trust_words
from crb_core.store.comment_boards import COUNTING, PROTOCOL, Options, board_json, build_rows

if TYPE_CHECKING:
    from crb_core.comment_rows import CommentRow
    from crb_core.store import Store
    from crb_core.store.comment_boards import LoadedComments
    from crb_core.store.pull_request_diffs import PullRequestDiffs
    from crb_core.store.results import StoredJudge

__all__ = ["PROTOCOL", "Options", "build_rows", "chosen_judges", "leaderboard", "refuse_options"]


def refuse_options(protocol: str, *, compatible: bool, profile: str | None, no_dedup: bool) -> None:
    """Refuse this protocol's own options for a sweep of another one."""
    from crb_core.errors import InputError

    for name, is_given in (("--compatible", compatible), ("--profile", profile is not None), ("--no-dedup", no_dedup)):
        if is_given:
            raise InputError(
                f"{name} belongs to the protocol {PROTOCOL}, and this sweep is of {protocol}",
                remedy=f"Leave {name} out or name another sweep",
            )


def chosen_judges(store: Store, sweep_id: str, names: Sequence[str]) -> list[StoredJudge]:
    """The named judges of a sweep, or all; a recorded model's own name will do too."""
    from crb_core.store.results import find_judge, sweep_judges

    with store.read() as connection:
        every = sweep_judges(connection, sweep_id)
        known = {name for each in every for name in (each.name, each.judge_id)}
        # The folder of a recorded model has _ for /.
        return (
            [find_judge(connection, sweep_id, name if name in known else name.replace("/", "_")) for name in names]
            if names
            else every
        )


def leaderboard(
    store: Store,
    sweep_id: str,
    *,
    judges: Sequence[str],
    options: Options,
    diffs: PullRequestDiffs | None,
    beside: bool,
    as_json: bool,
) -> None:
    """Print the rows of all judges, or of those named; ``beside`` each other if wanted."""
    from crb_cli.side_by_side import comment_rows, side_by_side
    from crb_core.bootstrap import Bootstrap

    options.check()
    bootstrap = Bootstrap()
    boards = [
        (judge, *build_rows(store, sweep_id, judge, options, bootstrap, diffs=diffs))
        for judge in chosen_judges(store, sweep_id, judges)
    ]
    if not boards:
        from crb_core.errors import InputError

        raise InputError("The sweep has no judgments", remedy="Judge it with `crb judge run`")
    if beside:
        side_by_side(
            sweep_id,
            PROTOCOL,
            [(judge, comment_rows(rows)) for judge, rows, _ in boards],
            beta=options.beta,
            filters={
                **options.subset.to_json(),
                "profile": options.chosen_profile,
                "compatible": options.compatible,
                "dimensions": options.pull_requests.to_json(),
            },
            as_json=as_json,
        )
        return
    if as_json:
        print_json(board_json([(judge, rows) for judge, rows, _ in boards], boards[0][2], options))
        return
    for judge, rows, loaded in boards:
        _print(judge, rows, loaded, options)


def _print(judge: StoredJudge, rows: Sequence[CommentRow], loaded: LoadedComments, options: Options) -> None:
    results = loaded.results
    console.print()
    console.print(
        Text.assemble(
            ("Leaderboard ", "bold"),
            plain(
                f"of sweep {results.sweep_name}, corpus {results.corpus}, protocol {PROTOCOL}, "
                f"judge {judge.name} ({judge.judge_id}, {trust_words(judge.calibration, judge.stale)})"
            ),
        )
    )
    console.print(plain(f"Counting {COUNTING[options.compatible]}."), style="dim")
    if not options.compatible:
        profile = options.chosen_profile or "none"
        console.print(plain(f"profile {profile}, beta {options.beta:g}, {_dedup_words(rows, options)}"), style="dim")
    if options.pull_requests.dimensions:
        console.print(plain(f"only pull requests of {dimension_words(options.pull_requests, loaded.dimensions)}"))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("#", justify="right")
    table.add_column("agent", overflow="fold")
    for title in ("tp", "fp", "fn", "precision", "recall", f"F{options.beta:g}", "macro F1", "reviews"):
        table.add_column(title, justify="right")
    table.add_column("", overflow="fold", max_width=3)
    names = row_names((row.build.agent, row.build.build_id) for row in rows)
    for row in rows:
        figures = row.figures
        planned = f"/{figures['planned']}" if "planned" in figures else ""
        table.add_row(
            "-" if row.rank is None else str(row.rank),
            plain(names[row.build.build_id]),
            *("–" if figures[name] is None else str(figures[name]) for name in ("tp", "fp", "fn")),
            *(
                "–" if figures[name] is None else f"{figures[name]:.4f}"
                for name in ("precision", "recall", "f", "macro_f1")
            ),
            f"{figures['reviews']}{planned}",
            row.letters or "",
        )
        if figures.get("intervals"):
            table.add_row(
                *("", "", "", "", Text("95%", style="dim")),
                *(
                    Text(_bounds(figures["intervals"]["micro"][name]), style="dim")
                    for name in ("precision", "recall", "f")
                ),
                *("", "", ""),
            )
    console.print(table)
    if any(row.letters for row in rows):
        from crb_core.bootstrap import caution

        console.print("95%: bootstrap over pull requests. Rows that share a letter cannot be told apart.", style="dim")
        warning = caution(max(len(row.sample.keys) for row in rows if row.sample is not None))
        if warning is not None:
            console.print(f"{warning}.", style="yellow")
    marks: dict[str, list[str]] = {}
    for row in rows:
        for mark in row.marks:
            marks.setdefault(mark, []).append(row.build.agent)
    for mark, agents in marks.items():
        console.print(Text.assemble((mark, "yellow"), ": ", plain(", ".join(dict.fromkeys(agents)))))


def _dedup_words(rows: Sequence[CommentRow], options: Options) -> str:
    """Whether dedup groups are used, and how many reviews have any: without one nothing is deduplicated."""
    if not options.dedup:
        return "dedup off"
    grouped = sum(row.grouped for row in rows)
    return f"dedup on ({grouped} reviews have groups)" if grouped else "dedup on, but no review has groups"


def _bounds(interval: Mapping[str, Any]) -> str:
    """``.42–.71``; empty where there is no interval."""
    if interval["low"] is None:
        return ""
    return "–".join(
        "1.0" if bound >= 0.995 else f"{bound:.2f}".lstrip("0") for bound in (interval["low"], interval["high"])
    )
