"""Containers that are removed, workers that die beside them, and an engine that restarts under them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from sqlalchemy import func, select

from tests.chaos.dying import CONTAINER_POINTS
from tests.chaos.engine import (
    EMPTY_IMAGE,
    OwnEngine,
    agent_for_containers,
    own_engine,
    remove_a_container,
    running_containers,
)
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.e2e.farm import attempts, wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.docker, pytest.mark.timeout(900)]

Make = Callable[..., ChaosFarm]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Eight trials of a second and a half in containers."""
    agent = agent_for_containers(tmp_path_factory.mktemp("agents") / "unhurried")
    return ("--agent", str(agent), "--judge", "offline", "--subset", "smoke", "--rounds", "2")


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    with own_engine() as started:
        yield started


def test_a_container_removed_from_outside(make_farm: Make, sweep: tuple[str, ...]) -> None:
    """The attempt fails by the farm's fault, says so, and the trial runs again."""
    farm = make_farm(*sweep, CRB_RUNNER="docker")
    with closing(farm):
        farm.keep("scheduler")
        farm.keep("worker", "--slots", "2")
        remove_a_container(farm)
        farm.finish()
        with farm.store.read() as connection:
            failed = connection.execute(select(attempts.c.outcome).where(attempts.c.outcome != "succeeded"))
            assert set(failed.scalars()) == {"engine_error"}
        check_end(farm, containers=True)


def test_a_worker_killed_beside_its_container(make_farm: Make, sweep: tuple[str, ...]) -> None:
    """kill -9 before, while and after a container runs: it is removed with its volume, and the trial runs again."""
    farm = make_farm(*sweep, CRB_RUNNER="docker", CRB_FARM_ATTEMPTS="20")
    with closing(farm):
        farm.keep("scheduler")
        for point in CONTAINER_POINTS:
            farm.die_at(point, 1, "worker", "--slots", "1")
        farm.keep("worker", "--slots", "2")
        farm.finish()
        check_end(farm, containers=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_engine_is_restarted(
    make_farm: Make, sweep: tuple[str, ...], engine: OwnEngine, number: signal.Signals
) -> None:
    """The engine goes amid trials, by order and by kill -9, and comes back: no trial fails for it."""
    farm = make_farm(*sweep, CRB_RUNNER="docker", DOCKER_HOST=engine.url, CRB_BASE_IMAGE=EMPTY_IMAGE)
    with closing(farm):
        farm.keep("scheduler")
        farm.keep("worker", "--slots", "2")
        wait_for(lambda: running_containers(farm), every=0.05)
        with farm.fault(f"Docker engine restarted ({number.name})"):
            engine.stop(number)
            engine.start()
        farm.finish()
        with farm.store.read() as connection:
            assert connection.execute(select(func.max(attempts.c.number))).scalar_one() > 1
        check_end(farm, containers=True)
