"""``crb judge run``: judgments added to a sweep; no container runs again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from crb_cli.model_calls import FakeModel, fake_model_served, finite_cost
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.running import SOME_TRIALS_FAILED, FoundPlace, Place, find_a_place, go_on

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from crb_core.agent import AgentBuild
    from crb_core.corpus import Corpus
    from crb_core.settings import Settings
    from crb_core.store import Store
    from crb_core.store.sweeps import JudgePlan
    from crb_worker.judge.council import CouncilJudge

__all__ = ["Batch", "Desk", "MaxCost", "SweepName", "Target", "add_to_sweep", "find_target", "go_on_judging", "judging"]

SweepName = Annotated[str, typer.Argument(metavar="SWEEP", help="Name or id of the sweep.")]
MaxCost = Annotated[
    float | None,
    typer.Option(min=0, callback=finite_cost, help="List price in USD that the judges' calls may reach."),
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Ask models through the Message Batches API: half the price, within a day.")
]


def run(
    sweep: SweepName,
    judge: Annotated[list[str], typer.Option(help="Judge, with its options (repeatable).")],
    agent: Annotated[list[str] | None, typer.Option(help="Only reviews by this agent (repeatable).")] = None,
    max_cost: MaxCost = None,
    batch: Batch = False,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Judge the reviews of a sweep with further judges. No container runs again, and no judgment is made twice.

    ``council:judges=NAME+NAME`` is the strict majority of judges that judge the sweep, or are named before it.
    """
    from crb_worker.judge import asked_in_batches

    with judging(fake_model=fake_model) as desk:
        target = find_target(desk.store, sweep, agent)
        plans, new = add_to_sweep(desk, target, asked_in_batches(judge) if batch else judge, max_cost)
        judges = [{"name": plan.name, "fingerprint": plan.judge_id} for plan in plans]
        if as_json:
            print_json({"sweep": target.name, "judges": judges, "new_judgments": new})
        else:
            console.print(plain(f"sweep {target.name}: {new} new judgments"))
        go_on_judging(desk, target, quiet=as_json)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where judgments are added, and the place that works on them, which was found before anything was changed."""

    settings: Settings
    store: Store
    place: FoundPlace | None

    @property
    def works_here(self) -> bool:
        """Whether this command's own processes ask the models, so that their keys have to be here."""
        return self.place is not None and self.place.place is Place.HERE


@contextmanager
def judging(*, fake_model: bool, adds: bool = True) -> Iterator[Desk]:
    """The store, and the scripted model while the block runs.

    CrbError where judgments are to be added (``adds``) and nobody could work on them.
    """
    from crb_core.errors import InputError, Where
    from crb_core.settings import load_settings
    from crb_core.store import open_store

    with fake_model_served(wanted=fake_model):
        settings = load_settings()
        place = find_a_place(settings) if adds else None
        if fake_model and place is not None and place.place is not Place.HERE:
            raise InputError(
                "the scripted model answers this command only, and other processes work on this store's judgments",
                where=Where(field="--fake-model"),
                remedy="Leave it out, or judge in a home that no broker and no other run serves",
            )
        store = open_store(settings.resolved_store_url)
        try:
            yield Desk(settings=settings, store=store, place=place)
        finally:
            store.close()


@dataclass(frozen=True, kw_only=True)
class Target:
    """The sweep that is judged, and its builds that are. ``max_cost`` limits its judges' calls in USD."""

    sweep_id: str
    name: str
    max_cost: float | None
    corpus: Corpus
    builds: Sequence[AgentBuild]


def find_target(store: Store, sweep: str, agents: Sequence[str] | None = None) -> Target:
    """The sweep of a name or id with all its builds, or those of some agents; InputError when there are none."""
    from crb_core.store.corpora import load_corpus
    from crb_core.store.sweeps import builds_of_agent, find_sweep, sweep_builds

    with store.read() as connection:
        row = find_sweep(connection, sweep)
        wanted = {each for agent in agents or () for each in builds_of_agent(connection, row, agent)}
        return Target(
            sweep_id=row.id,
            name=row.name,
            max_cost=row.max_cost_usd,
            corpus=load_corpus(connection, row.corpus_id),
            builds=[each for each in sweep_builds(connection, row.id) if not agents or each.build_id in wanted],
        )


def add_to_sweep(
    desk: Desk, target: Target, specs: Sequence[str], max_cost: float | None
) -> tuple[list[JudgePlan], int]:
    """Add judges in their order, all or none; a council finds those before it.

    Returns the plans and how many judgments are new. UnavailableError where this command lacks the key of one,
    InputError where the sweep's cost is limited and a model has no price.
    """
    from crb_cli.judge_plans import judge_plan, open_judges
    from crb_core.store.sweeps import add_judges, set_max_cost
    from crb_worker.judge import judge_options
    from crb_worker.judge.council import CouncilJudge, named_council

    councils = [spec for spec in specs if judge_options(spec)[0] == CouncilJudge.kind]
    asked = [spec for spec in specs if spec not in councils]
    limit = max_cost if max_cost is not None else target.max_cost
    opened = open_judges(target.corpus, asked, work_here=desk.works_here, max_cost=limit)
    plans = [judge_plan(spec, judge, target.builds) for spec, judge in zip(asked, opened, strict=True)]
    ids = [build.build_id for build in target.builds]
    with desk.store.write() as connection:
        set_max_cost(connection, target.sweep_id, max_cost)
        new = add_judges(connection, target.sweep_id, plans, ids)
        for spec in councils:
            named, council = named_council(connection, target.sweep_id, spec)
            builds = _council_builds(connection, target, council)
            plan = replace(judge_plan(named, council, target.builds), builds=builds)
            new += add_judges(connection, target.sweep_id, [plan], ids)
            plans.append(plan)
    return plans, new


def _council_builds(connection: Connection, target: Target, council: CouncilJudge) -> frozenset[str]:
    """The builds that at least two members judge; a council has nothing to say of others."""
    from sqlalchemy import func, select

    from crb_core.errors import InputError
    from crb_core.store.tables import SweepJudgeRow, core

    rows = core(SweepJudgeRow)
    members = [member.judge_id for member in council.members]
    found = connection.execute(
        select(rows.c.build_id)
        .where(rows.c.sweep_id == target.sweep_id, rows.c.judge_id.in_(members))
        .group_by(rows.c.build_id)
        .having(func.count(rows.c.judge_id.distinct()) > 1)
    )
    builds = frozenset(found.scalars())
    if not builds:
        raise InputError(
            f"no agent of the sweep {target.name} is judged by two of the council's judges",
            remedy="Add its judges with crb judge run first",
        )
    return builds


def go_on_judging(desk: Desk, target: Target, *, quiet: bool) -> None:
    """Let what is new be worked on; where nothing waits, only say what failed."""
    from crb_cli.watch import print_failures
    from crb_scheduler.progress import read_progress

    with desk.store.read() as connection:
        progress = read_progress(connection, target.sweep_id)
    if not progress.finished:
        assert desk.place is not None
        go_on(desk.settings, desk.place, [target.name], quiet=quiet)
    elif progress.failures:
        if not quiet:
            print_failures(progress)
        raise typer.Exit(SOME_TRIALS_FAILED)
