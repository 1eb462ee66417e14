"""The schema: what the migrations make is what the tables say, and unusable stores are named in a sentence."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, select
from sqlmodel import SQLModel

import crb_core.store
import crb_core.store.tables
from crb_core.errors import StoreError
from crb_core.store import open_store
from crb_core.store.schema import HEAD, stored_revision
from crb_core.store.tables import SweepRow, core


def test_head_is_the_last_migration() -> None:
    """HEAD saves an import; it must name what the migrations end at."""
    config = Config()
    config.set_main_option("script_location", str(Path(crb_core.store.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_migrations_make_the_tables(tmp_path: Path) -> None:
    """An upgraded empty store has exactly the tables, columns and indexes of tables.py."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    assert stored_revision(store) == HEAD
    with store.write() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SQLModel.metadata) == []
    store.close()


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    """A schema that this version does not know is named, and nothing is changed."""
    url = f"sqlite:///{tmp_path / 'crb.sqlite'}"
    store = open_store(url)
    with store.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()
    with pytest.raises(StoreError, match="written by a newer version of crb"):
        open_store(url)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """Any other file is refused in a sentence and left as it is."""
    file = tmp_path / "crb.sqlite"
    file.write_text("this is no database " * 100)
    with pytest.raises(StoreError, match="not a database"):
        open_store(f"sqlite:///{file}")
    assert file.read_text().startswith("this is no database")


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "postgresql+psycopg://127.0.0.1:1/crb", "oracle://h/s"])
def test_a_url_that_cannot_be_used(url: str) -> None:
    """The sentence names the setting."""
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert "CRB_STORE_URL" in str(caught.value)


def test_reading_cannot_write(tmp_path: Path) -> None:
    """read() is query-only, also on a connection that was used for writing before."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    for _ in range(3):
        with pytest.raises(StoreError, match="readonly"), store.read() as connection:
            connection.exec_driver_sql("DELETE FROM sweep")
        with store.write() as connection:
            connection.exec_driver_sql("DELETE FROM sweep")
    store.close()


def test_a_store_of_an_earlier_version_is_brought_up_with_its_rows(tmp_path: Path) -> None:
    """Migrations keep what is there, and what is new about it has its default."""
    url = f"sqlite:///{tmp_path / 'crb.sqlite'}"
    engine = create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(crb_core.store.__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    with (
        engine.begin() as connection,
        EnvironmentContext(
            config, scripts, fn=lambda revision, _: scripts._upgrade_revs("0001", revision)
        ) as environment,
    ):
        environment.configure(connection=connection, target_metadata=SQLModel.metadata)
        environment.run_migrations()
        connection.exec_driver_sql("INSERT INTO corpus VALUES (1, 'c', 'f', '1', 't', 'reviewbench', '{}', 'x')")
        connection.exec_driver_sql(
            "INSERT INTO sweep (id, name, corpus_id, rounds, priority, state, snapshot_source, created_at)"
            " VALUES ('s-1', 'old', 1, 3, 0, 'active', '{}', 'x')"
        )
    engine.dispose()
    store = open_store(url)
    assert stored_revision(store) == HEAD
    with store.read() as connection:
        row = connection.execute(select(core(SweepRow))).one()
    assert (row.name, row.weight, row.concurrency) == ("old", 1.0, None)
    store.close()


@pytest.mark.docker
def test_many_open_an_empty_database_at_once(postgres_url: str) -> None:
    """The processes of a new farm start together: one makes the tables, the others wait for it."""
    begin = threading.Barrier(6)

    def open_one(_: int) -> str | None:
        begin.wait()
        store = open_store(postgres_url)
        try:
            return stored_revision(store)
        finally:
            store.close()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(open_one, range(6))) == [HEAD] * 6
