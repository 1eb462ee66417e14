"""Faults of every kind at random, one after the other, for the length of 200 trials."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.chaos.conftest import AND, BUNDLED
from tests.chaos.disk import locked
from tests.chaos.farm import ChaosFarm, Supervised
from tests.chaos.invariants import check_end

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(2400)]

#: Three agents over 15 pull requests in 3 rounds (more were not recorded), and 5 more rounds of one of them.
MORE_ROUNDS = ("--agent", "minimal", "--judge", "offline", "--judge", "reference", "--rounds", "8")
TWO_HUNDRED_TRIALS = (*BUNDLED, "--agent", "recorded-careful", "--rounds", "3", AND, *MORE_ROUNDS)
TRIALS = 210


class Faults:
    """Every fault that needs neither root nor an engine, by its name in the report."""

    def __init__(self, farm: ChaosFarm, workers: list[Supervised], schedulers: list[Supervised], dice: random.Random):
        self._farm, self._workers, self._schedulers, self._dice = farm, workers, schedulers, dice
        self.all: dict[str, Callable[[], object]] = {
            "kill -9, worker": lambda: dice.choice(workers).process.kill(),
            "kill -9, scheduler": lambda: dice.choice(schedulers).process.kill(),
            "kill -9, broker with its data": lambda: self._restart_broker(forget=False),
            "kill -9, broker without its data": lambda: self._restart_broker(forget=True),
            "FLUSHALL": farm.broker.flush,
            "CLIENT KILL": farm.broker.cut_connections,
            "broker hangs for seconds": self._freeze_broker,
            "store locked for seconds": self._lock_store,
            "SIGTERM, worker": lambda: dice.choice(workers).process.terminate(),
            "SIGTERM, scheduler": lambda: dice.choice(schedulers).process.terminate(),
        }

    def _restart_broker(self, *, forget: bool) -> None:
        self._farm.broker.kill()
        if forget:
            self._farm.broker.forget()
        time.sleep(self._dice.uniform(0, 3))
        self._farm.broker.start()

    def _freeze_broker(self) -> None:
        self._farm.broker.freeze()
        time.sleep(self._dice.uniform(1, 5))
        self._farm.broker.thaw()

    def _lock_store(self) -> None:
        with locked(self._farm.home / "crb.sqlite"):
            time.sleep(self._dice.uniform(1, 5))


def test_two_hundred_trials_under_random_faults(make_farm: Callable[..., ChaosFarm], dice: random.Random) -> None:
    """Whatever comes in whatever order: every trial whole, totals as undisturbed, nothing left, no hand needed."""
    farm = make_farm(*TWO_HUNDRED_TRIALS)
    schedulers = [farm.keep("scheduler", module="tests.chaos.doubling"), farm.keep("scheduler")]
    workers = [farm.keep("worker", "--slots", "1") for _ in range(2)]
    faults = Faults(farm, workers, schedulers, dice)
    names = list(faults.all)
    # Faults that come when all is done are none.
    while farm.ended < TRIALS * 0.85:
        if not names:
            names = list(faults.all)
        name = names.pop(dice.randrange(len(names)))
        time.sleep(dice.uniform(0, 1))
        with farm.fault(f"mixed: {name}"):
            faults.all[name]()
    farm.finish(600)
    check_end(farm)
