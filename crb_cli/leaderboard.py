"""``crb leaderboard``: the rows of a sweep under one judge or several, and what else is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from crb_cli import filters, leaderboard_commands, leaderboard_insight
from crb_cli.leaderboard_table import print_leaderboard
from crb_cli.output import JsonFlag, print_json
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.ablation import Exclusion
    from crb_core.leaderboard import Leaderboard
    from crb_core.rows import Measured
    from crb_core.store import Store
    from crb_core.store.measured import StoredSweep
    from crb_core.store.results import StoredJudge, SweepResults
    from crb_core.strata import Subset

__all__ = [
    "app",
    "board_json",
    "build_leaderboard",
    "chosen_sweep",
    "judge_json",
    "leaderboard",
    "load_board",
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
    beta: filters.Beta = 1.0,
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
    sort: Annotated[
        str | None, typer.Option(help="Macro metric that ranks the rows; the protocol's F by default.")
    ] = None,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Also average incomplete rounds; such rows are not ranked.")
    ] = False,
    pull_requests: Annotated[
        bool, typer.Option("--pull-requests/--no-pull-requests", help="With --json: every pull request's metrics.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Print precision, recall and F, macro and micro, with 95% intervals and duration, over the rounds.

    Rows that share a letter cannot be told apart.
    """
    from crb_cli import golden_comments
    from crb_core.errors import InputError
    from crb_core.store import open_store
    from crb_core.strata import Subset

    store = open_store(load_settings().resolved_store_url)
    subset = Subset.parse(
        severity=severity,
        category=category,
        scope=scope,
        difficulty=difficulty,
        context_required=context_required,
        actionability=actionability,
        producer=producer,
    )
    sweep_id, sweep_protocol = chosen_sweep(store, sweep, protocol)
    if sweep_protocol == golden_comments.PROTOCOL:
        if exclude_producer:
            raise InputError("--exclude-producer is for protocols with claims; this sweep is of golden-comments")
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
        )
        for each in _judges(store, sweep_id, judge)
    ]
    if as_json:
        print_json(
            {
                "leaderboards": [
                    board_json(board, about, excluded, pull_requests=pull_requests) for board, about, excluded in boards
                ]
            }
        )
        return
    for board, about, excluded in boards:
        print_leaderboard(board, about, excluded)


def _judges(store: Store, sweep_id: str, names: Sequence[str] | None) -> list[StoredJudge]:
    from crb_core.errors import InputError
    from crb_core.store.results import find_judge, sweep_judges

    with store.read() as connection:
        found = (
            [find_judge(connection, sweep_id, name) for name in names] if names else sweep_judges(connection, sweep_id)
        )
    if not found:
        raise InputError("The sweep has no judge", remedy="Judge it with `crb judge run`")
    return found


def open_sweep(sweep: str | None, judge: str | None) -> tuple[Store, StoredSweep]:
    """The store, and a sweep of a protocol with claims under one judge."""
    from crb_core.store import open_store
    from crb_core.store.measured import load_sweep

    store = open_store(load_settings().resolved_store_url)
    sweep_id, _ = chosen_sweep(store, sweep, None)
    chosen = _judges(store, sweep_id, [judge] if judge else None)[0]
    with store.read() as connection:
        return store, load_sweep(connection, sweep_id, chosen)


def load_board(
    store: Store,
    sweep_id: str,
    judge: StoredJudge,
    *,
    beta: float = 1.0,
    subset: Subset | None = None,
    sort: str | None = None,
    allow_partial: bool = False,
    exclude_producers: Sequence[str] = (),
) -> tuple[Leaderboard, StoredSweep, Exclusion | None]:
    """A sweep's leaderboard under one judge, computed anew from what is stored."""
    from crb_core.ablation import check_prefixes
    from crb_core.bootstrap import Bootstrap
    from crb_core.leaderboard import leaderboard as compute
    from crb_core.store.measured import load_sweep
    from crb_core.store.results import oversubscribed_builds
    from crb_core.strata import EVERYTHING

    with store.read() as connection:
        about = load_sweep(connection, sweep_id, judge)
        oversubscribed = oversubscribed_builds(connection, sweep_id)
    prefixes = check_prefixes(exclude_producers)
    excluded = about.exclusion(prefixes) if prefixes else None
    measured = about.measured(prefixes)
    _check_subset(subset, measured)
    board = compute(
        measured,
        beta=beta,
        subset=subset or EVERYTHING,
        sort=sort,
        allow_partial=allow_partial,
        bootstrap=Bootstrap(),
        oversubscribed=oversubscribed,
    )
    return board, about, excluded


def _check_subset(subset: Subset | None, measured: Measured) -> None:
    from crb_core.protocols import protocol_named

    if subset is not None:
        protocol_named(measured.protocol).check_subset(subset)
        filters.check_producers(subset, measured.arrays.producers)


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
    from crb_core.store.results import load_results

    board, _, _ = load_board(store, sweep_id, judge, beta=beta, subset=subset, sort=sort, allow_partial=allow_partial)
    with store.read() as connection:
        return board, load_results(connection, sweep_id, judge)


def judge_json(judge: StoredJudge) -> dict[str, Any]:
    """The judge with what is known of its calibration; None where it was not calibrated."""
    return {
        "name": judge.name,
        "fingerprint": judge.judge_id,
        "classifies": judge.classifies,
        "calibration": judge.calibration,
    }


def board_json(
    board: Leaderboard,
    about: StoredSweep | SweepResults,
    excluded: Exclusion | None = None,
    *,
    pull_requests: bool = True,
) -> dict[str, object]:
    """``crb.leaderboard/1`` with what it was computed from."""
    return {
        "sweep": about.sweep_name,
        "sweep_id": about.sweep_id,
        "corpus": about.corpus,
        "corpus_fingerprint": about.corpus_fingerprint,
        "protocol": about.protocol,
        "judge": judge_json(about.judge),
        "excluded_producers": None if excluded is None else excluded.model_dump(mode="json"),
        **board.to_json(pull_requests=pull_requests),
    }


def chosen_sweep(store: Store, reference: str | None, protocol: str | None) -> tuple[str, str]:
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


app.command("compare")(leaderboard_commands.compare)
app.command("distributions")(leaderboard_insight.distributions)
app.command("usage")(leaderboard_insight.usage)
app.command("ablation")(leaderboard_insight.ablation)
app.command("submit")(leaderboard_commands.submit)
