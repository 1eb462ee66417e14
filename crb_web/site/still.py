"""A copy of the store for the length of an export: it does not change, and names no machine of the farm."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from crb_core.errors import StoreError
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.archive_rows import freeze
from crb_core.store.imports import IMPORTER
from crb_core.store.references import stored_rows, stored_tables
from crb_web.sources import Sources

__all__ = ["still_settings"]

#: Columns with names of machines and of workers, which are made of them; the word that numbers them.
_MACHINES = (("attempt", "host", "host"), ("attempt", "worker", "worker"), ("step", "worker", "worker"))
#: Tables of the farm itself, of which no page of a site shows anything.
_OF_THE_FARM = ("worker", "access_token", "operator_action", "content_change")


def still_settings(settings: Settings, scratch: Path) -> Settings:
    """The settings of a copy in ``scratch``. StoreError where the store cannot be read or copied."""
    copy = scratch / "store.sqlite"
    given = Sources(settings)
    try:
        store = given.store()
        if store.is_sqlite:
            _copy_file(store, copy)
        else:
            _copy_rows(store, copy)
        _without_machines(copy)
    except sqlite3.Error as error:
        raise StoreError(f"The store cannot be copied: {error}", remedy="Free space beside the folder") from None
    finally:
        given.close()
    return settings.model_copy(
        update={"store_url": f"sqlite:///{copy}", "evidence_url": settings.resolved_evidence_url}
    )


def _copy_file(store: Store, copy: Path) -> None:
    connection = store.engine.raw_connection()
    into = sqlite3.connect(copy)
    try:
        source = connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.backup(into)
    finally:
        into.close()
        connection.close()


def _copy_rows(store: Store, copy: Path) -> None:
    """Every row of another database, as of one moment."""
    open_store(f"sqlite:///{copy}").close()
    into = sqlite3.connect(copy)
    try:
        with store.read() as connection, into:
            freeze(connection)
            for table in stored_tables(connection):
                names = ", ".join(f'"{column.name}"' for column in table.columns)
                places = ", ".join("?" for _ in table.columns)
                into.executemany(
                    # Names of our own tables.
                    f'INSERT INTO "{table.name}" ({names}) VALUES ({places})',  # nosec B608
                    stored_rows(connection, table),
                )
    finally:
        into.close()


def _without_machines(copy: Path) -> None:
    """Number hosts and workers in the order of their rows."""
    store = sqlite3.connect(copy)
    try:
        with store:
            numbers: dict[tuple[str, str], str] = {}
            for table, column, word in _MACHINES:
                wanted = f"SELECT id, {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY id"  # nosec B608
                found = store.execute(wanted)
                changed = []
                for row, name in found.fetchall():
                    # No worker, but that the review ran elsewhere.
                    if name == IMPORTER:
                        continue
                    known = len([each for each in numbers if each[0] == word])
                    changed.append((numbers.setdefault((word, name), f"{word}-{known + 1}"), row))
                store.executemany(f"UPDATE {table} SET {column} = ? WHERE id = ?", changed)  # nosec B608
            for table in _OF_THE_FARM:
                store.execute(f"DELETE FROM {table}")  # nosec B608
    finally:
        store.close()
