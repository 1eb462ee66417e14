"""``crb leaderboard``: the rows of a sweep under one judge or several, and what else is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from crb_cli import filters, leaderboard_commands, leaderboard_insight
from crb_cli.leaderboard_table import print_leaderboard
from crb_cli.output import JsonFlag, print_json
from crb_cli.side_by_side import board_rows, side_by_side
from crb_cli.strata_table import print_strata
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.leaderboard import Leaderboard
    from crb_core.store import Store
    from crb_core.store.measured import StoredSweep
    from crb_core.store.results import StoredJudge, SweepResults
    from crb_core.strata import Subset

__all__ = [
    "app",
    "build_leaderboard",
    "chosen_sweep",
    "leaderboard",
    "open_sweep",
    "print_leaderboard",
]

#: What is printed without a sub-command, so that ``crb leaderboard SWEEP`` needs none.
DEFAULT = "show"


class _Group(TyperGroup):
    """Takes everything that is no sub-command as arguments of the default one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in {"--help", "-h"}):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    help="Print the leaderboard of a sweep; compare, submit, and look into cost and producers.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root() -> None:
    """Print the leaderboard of a sweep; compare, submit, and look into cost and producers."""


@app.command(DEFAULT)
def leaderboard(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge by name or fingerprint (repeatable); all of the sweep's by default.")
    ] = None,
    severity: filters.Severity = None,
    category: filters.Category = None,
    scope: filters.Scope = None,
    difficulty: filters.Difficulty = None,
    context_required: filters.ContextRequired = None,
    actionability: filters.Actionability = None,
    producer: filters.Producer = None,
    exclude_producer: filters.ExcludeProducer = None,
    dimension: filters.Dimension = None,
    beta: filters.Beta = 1.0,
    protocol: Annotated[
        str | None, typer.Option(help="The newest sweep of this protocol; a named sweep must be of it.")
    ] = None,
    compatible: Annotated[
        bool, typer.Option("--compatible", help="golden-comments: count as the public tool does, not strictly.")
    ] = False,
    profile: filters.Profile = None,
    no_dedup: filters.NoDedup = False,
    sort: Annotated[
        str | None, typer.Option(help="Macro metric that ranks the rows; the protocol's F by default.")
    ] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Also average incomplete rounds; such rows are not ranked.")
    ] = False,
    pull_requests: Annotated[
        bool, typer.Option("--pull-requests/--no-pull-requests", help="With --json: every pull request's metrics.")
    ] = True,
    beside: Annotated[
        bool, typer.Option("--side-by-side", help="Only precision, recall, F and rank, of several judges in one table.")
    ] = False,
    strata: Annotated[
        bool, typer.Option("--strata/--no-strata", help="Also the table by severity and category (--json has it).")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Print precision, recall and F, macro and micro, with 95% intervals and duration, over the rounds.

    Rows that share a letter cannot be told apart.
    """
    from crb_cli import golden_comments
    from crb_core.dimensions import PullRequestFilter
    from crb_core.errors import InputError
    from crb_core.store import open_store
    from crb_core.store.boards import board_json, chosen_judges, load_board
    from crb_core.store.pull_request_diffs import PullRequestDiffs
    from crb_core.strata import Subset

    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    subset = Subset.parse(
        severity=severity,
        category=category,
        scope=scope,
        difficulty=difficulty,
        context_required=context_required,
        actionability=actionability,
        producer=producer,
    )
    inside = PullRequestFilter.parse(dimension)
    diffs = PullRequestDiffs.of_settings(settings) if inside.dimensions else None
    sweep_id, sweep_protocol = chosen_sweep(store, sweep, protocol)
    if sweep_protocol == golden_comments.PROTOCOL:
        if exclude_producer:
            raise InputError("--exclude-producer is for protocols with claims; this sweep is of golden-comments")
        if sort not in {None, "f"}:
            raise InputError("--sort is for protocols with claims; rows of golden-comments are ranked by F")
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
                pull_requests=inside,
            ),
            diffs=diffs,
            beside=beside,
            as_json=as_json,
        )
        return
    golden_comments.refuse_options(sweep_protocol, compatible=compatible, profile=profile, no_dedup=no_dedup)
    judges = chosen_judges(store, sweep_id, judge)
    boards = [
        load_board(
            store,
            sweep_id,
            each,
            beta=beta,
            subset=subset,
            sort=sort,
            allow_partial=allow_partial,
            exclude_producers=exclude_producer or (),
            pull_requests=inside,
            diffs=diffs,
        )
        for each in judges
    ]
    if beside:
        side_by_side(
            sweep_id,
            sweep_protocol,
            [(each, board_rows(board)) for each, (board, _, _) in zip(judges, boards, strict=True)],
            beta=beta,
            filters={
                **subset.to_json(),
                "exclude_producer": sorted(exclude_producer or ()),
                "dimensions": inside.to_json(),
            },
            as_json=as_json,
        )
        return
    if as_json:
        print_json(
            {
                "leaderboards": [
                    board_json(
                        board,
                        loaded.about,
                        excluded,
                        dimensions=inside,
                        known=loaded.dimensions,
                        pull_requests=pull_requests,
                    )
                    for board, loaded, excluded in boards
                ]
            }
        )
        return
    for board, loaded, excluded in boards:
        print_leaderboard(board, loaded.about, excluded, inside, loaded.dimensions)
        if strata:
            print_strata(board)


def open_sweep(sweep: str | None, judge: str | None, *, no_comments: str | None = None) -> tuple[Store, StoredSweep]:
    """The store, and a sweep of a protocol with claims under one judge; ``no_comments`` says why it must be."""
    from crb_cli.golden_comments import PROTOCOL
    from crb_core.errors import InputError
    from crb_core.store import open_store
    from crb_core.store.boards import chosen_judges
    from crb_core.store.measured import load_sweep

    store = open_store(load_settings().resolved_store_url)
    sweep_id, protocol = chosen_sweep(store, sweep, None)
    if protocol == PROTOCOL and no_comments is not None:
        raise InputError(no_comments, remedy="Name a sweep of another protocol")
    chosen = chosen_judges(store, sweep_id, [judge] if judge else None)[0]
    with store.read() as connection:
        return store, load_sweep(connection, sweep_id, chosen)


def build_leaderboard(
    store: Store,
    sweep_id: str,
    judge: StoredJudge,
    *,
    beta: float = 1.0,
    subset: Subset | None = None,
    sort: str | None = None,
    allow_partial: bool = False,
) -> tuple[Leaderboard, SweepResults]:
    """A sweep's leaderboard under one judge, with every finding and judgment behind it."""
    from crb_core.store.boards import load_board
    from crb_core.store.results import load_results

    board, _, _ = load_board(store, sweep_id, judge, beta=beta, subset=subset, sort=sort, allow_partial=allow_partial)
    with store.read() as connection:
        return board, load_results(connection, sweep_id, judge)


def chosen_sweep(store: Store, reference: str | None, protocol: str | None) -> tuple[str, str]:
    """Id and protocol of a named sweep, or of the newest one (of ``protocol``)."""
    from crb_core.store import boards

    return boards.chosen_sweep(store, reference, protocol)


app.command("compare")(leaderboard_commands.compare)
app.command("distributions")(leaderboard_insight.distributions)
app.command("usage")(leaderboard_insight.usage)
app.command("ablation")(leaderboard_insight.ablation)
app.command("submit")(leaderboard_commands.submit)
