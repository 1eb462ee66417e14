"""``crb judge run`` and ``crb judge rejudge``: judgments added to a sweep; no container runs again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli.model_calls import finite_cost
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.agent import AgentBuild
    from crb_core.corpus import Corpus
    from crb_core.settings import Settings
    from crb_core.store import Store
    from crb_core.store.sweeps import JudgePlan
    from crb_worker.judge.base import Judge

__all__ = ["rejudge", "run"]

Sweep = Annotated[str, typer.Argument(help="Name or id of the sweep.")]
MaxCost = Annotated[
    float | None,
    typer.Option(min=0, callback=finite_cost, help="List price in USD that the judges' calls may reach."),
]


def run(
    sweep: Sweep,
    judge: Annotated[list[str], typer.Option(help="Judge, with its options (repeatable).")],
    max_cost: MaxCost = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge the reviews of a sweep with further judges. No container runs again, and no judgment is made twice.

    ``council:judges=NAME+NAME`` is the strict majority of judges that judge the sweep, or are named before it.
    """
    from crb_core.settings import load_settings
    from crb_core.store import open_store

    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    try:
        target = _target(store, sweep)
        plans, new = _add(store, target, judge, max_cost)
    finally:
        store.close()
    judges = [{"name": plan.name, "fingerprint": plan.judge_id} for plan in plans]
    if as_json:
        print_json({"sweep": target.name, "judges": judges, "new_judgments": new})
    else:
        console.print(plain(f"sweep {target.name}: {new} new judgments"))
    _go_on(target.name, quiet=as_json)


def rejudge(
    sweep: Sweep,
    judge: Annotated[
        list[str] | None, typer.Option(help="Stale judge by name or fingerprint (repeatable); all by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be judged anew.")] = False,
    preview: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Judge N of the stale judgments, or all, and show what changes; replace nothing."
        ),
    ] = None,
    max_cost: MaxCost = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge anew what judges with older guidelines, prompts or models have judged; first says what that is.

    The old judgments stay beside the new ones, under their own fingerprint. A preview costs nothing twice.
    """
    from crb_cli.judge_preview import preview_count, print_preview
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.sweeps import set_max_cost

    settings = load_settings()
    count = preview_count(preview)
    dry_run = dry_run or preview is not None
    store = open_store(settings.resolved_store_url)
    try:
        target = _target(store, sweep)
        stale, problems = _stale(store, target, judge)
        new = 0
        if not as_json:
            _print_stale(target.name, stale, problems)
        if preview is not None:
            with store.write() as connection:
                set_max_cost(connection, target.sweep_id, max_cost)
            for each in stale:
                each["preview"] = _preview(settings, store, target, each, count, quiet=as_json)
                if not as_json:
                    print_preview(each["judge"], each["preview"])
        if stale and not dry_run:
            _, new = _add(store, target, [each["spec"] for each in stale], max_cost)
    finally:
        store.close()
    if as_json:
        print_json(
            {
                "format": "crb.rejudge/1",
                "sweep": target.name,
                "dry_run": dry_run,
                "stale": stale,
                "cannot_tell": problems,
                "new_judgments": new,
            }
        )
    elif not dry_run:
        console.print(plain(f"sweep {target.name}: {new} new judgments"))
    if new:
        _go_on(target.name, quiet=as_json)


def _preview(
    settings: Settings, store: Store, target: _Target, stale: dict[str, Any], count: int | None, *, quiet: bool
) -> dict[str, Any]:
    from crb_cli.judge_calibrate import progress_shown
    from crb_cli.judge_preview import preview
    from crb_core.store.results import find_judge

    with store.read() as connection:
        judge = find_judge(connection, target.sweep_id, stale["fingerprint"])
    with progress_shown(quiet=quiet) as progress:
        return preview(
            settings,
            store,
            target.sweep_id,
            target.corpus,
            judge,
            _opened(target, stale["spec"]),
            count=count,
            progress=progress,
        )


@dataclass(frozen=True, kw_only=True)
class _Target:
    sweep_id: str
    name: str
    corpus: Corpus
    builds: Sequence[AgentBuild]


def _target(store: Store, sweep: str) -> _Target:
    from crb_core.store.corpora import load_corpus
    from crb_core.store.sweeps import find_sweep, sweep_builds

    with store.read() as connection:
        row = find_sweep(connection, sweep)
        return _Target(
            sweep_id=row.id,
            name=row.name,
            corpus=load_corpus(connection, row.corpus_id),
            builds=sweep_builds(connection, row.id),
        )


def _add(store: Store, target: _Target, specs: Sequence[str], max_cost: float | None) -> tuple[list[JudgePlan], int]:
    """Add judges in their order; a council finds those before it. Returns the plans and how many judgments are new."""
    from crb_cli.sweep import plan_judges
    from crb_core.store.sweeps import add_judges, set_max_cost
    from crb_worker.judge import judge_options
    from crb_worker.judge.council import CouncilJudge, named_council

    councils = [spec for spec in specs if judge_options(spec)[0] == CouncilJudge.name]
    ids = [build.build_id for build in target.builds]
    plans = plan_judges(target.corpus, [spec for spec in specs if spec not in councils], target.builds)
    with store.write() as connection:
        set_max_cost(connection, target.sweep_id, max_cost)
        new = add_judges(connection, target.sweep_id, plans, ids)
    for spec in councils:
        (plan,) = plan_judges(target.corpus, [named_council(store, target.sweep_id, spec)], target.builds)
        plan = replace(plan, builds=_council_builds(store, target, plan))
        with store.write() as connection:
            new += add_judges(connection, target.sweep_id, [plan], ids)
        plans.append(plan)
    return plans, new


def _council_builds(store: Store, target: _Target, plan: JudgePlan) -> frozenset[str]:
    """The builds that at least two members judge; a council has nothing to say of others."""
    from sqlalchemy import func, select

    from crb_core.errors import InputError
    from crb_core.store.tables import SweepJudgeRow, core

    rows = core(SweepJudgeRow)
    members = plan.document["description"]["judges"]
    with store.read() as connection:
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


def _stale(
    store: Store, target: _Target, names: Sequence[str] | None
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """The sweep's judges whose spec now means another judge, and those of which that cannot be told."""
    from crb_core.errors import CrbError
    from crb_core.store.imports import IMPORTER
    from crb_core.store.judge_versions import sweep_judgments
    from crb_core.store.results import find_judge, sweep_judges

    stale: list[dict[str, Any]] = []
    problems: list[dict[str, str]] = []
    with store.read() as connection:
        known = sweep_judges(connection, target.sweep_id)
        chosen = [find_judge(connection, target.sweep_id, name) for name in names] if names else known
        counts = sweep_judgments(connection, target.sweep_id)
    present = {each.judge_id for each in known}
    asked = {each.judge_id for each in chosen}
    outdated: set[str] = set()
    for each in known:
        about = {"judge": each.name, "fingerprint": each.judge_id}
        spec = each.document.get("spec", "")
        if spec == IMPORTER:
            if each.judge_id in asked:
                problems.append({**about, "problem": "its judgments were imported"})
            continue
        try:
            now = _opened(target, spec)
        except CrbError as error:
            if each.judge_id in asked:
                problems.append({**about, "problem": str(error)})
            continue
        if now.fingerprint == each.judge_id:
            continue
        outdated.add(each.judge_id)
        if each.judge_id not in asked:
            continue
        made = counts.get(each.judge_id)
        stale.append(
            {
                **about,
                "spec": spec,
                "present_fingerprint": now.fingerprint,
                "already_added": now.fingerprint in present,
                "changed": _changes(each.document.get("description", {}), now.describe()),
                "judgments": made.judgments if made else 0,
                "matches": made.matches if made else 0,
                "labels": made.labels if made else 0,
            }
        )
    for each in chosen:
        members = sorted(outdated & set(each.document.get("description", {}).get("judges", ())))
        if members:
            problems.append(
                {
                    "judge": each.name,
                    "fingerprint": each.judge_id,
                    "problem": f"it votes with stale judgments ({', '.join(members)}); name a council of the present "
                    "judges with crb judge run",
                }
            )
    return stale, problems


