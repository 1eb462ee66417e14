"""``crb workers``: the farm's workers, and how much each of them takes at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.store import Store
    from crb_scheduler.beats import BeatWatch

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List the farm's workers; change their slots while they run.")

#: Between two readings of the beats.
LOOK_SECONDS = 0.5


@app.command("list")
def list_(
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for a beat of each, to tell which are alive.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """List workers: whether they beat, their slots, what they hold. A worker that ended is not listed.

    One that was killed is silent, and stays in the list. In JSON ``alive`` is null where it is not known yet: no beat
    was seen, but not for the lease either.
    """
    from crb_core.store import open_store
    from crb_scheduler.beats import BeatWatch

    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    beats = BeatWatch(settings.lease_seconds)
    # Two beats: one may just have passed.
    deadline = time.monotonic() + (2 * settings.beat_seconds + 1 if wait else 0)
    try:
        records = _read(store, beats)
        while time.monotonic() < deadline and not all(record["alive"] for record in records):
            time.sleep(LOOK_SECONDS)
            records = _read(store, beats)
    finally:
        store.close()
    if as_json:
        print_json({"workers": records})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("worker", "state", "reviews", "judge steps", "holds"):
        table.add_column(title, justify="right" if title == "holds" else "left", overflow="fold")
    for record in records:
        state = "beats" if record["alive"] else f"no beat in {record['silent_seconds']:.0f} s"
        table.add_row(
            plain(record["worker"]), state, _slots(record, "review"), _judge_slots(record), str(record["running"])
        )
    console.print(table)
    console.print("1 worker" if len(records) == 1 else f"{len(records)} workers")


@app.command("set")
def set_(
    worker: Annotated[str, typer.Argument(help="Name of the worker, or a beginning that only it has.")],
    review_slots: Annotated[
        int | None, typer.Option(help="Reviews at once; 0 takes no more, and those that run end.")
    ] = None,
    judge_slots: Annotated[int | None, typer.Option(help="Judge steps at once in each of their queues.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Change a running worker's slots; it follows within seconds. What runs is left to end."""
    from crb_core.store import open_store
    from crb_core.store.operations import COMMAND_LINE, set_worker_slots

    store = open_store(load_settings().resolved_store_url)
    try:
        with store.write() as connection:
            done = set_worker_slots(connection, worker, actor=COMMAND_LINE, review=review_slots, judge=judge_slots)
    finally:
        store.close()
    if as_json:
        print_json(done.to_json())
        return
    changes = ", ".join(
        f"{queue} {done.before[queue]} -> {count}" for queue, count in done.after.items() if done.before[queue] != count
    )
    console.print(plain(f"worker {done.worker}: {changes or 'nothing changed'}"), soft_wrap=True)


def _read(store: Store, beats: BeatWatch) -> list[dict[str, Any]]:
    from sqlalchemy import func, select

    from crb_core.store.tables import StepRow, StepState, WorkerRow, core

    steps, workers = core(StepRow), core(WorkerRow)
    with store.read() as connection:
        rows = connection.execute(select(workers).order_by(workers.c.name)).all()
        held = connection.execute(
            select(steps.c.worker, func.count().label("n"))
            .where(steps.c.state == StepState.RUNNING.value)
            .group_by(steps.c.worker)
        ).all()
    states = beats.read((row.name, row.beat) for row in rows)
    running = {row.worker: row.n for row in held}
    return [
        {
            "worker": row.name,
            "host": row.host,
            "pid": row.pid,
            "alive": states[row.name].alive,
            "silent_seconds": states[row.name].silent_seconds,
            "beat": row.beat,
            "slots": row.slots,
            "wanted_slots": row.wanted_slots,
            "running": running.get(row.name, 0),
            "status": row.status,
            "started_at": row.started_at,
        }
        for row in rows
    ]


def _slots(record: dict[str, Any], queue: str) -> str:
    now = record["slots"].get(queue)
    wanted = (record["wanted_slots"] or {}).get(queue, now)
    if now is None:
        return ""
    return str(now) if wanted == now else f"{now} -> {wanted}"


def _judge_slots(record: dict[str, Any]) -> str:
    shown = {_slots(record, queue) for queue in record["slots"] if queue != "review"}
    return ", ".join(sorted(shown))
