"""Who may use CRB_HOME and its store, and what is said before a row is written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from crb_cli.home import hold_home, open_home, require_a_place_to_run
from crb_core.errors import InputError, SettingsError, StoreError, UnavailableError
from crb_core.settings import Settings, load_settings
from crb_core.store import open_store
from tests.e2e.farm import crb

START = ("sweep", "start", "--agent", "minimal", "--subset", "smoke", "--runner", "process")


def test_a_local_run_is_alone_and_a_farms_processes_share(tmp_path: Path) -> None:
    """A local run gives back every running step, so it must not begin beside workers, nor they beside it."""
    with (
        hold_home(tmp_path, alone=False),
        hold_home(tmp_path, alone=False),
        pytest.raises(InputError, match=f"process {os.getpid()}"),
    ):
        hold_home(tmp_path, alone=True)
    with hold_home(tmp_path, alone=True):
        with pytest.raises(InputError, match="Another crb run"):
            hold_home(tmp_path, alone=False)
        with pytest.raises(InputError, match="Another crb run"):
            require_a_place_to_run(load_settings(home=tmp_path))
    require_a_place_to_run(load_settings(home=tmp_path))


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Also for root, who may write anywhere."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"CRB_HOME .*file/home cannot be written: Not a directory"):
        open_home(load_settings(home=tmp_path / "file" / "home"))


def _server_store(home: Path) -> Settings:
    return load_settings(home=home, store_url="postgresql+psycopg://crb:secret@127.0.0.1:1/crb")


def _silent_broker(home: Path) -> Settings:
    return load_settings(home=home, broker_url="redis://127.0.0.1:1/0")


def _other_broker(home: Path) -> Settings:
    return load_settings(home=home, broker_url="amqp://crb:secret@127.0.0.1:1/")


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        (_server_store, SettingsError, "needs a store of its own"),
        (_silent_broker, UnavailableError, "does not answer"),
        (_other_broker, UnavailableError, "crb needs Redis or Valkey"),
    ],
)
def test_what_cannot_run_is_refused(
    settings: Callable[[Path], Settings], error: type[Exception], says: str, tmp_path: Path
) -> None:
    """A local run on a store that others share, a broker that is away, a broker of another kind; no password shown."""
    with pytest.raises(error, match=says) as caught:
        require_a_place_to_run(settings(tmp_path))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense"])
def test_a_sweep_is_not_planned_for_a_broker_that_is_away(url: str, tmp_path: Path) -> None:
    """One sentence, exit status 1, and no row that a worker would take some day."""
    open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}").close()
    ran = crb(*START, home=tmp_path, CRB_BROKER_URL=url)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"crb: The broker {'URL ' if url == 'nonsense' else ''}{url}")
    assert len(ran.stderr.splitlines()) == 1
    with sqlite3.connect(tmp_path / "crb.sqlite") as store:
        assert store.execute("SELECT count(*) FROM sweep").fetchone() == (0,)


@pytest.mark.parametrize("command", ["worker", "scheduler"])
def test_services_name_a_home_that_cannot_be_written(command: str, tmp_path: Path) -> None:
    """A sentence, where their log file would have given a traceback."""
    (tmp_path / "file").write_text("")
    ran = crb(command, home=tmp_path / "file", CRB_BROKER_URL="redis://127.0.0.1:1/0")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("crb: CRB_HOME ")
    assert len(ran.stderr.splitlines()) == 1