def _opened(target: _Target, spec: str) -> Judge:
    from crb_core.bundled import bundled
    from crb_worker.judge import load_judge

    return load_judge(spec, corpus=target.corpus, reference_folder=bundled("corpus") / target.corpus.name / "reference")


def _changes(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """The parts of two descriptions that differ; of a prompt, its versions."""
    if isinstance(before, dict) and isinstance(after, dict):
        if set(before) >= {"version", "sha256"} and set(after) >= {"version", "sha256"}:
            same = before["sha256"] == after["sha256"]
            return [] if same else [{"part": path, "was": before["version"], "is": after["version"]}]
        found = []
        for name in sorted(before.keys() | after.keys()):
            found += _changes(before.get(name), after.get(name), f"{path}.{name}" if path else name)
        return found
    return [] if before == after else [{"part": path, "was": _short(before), "is": _short(after)}]


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= 40 else f"{value[:37]}..."
    return value if value is None or isinstance(value, bool | int | float) else "another value"


def _print_stale(name: str, stale: Sequence[dict[str, Any]], problems: Sequence[dict[str, str]]) -> None:
    if not stale:
        console.print(plain(f"No judge of sweep {name} is stale."))
    else:
        table = Table(box=None, pad_edge=False)
        for title in ("stale judge", "fingerprint", "now", "judgments", "matches", "labels"):
            table.add_column(title, justify="right" if title in {"judgments", "matches", "labels"} else "left")
        for each in stale:
            counts = (str(each[field]) for field in ("judgments", "matches", "labels"))
            table.add_row(plain(each["judge"]), each["fingerprint"], each["present_fingerprint"], *counts)
        console.print(table)
        for each in stale:
            for change in each["changed"]:
                console.print(plain(f"  {each['judge']}: {change['part']} was {change['was']}, is {change['is']}"))
    for problem in problems:
        console.print(
            plain(f"{problem['judge']} cannot be judged anew: {problem['problem']}"), style="dim", soft_wrap=True
        )


def _go_on(name: str, *, quiet: bool) -> None:
    from crb_cli.sweep import run_or_leave_to_the_farm
    from crb_core.settings import load_settings

    run_or_leave_to_the_farm(load_settings(), [name], quiet=quiet)
