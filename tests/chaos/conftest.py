"""Farms to disturb: planned once, copied for every test, ended whatever happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.broker import OwnBroker
from tests.chaos.farm import ChaosFarm, copy_home
from tests.chaos.invariants import totals
from tests.chaos.reporting import PROPERTY, SEED
from tests.e2e.farm import crb

#: Stands between two ``crb sweep start`` that extend one sweep.
AND = "and"
#: Deterministic agents and judges, so that two runs of one sweep have the same totals. 16 trials.
BUNDLED = ("--agent", "minimal", "--agent", "recorded-eager", "--judge", "offline", "--judge", "reference")
MORE_OF_ONE = ("--agent", "minimal", "--judge", "offline", "--judge", "reference", "--subset", "smoke")
SHORT = (*BUNDLED, "--subset", "smoke", "--rounds", "2")

#: For several faults one after the other, on a machine that is quick: 92 trials.
LONGER = (*BUNDLED, "--subset", "smoke", "--rounds", "3", AND, *MORE_OF_ONE, "--rounds", "20")

Settings = dict[str, str]
_START = ("sweep", "start", "--name", "chaos")
#: Settings that decide what is planned, beside those that decide where it is stored.
_OF_THE_PLAN = ("CRB_RUNNER", "CRB_BASE_IMAGE", "DOCKER_HOST")


@dataclass(frozen=True)
class Planned:
    """A CRB_HOME with a sweep that nothing has worked on, and the totals that an undisturbed run of it has."""

    home: Path
    undisturbed: Callable[[], dict[str, Any]]


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Planned]]:
    """Plans a sweep, and runs it undisturbed, once for each set of arguments of ``crb sweep start``.

    The undisturbed run goes on beside the test that needs it first: faults are mostly waiting.
    """
    made: dict[tuple[object, ...], Planned] = {}
    with ThreadPoolExecutor(1, thread_name_prefix="undisturbed") as undisturbed:

        def plan(arguments: tuple[str, ...] = SHORT, settings: Settings | None = None) -> Planned:
            environment = {"CRB_RUNNER": "process"} | (settings or {})
            key = (*arguments, *sorted(environment.items()))
            if key not in made:
                made[key] = _plan(tmp_path_factory.mktemp("planned"), arguments, environment, undisturbed)
            return made[key]

        yield plan


def _starts(arguments: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The commands that plan a sweep: ``AND`` stands between the arguments of two of them."""
    if AND not in arguments:
        return [(*_START, *arguments)]
    place = arguments.index(AND)
    return [(*_START, *arguments[:place]), *_starts(arguments[place + 1 :])]


def _plan(folder: Path, arguments: tuple[str, ...], settings: Settings, undisturbed: Executor) -> Planned:
    """Plan it where a broker is set, so that nothing runs yet; a copy of that home then runs undisturbed."""
    calm, home = folder / "calm", folder / "home"
    broker = OwnBroker(folder / "broker")
    broker.start()
    try:
        for start in _starts(arguments):
            ran = crb(*start, home=home, timeout=900, CRB_BROKER_URL=broker.url, **settings)
            assert ran.returncode == 0, ran.stdout + ran.stderr
    finally:
        broker.close()
    copy_home(home, calm)

    def run() -> dict[str, Any]:
        ran = crb("sweep", "resume", "chaos", home=calm, timeout=900, **settings)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return totals(calm, "chaos")

    return Planned(home, undisturbed.submit(run).result)


@pytest.fixture
def make_farm(
    tmp_path: Path, planned: Callable[..., Planned], request: pytest.FixtureRequest
) -> Iterator[Callable[..., ChaosFarm]]:
    """Makes the farm of a test with its planned sweep; all that it measured goes into the report."""
    farms: list[ChaosFarm] = []

    def make(*arguments: str, **settings: str) -> ChaosFarm:
        home = tmp_path / "home"
        arguments = arguments or SHORT
        plan = planned(arguments, {name: settings[name] for name in _OF_THE_PLAN if name in settings})
        copy_home(plan.home, home)
        broker = OwnBroker(tmp_path / "broker")
        broker.start()
        farms.append(ChaosFarm(home=home, broker=broker, settings=settings, undisturbed=plan.undisturbed))
        if settings.get("CRB_STORE_URL", "").startswith("postgresql"):
            for start in _starts(arguments):
                ran = farms[-1].crb(*start)
                assert ran.returncode == 0, ran.stderr
        return farms[-1]

    yield make
    for farm in farms:
        farm.close()
        farm.broker.close()
        request.node.user_properties.extend((PROPERTY, each) for each in farm.recoveries)


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Chance with a printed seed; CRB_CHAOS_SEED repeats a run."""
    import os

    seed = int(os.environ.get("CRB_CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {seed}: repeat it with CRB_CHAOS_SEED={seed}")
    request.node.user_properties.append((SEED, seed))
    return random.Random(seed)
