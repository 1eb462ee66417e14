"""``crb judge``: the judges with what was measured of them."""

from __future__ import annotations

from typing import Annotated

import typer

from crb_cli.judge_agreement import agreement
from crb_cli.judge_calibrate import calibrate
from crb_cli.judge_list import list_
from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The judges, their fingerprints and how far they can be trusted.")


@app.callback()
def root() -> None:
    """The judges, their fingerprints and how far they can be trusted."""


@app.command()
def run(
    sweep: Annotated[str, typer.Argument(help="Name or id of the sweep.")],
    judge: Annotated[list[str], typer.Option(help="Judge, with its options (repeatable).")],
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="List price in USD that the judges' calls may reach.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge the reviews of a sweep with further judges. No container runs again, and no judgment is made twice."""
    from crb_cli.sweep import plan_judges, run_or_leave_to_the_farm
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.corpora import load_corpus
    from crb_core.store.sweeps import add_judges, find_sweep, set_max_cost, sweep_builds

    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            row = find_sweep(connection, sweep)
            builds = sweep_builds(connection, row.id)
            plans = plan_judges(load_corpus(connection, row.corpus_id), judge, builds)
        with store.write() as connection:
            set_max_cost(connection, row.id, max_cost)
            new = add_judges(connection, row.id, plans, [build.build_id for build in builds])
    finally:
        store.close()
    judges = [{"name": plan.name, "fingerprint": plan.judge_id} for plan in plans]
    if as_json:
        print_json({"sweep": row.name, "judges": judges, "new_judgments": new})
    else:
        console.print(plain(f"sweep {row.name}: {new} new judgments"))
    run_or_leave_to_the_farm(settings, [row.name], quiet=as_json)


app.command("list")(list_)
app.command("agreement")(agreement)
app.command("calibrate")(calibrate)
