"""A store that is locked, full or restarted, and a full disk under the evidence."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos.conftest import LONGER
from tests.chaos.disk import NO_RESERVE, SmallDisk, locked, small_disk
from tests.chaos.farm import ChaosFarm
from tests.chaos.invariants import check_end
from tests.chaos.postgres import OwnPostgres, postgres_server_of_our_own
from tests.services import frozen

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

Make = Callable[..., ChaosFarm]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", mib=24) as made:
        yield made


__all__ = ["postgres_server_of_our_own"]


def _begin(farm: ChaosFarm) -> None:
    farm.keep("scheduler")
    for _ in range(2):
        farm.keep("worker", "--slots", "1")
    farm.wait_for_ended(2)


def test_the_store_is_locked(make_farm: Make) -> None:
    """Another process holds the write lock for longer than writers wait for it."""
    farm = make_farm()
    _begin(farm)
    with farm.fault("store locked for 35 s"), locked(farm.home / "crb.sqlite"):
        time.sleep(35)
    farm.finish()
    check_end(farm)


def test_the_stores_disk_is_full(make_farm: Make, disk: SmallDisk) -> None:
    """No block is left on the disk of the store for a while."""
    farm = make_farm(CRB_STORE_URL=f"sqlite:///{disk.path / 'crb.sqlite'}", **NO_RESERVE)
    with closing(farm):
        shutil.move(farm.home / "crb.sqlite", disk.path / "crb.sqlite")
        _begin(farm)
        # Longer than a worker goes on without a beat.
        with farm.fault("store full for 25 s"):
            disk.fill()
            time.sleep(25)
            disk.empty()
        farm.finish()
    check_end(farm)


def test_the_evidences_disk_is_full(make_farm: Make, disk: SmallDisk) -> None:
    """Evidence cannot be written for a while: no finished review is thrown away for it, none runs twice."""
    farm = make_farm(CRB_EVIDENCE_URL=f"file://{disk.path / 'evidence'}", **NO_RESERVE)
    with closing(farm):
        _begin(farm)
        with farm.fault("evidence store full for 20 s"):
            disk.fill()
            time.sleep(20)
            disk.empty()
        farm.finish()
    check_end(farm)


@pytest.mark.docker
def test_the_stores_server_is_restarted(make_farm: Make, postgres_server_of_our_own: OwnPostgres) -> None:
    """PostgreSQL is killed and started again, twice, at the same address."""
    server = postgres_server_of_our_own
    farm = make_farm(*LONGER, CRB_STORE_URL=server.url)
    with closing(farm):
        _begin(farm)
        for seconds in (0, 10):
            with farm.fault("store restarted (PostgreSQL)"):
                server.kill()
                time.sleep(seconds)
                server.start()
        farm.finish()
        check_end(farm)


@pytest.mark.docker
def test_the_stores_server_hangs(make_farm: Make, postgres_server_of_our_own: OwnPostgres) -> None:
    """PostgreSQL is stopped with its connections open, for less and for more time than a worker goes on without it.

    Each process says so once, and once that it is over; a command meanwhile ends with a sentence.
    """
    server = postgres_server_of_our_own
    farm = make_farm(*LONGER, CRB_STORE_URL=server.url)
    with closing(farm):
        _begin(farm)
        for seconds in (12, 45):
            with farm.fault(f"store hung for {seconds} s (PostgreSQL)"), frozen(server.url):
                began = time.monotonic()
                if seconds > 12:
                    shown = farm.crb("sweep", "show", "chaos")
                    assert (shown.returncode, shown.stdout) == (1, "")
                    assert "does not answer" in shown.stderr
                    assert "Traceback" not in shown.stderr
                time.sleep(max(0.0, began + seconds - time.monotonic()))
        farm.finish()
        check_end(farm)
        for log in ("scheduler", "worker"):
            lines = (farm.home / "logs" / f"{log}.jsonl").read_text().splitlines()
            told = [json.loads(line)["event"] for line in lines if '"store_' in line]
            assert "store_away" in told, f"{log} did not say that the store was away"
            # Workers share a log, so each line of one is beside another's.
            assert told.count("store_away") <= 4 * told.count("store_back")
