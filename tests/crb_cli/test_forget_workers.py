"""``crb workers forget``: what was killed is listed no more; what runs cannot be forgotten."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from crb_cli.workers import app
from crb_core.store import Store, open_store
from crb_core.store.operations import list_operations
from crb_core.store.tables import WorkerRow, core
from crb_core.store.workers import register_worker
from tests.crb_cli.commands import Commands
from tests.crb_core.store.planned import plan

workers = core(WorkerRow)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store of each kind with three workers: one beats, one was killed, one was killed with a step in its hands."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path))
    monkeypatch.setenv("CRB_LEASE_SECONDS", "1")
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'crb.sqlite'}"
    else:
        url = request.getfixturevalue("postgres_store_url")
        monkeypatch.setenv("CRB_STORE_URL", url)
    opened = open_store(url)
    with opened.write() as connection:
        for name in ("beating", "dead", "holding"):
            register_worker(connection, name, host="h", pid=1, slots={"review": 1})
    planned = plan(opened)
    planned.take(planned.ids()[0], "holding")
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.1):
            with opened.write() as connection:
                connection.execute(update(workers).where(workers.c.name == "beating").values(beat=workers.c.beat + 1))

    beats = threading.Thread(target=beat)
    beats.start()
    yield opened
    ended.set()
    beats.join()
    opened.close()


def test_silent_workers_are_forgotten_and_the_rest_is_kept(store: Store) -> None:
    """It is written down who was forgotten; of the others it is said why not; a second time nothing is left to do."""
    commands = Commands(app)
    done = commands.read("forget", "--silent")
    assert [(each["action"], each["worker"], each["before"]) for each in done["operations"]] == [
        ("forget worker", "dead", {"beat": 0, "slots": {"review": 1}})
    ]
    assert done["kept"] == ["beating", "holding"]
    with store.read() as connection:
        assert [each.worker for each in list_operations(connection)] == ["dead"]
    printed = " ".join(commands.run("forget", "--silent").split())
    assert "beating: kept; it beats, so it runs" in printed
    assert "holding: kept; it holds steps (1) that the scheduler has not given back yet" in printed


def test_one_that_runs_is_refused_by_name(store: Store) -> None:
    """And so are a name that nobody has, no name at all, and a name beside --silent."""
    commands = Commands(app)
    assert "beats, so it runs" in commands.refused("forget", "beat")
    assert "no worker named 'nobody'" in commands.refused("forget", "nobody")
    assert "not clear" in commands.refused("forget")
    assert "not clear" in commands.refused("forget", "dead", "--silent")
    assert "worker dead: forgotten" in commands.run("forget", "dead")
