"""The short version of the fault tests: several faults a sweep, seconds instead of half minutes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.chaos.clock import FalseClock, step_the_clock_back
from tests.chaos.conftest import BUNDLED
from tests.chaos.disk import NO_RESERVE, locked, small_disk
from tests.chaos.dying import SCHEDULER_POINTS, WORKER_POINTS
from tests.chaos.engine import agent_for_containers, remove_a_container
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.e2e.farm import attempts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Make = Callable[..., ChaosFarm]

#: 8 trials: enough for five faults one after the other.
SHORTEST = (*BUNDLED, "--subset", "smoke", "--rounds", "1")


def test_kills_and_a_deploy(make_farm: Make, dice: random.Random) -> None:
    """kill -9 of a worker in a review, between stages and in a judge's step, and of a scheduler; then a deploy."""
    farm = make_farm(*SHORTEST, CRB_LEASE_SECONDS="4")
    scheduler = farm.keep("scheduler")
    for stages in ("review", "between", ("match", "classify", "score")):
        point = dice.choice([point for point in WORKER_POINTS if point.startswith(stages)])
        farm.die_at(point, 1, "worker", "--slots", "2")
    farm.retire(scheduler)
    worker = farm.keep("worker", "--slots", "2")
    # The only one, so that it has something to send: what the killed workers held is not done by anybody else.
    farm.die_at(dice.choice(list(SCHEDULER_POINTS)), 1, "scheduler")
    farm.keep("scheduler")
    farm.wait_for_ended(2)
    farm.retire(worker)
    farm.keep("worker", "--slots", "2")
    assert [old.process.wait(60) for old in (scheduler, worker)] == [0, 0]
    farm.finish()
    check_end(farm)


@pytest.mark.thorough
def test_a_broker_in_every_kind_of_trouble(make_farm: Make) -> None:
    """Killed with and without its data, emptied, cut off, hung, away; every message comes twice; two schedulers."""
    farm = make_farm()
    broker = farm.broker
    for _ in range(2):
        farm.keep("scheduler", module="tests.chaos.doubling")
    farm.keep("worker", "--slots", "1")
    farm.wait_for_ended(1)
    with farm.fault("kill -9, broker with its data"):
        broker.kill()
        broker.start()
    with farm.fault("kill -9, broker without its data"):
        broker.kill()
        broker.forget()
        broker.start()
    with farm.fault("FLUSHALL"):
        broker.flush()
    with farm.fault("CLIENT KILL"):
        broker.cut_connections()
    with farm.fault("broker hangs for 5 s"):
        broker.freeze()
        time.sleep(5)
        broker.thaw()
    farm.finish()
    with farm.store.read() as connection:
        assert set(connection.execute(select(attempts.c.outcome)).scalars()) == {"succeeded"}
    check_end(farm)


@pytest.mark.thorough
def test_a_store_in_trouble(make_farm: Make, tmp_path: Path) -> None:
    """Locked for 5 s, and no room on the disk of store and evidence for 5 s; nothing that was reviewed is lost."""
    with small_disk(tmp_path / "disk", mib=24) as disk:
        places = {"CRB_STORE_URL": f"sqlite:///{disk.path}/crb.sqlite", "CRB_EVIDENCE_URL": f"file://{disk.path}/e"}
        farm = make_farm(**places, **NO_RESERVE)
        with closing(farm):
            (farm.home / "crb.sqlite").replace(tmp_path / "planned.sqlite")
            (disk.path / "crb.sqlite").write_bytes((tmp_path / "planned.sqlite").read_bytes())
            farm.keep("scheduler")
            farm.keep("worker", "--slots", "1")
            farm.wait_for_ended(1)
            with farm.fault("store locked for 5 s"), locked(disk.path / "crb.sqlite"):
                time.sleep(5)
            with farm.fault("store and evidence full for 5 s"):
                disk.fill()
                time.sleep(5)
                disk.empty()
            farm.finish()
            check_end(farm)


@pytest.mark.thorough
def test_a_clock_that_steps_back(make_farm: Make, tmp_path: Path) -> None:
    """An hour back, while a step waits for its time and a message is lost."""
    clock = FalseClock(tmp_path / "clock")
    farm = make_farm(**clock.settings)
    farm.keep("scheduler")
    farm.keep("worker", "--slots", "1")
    farm.wait_for_ended(1)
    step_the_clock_back(farm, clock)
    farm.finish()
    check_end(farm)


@pytest.mark.thorough
@pytest.mark.docker
def test_containers_in_trouble(make_farm: Make, tmp_path: Path) -> None:
    """A worker is killed beside its container, and a container is removed from outside."""
    agent = agent_for_containers(tmp_path / "unhurried")
    sweep = ("--agent", str(agent), "--judge", "offline", "--subset", "smoke", "--rounds", "1")
    farm = make_farm(*sweep, CRB_RUNNER="docker")
    with closing(farm):
        farm.keep("scheduler")
        farm.die_at("container: runs", 1, "worker", "--slots", "1")
        farm.keep("worker", "--slots", "1")
        remove_a_container(farm)
        farm.finish()
        check_end(farm, containers=True)
