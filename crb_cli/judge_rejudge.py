"""``crb judge rejudge``: what judges with older guidelines, prompts or models judged, judged anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli.judge_run import (
    Batch,
    Desk,
    MaxCost,
    SweepName,
    Target,
    add_to_sweep,
    find_target,
    go_on_judging,
    judging,
)
from crb_cli.model_calls import FakeModel
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.store import Store

__all__ = ["rejudge"]


def rejudge(
    sweep: SweepName,
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
    batch: Batch = False,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Judge anew what judges with older guidelines, prompts or models have judged; first says what that is.

    The old judgments stay beside the new ones, under their own fingerprint. A preview costs nothing twice.
    """
    from crb_cli.judge_preview import preview_count
    from crb_worker.judge import asked_in_batches

    count = preview_count(preview)
    dry_run = dry_run or preview is not None
    with judging(fake_model=fake_model, adds=not dry_run) as desk:
        target = find_target(desk.store, sweep)
        stale, problems = _stale(desk.store, target, judge)
        new = 0
        if not as_json:
            _print_stale(target.name, stale, problems)
        if preview is not None:
            _preview(desk, target, stale, count, max_cost, quiet=as_json)
        if stale and not dry_run:
            specs = [each["spec"] for each in stale]
            _, new = add_to_sweep(desk, target, asked_in_batches(specs) if batch else specs, max_cost)
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
        if stale and not dry_run:
            # Also where nothing is new: what failed before is said again.
            go_on_judging(desk, target, quiet=as_json)


def _preview(
    desk: Desk,
    target: Target,
    stale: Sequence[dict[str, Any]],
    count: int | None,
    max_cost: float | None,
    *,
    quiet: bool,
) -> None:
    """Add to each stale judge what its present version says of ``count`` judgments, and print it unless ``quiet``."""
    from crb_cli.judge_calibrate import progress_shown
    from crb_cli.judge_plans import open_judges
    from crb_cli.judge_preview import preview, print_preview
    from crb_core.store.results import find_judge
    from crb_core.store.sweeps import set_max_cost

    limit = max_cost if max_cost is not None else target.max_cost
    opened = open_judges(target.corpus, [each["spec"] for each in stale], work_here=True, max_cost=limit)
    with desk.store.write() as connection:
        set_max_cost(connection, target.sweep_id, max_cost)
        judges = [find_judge(connection, target.sweep_id, each["fingerprint"]) for each in stale]
    for each, judge, present in zip(stale, judges, opened, strict=True):
        with progress_shown(quiet=quiet) as progress:
            each["preview"] = preview(
                desk.settings,
                desk.store,
                target.sweep_id,
                target.corpus,
                judge,
                present,
                count=count,
                progress=progress,
            )
        if not quiet:
            print_preview(each["judge"], each["preview"])


def _stale(
    store: Store, target: Target, names: Sequence[str] | None
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """The sweep's judges whose spec now means another judge, and those of which that cannot be told."""
    from crb_cli.judge_plans import open_judges
    from crb_core.errors import CrbError
    from crb_core.store.imports import IMPORTER
    from crb_core.store.judge_versions import sweep_judgments
    from crb_core.store.results import find_judge, sweep_judges
    from crb_worker.judge import spec_of

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
            spec = spec_of(spec, each.document.get("description", {}))
            (now,) = open_judges(target.corpus, [spec], work_here=False)
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
                whose = f"{each['judge']} {each['fingerprint']}"
                console.print(plain(f"  {whose}: {change['part']} was {change['was']}, is {change['is']}"))
    for problem in problems:
        console.print(
            plain(f"{problem['judge']} cannot be judged anew: {problem['problem']}"), style="dim", soft_wrap=True
        )
