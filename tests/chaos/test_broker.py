"""A broker that dies, forgets, hangs, cuts its connections and repeats itself."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest
from sqlalchemy import func, select

from tests.chaos.conftest import LONGER
from tests.chaos.doubling import DOUBLED
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.e2e.farm import attempts, steps

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

Make = Callable[..., ChaosFarm]


@pytest.fixture
def farm(make_farm: Make) -> ChaosFarm:
    """One scheduler and two workers that have begun."""
    farm = make_farm(*LONGER)
    farm.keep("scheduler")
    for _ in range(2):
        farm.keep("worker", "--slots", "1")
    farm.wait_for_ended(2)
    return farm


@pytest.mark.parametrize("keeps", [True, False], ids=["with its data", "without its data"])
def test_the_broker_is_killed(farm: ChaosFarm, keeps: bool) -> None:
    """kill -9 of the broker: what was queued is published again, whether or not it was kept."""
    for _ in range(2):
        with farm.fault(f"kill -9, broker {'with' if keeps else 'without'} its data"):
            farm.broker.kill()
            if not keeps:
                farm.broker.forget()
            farm.broker.start()
    farm.finish()
    check_end(farm)


def test_the_broker_is_emptied(farm: ChaosFarm, dice: random.Random) -> None:
    """FLUSHALL, again and again: what was queued is published again."""
    for _ in range(3):
        time.sleep(dice.uniform(0, 0.5))
        with farm.fault("FLUSHALL"):
            farm.broker.flush()
    farm.finish()
    check_end(farm)


def test_the_broker_cuts_every_connection(farm: ChaosFarm, dice: random.Random) -> None:
    """CLIENT KILL, again and again: workers and schedulers connect again, and no review runs twice."""
    for _ in range(3):
        time.sleep(dice.uniform(0, 0.5))
        with farm.fault("CLIENT KILL"):
            farm.broker.cut_connections()
    farm.finish()
    with farm.store.read() as connection:
        assert connection.execute(select(func.max(attempts.c.number))).scalar_one() == 1
    check_end(farm)


def check_that_no_attempt_failed(farm: ChaosFarm) -> None:
    """Besides what holds after every fault: running reviews went on without a broker."""
    farm.finish()
    with farm.store.read() as connection:
        assert set(connection.execute(select(attempts.c.outcome)).scalars()) == {"succeeded"}
    check_end(farm)


def test_the_broker_hangs(farm: ChaosFarm) -> None:
    """SIGSTOP: connections stay open and nothing answers; running reviews go on and are not lost.

    Nobody hangs with it: a worker heeds SIGTERM, commands end with a sentence, the scheduler's log tells it.
    """
    with farm.fault("broker hangs for 30 s"):
        farm.broker.freeze()
        thaws = time.monotonic() + 30
        worker = farm.supervised[-1]
        farm.retire(worker)
        looked = farm.crb("doctor", "--json")
        (broker,) = [check for check in json.loads(looked.stdout)["checks"] if check["name"] == "broker"]
        assert "does not answer" in broker["found"]
        assert worker.process.wait(60) == 0
        time.sleep(max(0.0, thaws - time.monotonic()))
        farm.broker.thaw()
    farm.keep("worker", "--slots", "1")
    check_that_no_attempt_failed(farm)
    events = [json.loads(line)["event"] for line in (farm.home / "logs" / "scheduler.jsonl").read_text().splitlines()]
    assert events.count("broker_away") == events.count("broker_back") == 1


def test_the_broker_is_away(farm: ChaosFarm) -> None:
    """Nobody listens for a while: workers stay up and take their work again."""
    with farm.fault("broker away for 30 s"):
        farm.broker.kill()
        time.sleep(30)
        farm.broker.start()
    check_that_no_attempt_failed(farm)


def test_every_message_comes_twice(make_farm: Make) -> None:
    """Each message is delivered twice, under two schedulers: every step is taken once."""
    farm = make_farm()
    for _ in range(2):
        farm.keep("scheduler", module="tests.chaos.doubling")
        farm.keep("worker", "--slots", "2")
    with farm.fault("every message twice, two schedulers"):
        pass
    farm.finish()
    with farm.store.read() as connection:
        fences = connection.execute(select(steps.c.fence)).scalars().all()
    assert set(fences) == {1}
    assert int(farm.broker.client().get(DOUBLED)) >= len(fences)
    check_end(farm)
