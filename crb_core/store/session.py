"""Opening the store: one engine, query-only reads, immediate writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from crb_core.errors import InputError, StoreError

__all__ = ["Store", "open_store"]

BUSY_TIMEOUT_SECONDS = 30

#: Of a PostgreSQL server: how long each of its addresses may take to connect, and how long a connection may be cut off
#: (a firewall that forgot it) before whoever waits on it is told, although the server answers others. The kernel's own
#: patience is two hours. What silence costs is in silence.py.
CONNECT_TIMEOUT_SECONDS = 5
CUT_OFF_SECONDS = 20
#: A process that is stopped, or cut off, in the middle of a write transaction keeps its locks no longer than this.
IDLE_WRITER_SECONDS = 30
_SERVER_PATIENCE = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": CUT_OFF_SECONDS // 2,
    "keepalives_interval": CUT_OFF_SECONDS // 4,
    "keepalives_count": 2,
    "tcp_user_timeout": CUT_OFF_SECONDS * 1000,
}


class Store:
    """The store of one farm. ``read()`` cannot write; ``write()`` holds the write lock from its first statement.

    With SQLite a plain BEGIN that later upgrades to a write fails under load (design.md, "How work flows"), so a
    write transaction is BEGIN IMMEDIATE with a 30 s busy timeout.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def url(self) -> str:
        """The store's URL without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in which only queries work."""
        with self._plain_errors(), self.engine.connect() as connection:
            if self.is_sqlite:
                # On the driver's own connection: through SQLAlchemy each of them costs more than most queries.
                driver: Any = connection.connection.driver_connection
                driver.execute("PRAGMA query_only = 1")
                try:
                    yield connection
                finally:
                    try:
                        connection.rollback()
                    finally:
                        driver.execute("PRAGMA query_only = 0")
            else:
                connection.exec_driver_sql("SET TRANSACTION READ ONLY")
                yield connection
                connection.rollback()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction; committed at the end, rolled back on an exception."""
        with (
            self._plain_errors(),
            self.engine.connect().execution_options(crb_begin="BEGIN IMMEDIATE") as connection,
            connection.begin(),
        ):
            if not self.is_sqlite:
                connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_WRITER_SECONDS}s'")
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeoutError as error:
            raise StoreError(
                f"The store {self.url} does not answer: no connection became free in time",
                remedy="Check that the store's server runs and is not overloaded",
            ) from error
        except (OperationalError, InterfaceError, InternalError) as error:
            cause = str(error.orig).strip().splitlines()[0]
            if cause.startswith(("no such table", "no such column")):
                raise StoreError(
                    f"The store {self.url} was made by an unreleased version of crb ({cause})",
                    remedy="Move it away, or set CRB_HOME to another folder",
                ) from error
            remedy = "Check that the store's server runs and that CRB_STORE_URL is right"
            if self.is_sqlite:
                remedy = _SQLITE_REMEDIES.get(cause, "Check the folder of CRB_HOME and the space on its disk")
            raise StoreError(f"The store {self.url} does not answer: {cause}", remedy=remedy) from error
        except IntegrityError as error:
            raise InputError(
                "The store took none of it: something of that kind is there already, or has gone",
                remedy="Somebody else may have done the same at the same moment; look, and try again",
            ) from error
        except (DataError, UnicodeEncodeError) as error:
            cause = str(getattr(error, "orig", error)).strip().splitlines()[0]
            raise InputError(
                f"The store cannot keep a value: {cause}", remedy="Give text of whole characters, and smaller numbers"
            ) from error


_SQLITE_REMEDIES = {
    "database or disk is full": "Free space on the disk of CRB_HOME and start again; nothing was half written",
    "attempt to write a readonly database": "Make CRB_HOME writable or set CRB_HOME to a folder that is",
    "unable to open database file": "Make CRB_HOME writable or set CRB_HOME to a folder that is",
    "database is locked": "Another process holds the store for more than 30 s; end it and try again",
}


def open_store(url: str, *, migrate: bool = True) -> Store:
    """Open the store and bring its schema up to date.

    StoreError when the URL is unusable, the server does not answer, the folder cannot be written, the file is no
    database, or the schema is newer than this version of crb.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
            raise StoreError(
                f"crb cannot keep its store in {parsed.get_backend_name()}",
                remedy="Set CRB_STORE_URL to a sqlite: or postgresql+psycopg: URL",
            )
        engine = _engine(url)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise StoreError(
            f"The store URL cannot be used: {str(error).splitlines()[0]}",
            remedy="Set CRB_STORE_URL to a sqlite: or postgresql+psycopg: URL (the latter needs crb[postgresql])",
        ) from None
    store = Store(engine)
    if migrate:
        from crb_core.store.schema import upgrade

        try:
            with store._plain_errors():
                upgrade(store)
        except DBAPIError as error:
            raise StoreError(
                f"The store {store.url} cannot be opened: {str(error.orig).strip().splitlines()[0]}",
                remedy="Check that it is a crb store; move the file away to start afresh",
            ) from error
    return store


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        patience = {name: value for name, value in _SERVER_PATIENCE.items() if name not in parsed.query}
        engine = create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=40, connect_args=patience)
        if engine.dialect.driver == "psycopg":
            from crb_core.store.silence import Server

            server = Server()

            @event.listens_for(engine, "do_connect")
            def _connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
                return server.connect(*arguments, **parameters)

        return engine
    if not parsed.database or parsed.database == ":memory:":
        raise StoreError(
            f"The store {parsed.render_as_string(hide_password=True)} would be forgotten when its process ends",
            remedy="Name a file in CRB_STORE_URL, such as sqlite:////srv/crb/crb.sqlite",
        )
    folder = Path(parsed.database).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The folder {folder} cannot be made: {error.strerror}",
            remedy="Set CRB_HOME to a folder that can be written",
        ) from error
    engine = create_engine(
        url,
        pool_size=64,
        max_overflow=64,
        # Our own BEGIN; the driver must not open transactions by itself.
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "isolation_level": None, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = 1")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("crb_begin", "BEGIN"))

    return engine
