"""``crb demo``: the main job on the showcase corpus, nothing else needed."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import Annotated

import typer

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.settings import load_settings

__all__ = ["DEMO_AGENTS", "DEMO_JUDGES", "demo"]

DEMO_AGENTS = ("lint", "minimal", "recorded-careful", "recorded-eager")
DEMO_JUDGES = ("offline", "reference")
DEMO_SWEEP = "demo"


def demo(
    runner: Annotated[str | None, typer.Option(help="auto, docker or process.")] = None,
    subset: Annotated[str | None, typer.Option(help="Subset of the showcase corpus, for example smoke.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=20, help="Independent rounds.")] = 3,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge beside offline and reference (repeatable), for example claude.")
    ] = None,
    fake_model: Annotated[
        bool,
        typer.Option("--fake-model", help="Let the claude judge ask a scripted model on loopback; tables say so."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Start anew instead of going on with the last demo.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Review the showcase corpus with the bundled agents, three rounds, judge, score and print the leaderboard.

    A second run goes on where the first one stopped, and prints the table at once when that was the end.
    """
    with ExitStack() as model:
        if fake_model:
            from crb_worker.judge.loopback import fake_model as serve

            os.environ |= model.enter_context(serve())
        _demo(runner, subset, rounds, [*DEMO_JUDGES, *(judge or ())], force, as_json)


def _demo(runner: str | None, subset: str | None, rounds: int, judges: list[str], force: bool, as_json: bool) -> None:
    from crb_cli.agreement import print_agreement
    from crb_cli.home import require_a_place_to_run
    from crb_cli.leaderboard import build_leaderboard, print_leaderboard
    from crb_cli.sweep import load_named_corpus, run_or_leave_to_the_farm, start_sweep
    from crb_core.store import open_store
    from crb_core.store.boards import board_json
    from crb_core.store.judge_comparison import sweep_agreement
    from crb_core.store.results import sweep_judges
    from crb_scheduler.progress import read_progress

    # The demo shows one machine; a cluster's broker is not for it.
    settings = load_settings(runner=runner).model_copy(update={"broker_url": None})
    require_a_place_to_run(settings)
    started = time.monotonic()
    planned = start_sweep(
        settings,
        corpus=load_named_corpus(settings, "showcase"),
        agents=DEMO_AGENTS,
        judges=judges,
        name=DEMO_SWEEP,
        rounds=rounds,
        subset=subset,
        force=force,
        # A changed agent, judge or corpus is another measurement: it gets a sweep and a table of its own.
        renew=True,
        quiet=as_json,
    )
    store = open_store(settings.resolved_store_url)
    failed = None
    with store.read() as connection:
        progress = read_progress(connection, planned.sweep_id)
    if not progress.finished:
        try:
            run_or_leave_to_the_farm(settings, [planned.name], quiet=as_json)
        except typer.Exit as ended:
            # Trials that failed are named above and in the table; the table is printed all the same.
            if ended.exit_code != 3:
                raise
            failed = ended
    with store.read() as connection:
        stored = sweep_judges(connection, planned.sweep_id)
        progress = read_progress(connection, planned.sweep_id)
    boards = [build_leaderboard(store, planned.sweep_id, each) for each in stored]
    if as_json:
        print_json(
            {
                "sweep": planned.name,
                "sweep_id": planned.sweep_id,
                "leaderboards": [board_json(board, results) for board, results in boards],
                "agreement": [
                    {
                        "judges": [boards[0][1].judge.name, results.judge.name],
                        **sweep_agreement(boards[0][1], results).model_dump(mode="json"),
                    }
                    for _, results in boards[1:]
                ],
                "progress": progress.to_json(),
            }
        )
    else:
        for board, results in boards:
            print_leaderboard(board, results)
        for _, results in boards[1:]:
            print_agreement(boards[0][1], results)
        console.print()
        console.print(
            plain(
                f"{progress.ended} trials in {time.monotonic() - started:.0f} s. All of it is in {settings.home}: "
                f"`crb trial list --sweep {planned.name}`, `crb trial show 1`, `crb leaderboard --severity high`."
            ),
            soft_wrap=True,
        )
    store.close()
    if failed is not None:
        raise failed
