"""``crb workers``: the farm's workers, and how much each of them takes at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import InputError
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

    One that was killed is silent; it stays in the list for a day (CRB_FORGET_WORKER_SECONDS). In JSON ``alive`` is null
    where it is not known yet: no beat was seen, but not for the lease either.
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


@app.command()
def forget(
    worker: Annotated[
        str | None, typer.Argument(help="Name of a worker that was killed, or a beginning that only it has.")
    ] = None,
    silent: Annotated[bool, typer.Option("--silent", help="All that are silent.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List a worker that was killed no more, or all that are silent; never one that runs.

    Beats are watched for the lease (CRB_LEASE_SECONDS), so this takes that long. One that holds steps is kept until the
    scheduler has given them back.
    """
    from crb_core.store import open_store
    from crb_core.store.operations import COMMAND_LINE, find_worker, forget_silent_workers
    from crb_scheduler.beats import BeatWatch

    if (worker is None) is not silent:
        raise InputError("Which worker is not clear", remedy="Give one name, or --silent for all that are silent")
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    try:
        name = None
        if worker is not None:
            with store.read() as connection:
                name = find_worker(connection, worker).name
        beats = BeatWatch(settings.lease_seconds)
        with Console(stderr=True).status(f"Watching the beats for {settings.lease_seconds:g} s"):
            records = _watch(store, beats, name)
        dead = {record["worker"]: record["beat"] for record in records if record["alive"] is False}
        with store.write() as connection:
            done = forget_silent_workers(connection, dead, actor=COMMAND_LINE)
    finally:
        store.close()
    forgotten = {operation.worker for operation in done}
    kept = [record for record in records if record["worker"] not in forgotten]
    if name is not None and kept:
        raise InputError(f"The worker {name} {_why_kept(kept[0])}", remedy="`crb workers list` shows what it does")
    if as_json:
        print_json(
            {"operations": [operation.to_json() for operation in done], "kept": [each["worker"] for each in kept]}
        )
        return
    for operation in done:
        console.print(plain(f"worker {operation.worker}: forgotten"), soft_wrap=True)
    for record in kept:
        console.print(plain(f"worker {record['worker']}: kept; it {_why_kept(record)}"), soft_wrap=True)
    if not records:
        console.print("no worker is listed")


def _watch(store: Store, beats: BeatWatch, name: str | None) -> list[dict[str, Any]]:
    """Workers, or the named one, once it is known of each whether it beats."""
    while True:
        records = [record for record in _read(store, beats) if name in {None, record["worker"]}]
        if all(record["alive"] is not None for record in records):
            return records
        time.sleep(LOOK_SECONDS)


def _why_kept(record: dict[str, Any]) -> str:
    if record["alive"]:
        return "beats, so it runs"
    if record["running"]:
        return f"holds steps ({record['running']}) that the scheduler has not given back yet"
    return "has beaten again or ended meanwhile"


def _read(store: Store, beats: BeatWatch) -> list[dict[str, Any]]:
    from sqlalchemy import func, select

    from crb_core.store.tables import StepRow, StepState, WorkerRow, core
    from crb_core.store.texts import by_characters

    steps, workers = core(StepRow), core(WorkerRow)
    with store.read() as connection:
        rows = connection.execute(select(workers).order_by(by_characters(workers.c.name))).all()
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
