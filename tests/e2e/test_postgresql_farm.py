"""Two schedulers and four workers on PostgreSQL do what a farm on SQLite does, and are backed up meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select

from crb_core.store import Store, open_store
from crb_core.store.tables import AttemptRow, StepRow, core
from crb_scheduler.broker import EmbeddedBroker
from tests.chaos.invariants import totals
from tests.e2e.farm import Farm, check_every_trial_is_whole, crb, wait_for

pytestmark = [pytest.mark.thorough, pytest.mark.docker, pytest.mark.timeout(1800)]

SWEEP = ("--agent", "recorded-careful", "--agent", "recorded-eager", "--judge", "offline", "--judge", "reference")
#: Two recorded reviewers on fifteen pull requests, in as many rounds as were recorded: 90 trials a sweep, 360 in all.
ROUNDS, SWEEPS = 3, 4
TRIALS = 30 * ROUNDS * SWEEPS
NAMES = [f"all-{number}" for number in range(SWEEPS)]
attempts, steps = core(AttemptRow), core(StepRow)


class BusyFarm(Farm):
    """Without the short leases of the other tests: this machine is busy, and nothing is to be lost by that."""

    store_url = ""

    @property
    def environment(self) -> dict[str, str]:
        patient = {"CRB_LEASE_SECONDS": "60", "CRB_BEAT_SECONDS": "5", "CRB_REVIEW_SLOTS": "1"}
        return super().environment | patient | {"CRB_STORE_URL": self.store_url}

    @property
    def store(self) -> Store:
        return open_store(self.store_url)


def _begin(farm: BusyFarm, *, schedulers: int, workers: int) -> Store:
    for _ in range(schedulers):
        farm.start("scheduler")
    for _ in range(workers):
        farm.start("worker")
    for name in NAMES:
        planned = farm.crb("sweep", "start", *SWEEP, "--rounds", str(ROUNDS), "--name", name)
        assert planned.returncode == 0, planned.stderr
    return farm.store


def _finish(farm: BusyFarm, store: Store) -> dict[str, object]:
    wait_for(lambda: all(farm.progress(store, name).finished for name in NAMES), seconds=900, every=1)
    check_every_trial_is_whole(store)
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(attempts)).scalar_one() == TRIALS
        assert connection.execute(select(func.sum(steps.c.losses))).scalar_one() == 0
    found = {name: totals(farm.home, name, **farm.environment) for name in NAMES}
    farm.close()
    store.close()
    return found


def _ended(farm: BusyFarm, store: Store) -> int:
    return sum(farm.progress(store, name).ended for name in NAMES)


def test_the_totals_are_those_of_sqlite(tmp_path: Path, postgres_url: str) -> None:
    """360 trials, each reviewed once and judged by two judges; a backup of the middle is whole and restorable."""
    found = []
    for kind, url in (("postgresql", postgres_url), ("sqlite", f"sqlite:///{tmp_path / 'sqlite' / 'crb.sqlite'}")):
        home = tmp_path / kind
        home.mkdir()
        with EmbeddedBroker(home / "test-broker-folder") as broker:
            farm = BusyFarm(home, broker)
            farm.store_url = url
            try:
                store = _begin(farm, schedulers=2 if kind == "postgresql" else 1, workers=4)
                wait_for(lambda farm=farm, store=store: _ended(farm, store) >= 40, seconds=600)
                made = farm.crb("backup", str(home / "middle.tar"), "--json")
                assert made.returncode == 0, made.stderr
                assert json.loads(made.stdout)["missing_blobs"] == []
                found.append(_finish(farm, store))
            finally:
                farm.close()
        _check_backup(home / "middle.tar", tmp_path / f"restored-{kind}")
    assert found[0] == found[1]


def _check_backup(file: Path, home: Path) -> None:
    """One moment: a review that is done has its attempt and its first judge steps, and the other way round."""
    restored = crb("restore", str(file), home=home)
    assert restored.returncode == 0, restored.stderr
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        succeeded = set(
            connection.execute(select(attempts.c.trial_id).where(attempts.c.outcome == "succeeded")).scalars()
        )
        done = set(
            connection.execute(
                select(steps.c.trial_id).where(steps.c.stage == "review", steps.c.state == "done")
            ).scalars()
        )
        matched = set(connection.execute(select(steps.c.trial_id).where(steps.c.stage == "match")).scalars())
    store.close()
    assert succeeded == done == matched
    assert 40 <= len(done) <= TRIALS
