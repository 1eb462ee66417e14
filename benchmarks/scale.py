"""(c) Planning and dispatching 13,140 trials: 20 builds x 219 pull requests x 3 rounds.

The dispatcher, the store and the broker are real; the workers are replaced by updates that end the steps at once, so
that the dispatcher is what limits the rate.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from pathlib import Path

from sqlalchemy import select, update

from benchmarks.filled_sweep import made_up_build, made_up_corpus
from benchmarks.report import Figure
from crb_core.store import open_store
from crb_core.store.tables import StepRow, StepState, WorkerRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.dispatch import Dispatcher, LiveSlots
from crb_scheduler.plan import SweepRequest, plan
from crb_worker.app import BrokerClient, make_app

__all__ = ["scale"]

BUILDS, PULL_REQUESTS, ROUNDS = 20, 219, 3
SLOTS = 64
#: Dispatching is measured over this many steps; the rate does not depend on how many are left.
DISPATCHED = 4000
steps = core(StepRow)
workers = core(WorkerRow)


def scale() -> list[Figure]:
    """Time to plan, dispatch rate, and the peak memory of this process (which is the scheduler's)."""
    with tempfile.TemporaryDirectory(prefix="crb-bench-") as folder:
        home = Path(folder)
        store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
        request = SweepRequest(
            name="scale",
            corpus=made_up_corpus(PULL_REQUESTS, random.Random(1), golden=1),
            builds=[made_up_build(number) for number in range(BUILDS)],
            judges=[],
            rounds=ROUNDS,
            snapshot_source={"kind": "none", "template": None},
            pull_requests=[f"pr-{number}" for number in range(PULL_REQUESTS)],
        )
        began = time.monotonic()
        with store.write() as connection:
            planned = plan(connection, request)
        plan_seconds = time.monotonic() - began
        assert planned.new_trials == BUILDS * PULL_REQUESTS * ROUNDS
        with store.write() as connection:
            connection.execute(
                workers.insert().values(
                    name="bench", host="bench", pid=1, beat=0, slots={"review": SLOTS}, started_at="2026-01-01"
                )
            )
        with EmbeddedBroker(home / "broker") as broker:
            client = BrokerClient(broker.url)
            dispatcher = Dispatcher(store, make_app(broker.url), client, LiveSlots(3600))
            dispatcher.fill()
            sent, fill_ms = 0, []
            began = time.monotonic()
            while sent < DISPATCHED:
                with store.write() as connection:
                    connection.execute(
                        update(steps).where(steps.c.state == StepState.QUEUED.value).values(state=StepState.DONE.value)
                    )
                turn = time.monotonic()
                sent += dispatcher.fill()
                fill_ms.append((time.monotonic() - turn) * 1000)
            seconds = time.monotonic() - began
            client.close()
        with store.read() as connection:
            left = len(connection.execute(select(steps.c.id).where(steps.c.state == StepState.READY.value)).all())
        store.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        Figure(name="planning 13,140 trials", value=plan_seconds, unit="s"),
        Figure(
            name="dispatch rate",
            value=sent / seconds,
            unit="steps/s",
            note=f"{SLOTS} slots, {len(fill_ms)} fills of {sum(fill_ms) / len(fill_ms):.0f} ms, {left} left ready",
        ),
        Figure(name="scheduler's peak memory", value=peak, unit="MiB"),
    ]
