"""Workers and schedulers that are killed, doubled and replaced."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from sqlalchemy import select

from crb_core.store.tables import Stage, WorkerRow, core
from tests.chaos.dying import SCHEDULER_POINTS, WORKER_POINTS
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.e2e.farm import attempts, wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

Make = Callable[..., ChaosFarm]
workers = core(WorkerRow)


def _points(stage: str) -> list[str]:
    """Weak points of a stage and of its end."""
    return [point for point in WORKER_POINTS if point.startswith((stage, f"between {stage}", f"after {stage}"))]


@pytest.mark.parametrize("stage", ["review", "match", "classify", "score"])
def test_a_worker_killed_in_a_stage(make_farm: Make, dice: random.Random, stage: str) -> None:
    """kill -9 at each point of a stage, and between it and the next: another take of the step does it, once."""
    # One trial may be what every killed worker held.
    farm = make_farm(CRB_FARM_ATTEMPTS="20")
    farm.keep("scheduler")
    for point in _points(stage):
        farm.die_at(point, dice.randint(1, 2), "worker", "--slots", "2")
    farm.keep("worker", "--slots", "2")
    farm.finish()
    check_end(farm)


def test_a_scheduler_killed_where_it_hurts(make_farm: Make, dice: random.Random) -> None:
    """kill -9 before its commit, between commit and messages, and amid its messages: the next one goes on."""
    farm = make_farm()
    farm.keep("worker", "--slots", "2")
    for point in SCHEDULER_POINTS:
        farm.die_at(point, dice.randint(1, 2), "scheduler")
    farm.keep("scheduler")
    farm.finish()
    check_end(farm)


def test_two_schedulers_of_which_one_is_killed(make_farm: Make) -> None:
    """Two schedulers do each other no harm, and each review is taken once; with one killed the other goes on."""
    farm = make_farm()
    first = farm.keep("scheduler")
    farm.keep("scheduler")
    farm.keep("worker", "--slots", "2")
    farm.wait_for_ended(2)
    with farm.fault("kill -9, one of two schedulers"):
        first.process.kill()
    farm.finish()
    with farm.store.read() as connection:
        assert set(connection.execute(select(attempts.c.number)).scalars()) == {1}
    check_end(farm)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving two processes one pid needs root (PID namespaces)")
def test_two_workers_with_the_same_name(make_farm: Make) -> None:
    """Two workers with one host name and one pid, as in containers, are two workers; one may be killed."""
    farm = make_farm()
    farm.keep("scheduler")
    wrapper = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
    twins = [farm.keep("worker", "--slots", "1", wrapper=wrapper) for _ in range(2)]

    def known() -> list[tuple[str, str, int]]:
        with farm.store.read() as connection:
            rows = connection.execute(select(workers.c.name, workers.c.host, workers.c.pid)).all()
        return [tuple(row) for row in rows] if len(rows) == 2 else []

    names, hosts, pids = zip(*wait_for(known), strict=True)
    assert len(set(names)) == 2
    assert len(set(hosts)) == len(set(pids)) == 1
    farm.wait_for_running(Stage.REVIEW)
    with farm.fault("kill -9, one of two workers of one name"):
        twins[0].process.kill()
    farm.finish()
    check_end(farm)


def test_a_deploy_loses_nothing(make_farm: Make) -> None:
    """SIGTERM to every old process while new ones start: old ones finish what they hold, and no attempt is lost."""
    farm = make_farm()
    old = [farm.keep("scheduler"), *(farm.keep("worker", "--slots", "1") for _ in range(2))]
    farm.wait_for_ended(2)
    farm.wait_for_running(Stage.REVIEW)
    with farm.fault("SIGTERM of all processes during a deploy"):
        for process in old:
            farm.retire(process)
        farm.keep("scheduler")
        farm.keep("worker", "--slots", "2")
        assert [process.process.wait(60) for process in old] == [0, 0, 0]
    farm.finish()
    with farm.store.read() as connection:
        assert set(connection.execute(select(attempts.c.outcome)).scalars()) == {"succeeded"}
    check_end(farm)
