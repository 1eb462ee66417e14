"""Everything dies at once: all processes of a farm, and a local run with its broker and worker, again and again."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from crb_core.store import open_store
from tests.chaos.conftest import LONGER
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end, left_in_home, totals
from tests.chaos.reporting import PROPERTY
from tests.e2e.farm import check_every_trial_is_whole, crb, processes_with, start, wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

DEMO = ("demo", "--subset", "smoke", "--rounds", "2", "--json")


def test_scheduler_workers_and_broker_are_killed_at_once(make_farm: Callable[..., ChaosFarm]) -> None:
    """kill -9 of all of them, twice in a row, the second time before anything is mended; then all are started again."""
    farm = make_farm(*LONGER, CRB_FARM_ATTEMPTS="20")
    everything = [farm.keep("scheduler"), *(farm.keep("worker", "--slots", "2") for _ in range(2))]
    farm.wait_for_ended(2)
    with farm.fault("kill -9, everything at once, twice"):
        for forgets in (False, True):
            for kept in everything:
                kept.process.kill()
            farm.broker.kill()
            if forgets:
                farm.broker.forget()
            farm.broker.start()
            # The supervisor starts the rest again.
            wait_for(lambda: all(kept.process.poll() is None for kept in everything))
    farm.finish()
    check_end(farm)


@pytest.mark.parametrize(("number", "times"), [(signal.SIGKILL, 10), (signal.SIGTERM, 5)])
def test_a_local_run_is_ended_again_and_again(
    tmp_path: Path, dice: random.Random, number: signal.Signals, times: int, request: pytest.FixtureRequest
) -> None:
    """Wherever it is: nothing of it is left, the next start goes on, and what it comes to is an undisturbed run's."""
    calm, home = tmp_path / "calm", tmp_path / "home"
    settings = {"CRB_RUNNER": "process", "CRB_FARM_ATTEMPTS": "100", "CRB_REVIEW_SLOTS": "2"}
    undisturbed = crb(*DEMO, home=calm, **settings)
    assert undisturbed.returncode == 0, undisturbed.stderr
    for _ in range(times):
        process = start(*DEMO, home=home, log=tmp_path / "log", **settings)
        # While it plans, builds snapshots, works, or tidies up.
        _let_run(process, dice.uniform(0.1, 8))
        process.send_signal(number)
        process.wait(60)
        wait_for(lambda: not processes_with(str(home)), seconds=60)
        _check_the_store_is_sound(home)
    begun = time.monotonic()
    completed = crb(*DEMO, home=home, **settings)
    assert completed.returncode == 0, completed.stderr
    fault = f"{number.name}, local run, {times} times"
    request.node.user_properties.append((PROPERTY, (fault, time.monotonic() - begun)))
    with closing(open_store(f"sqlite:///{home / 'crb.sqlite'}")) as store:
        check_every_trial_is_whole(store)
    assert totals(home, "demo") == totals(calm, "demo")
    assert left_in_home(home) == []
    assert not processes_with(str(home))
    assert not list(home.glob("broker-folder"))


def _let_run(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _check_the_store_is_sound(home: Path) -> None:
    """What is there of a SQLite file is whole."""
    if not (home / "crb.sqlite").exists():
        return
    with closing(sqlite3.connect(f"file:{home / 'crb.sqlite'}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
