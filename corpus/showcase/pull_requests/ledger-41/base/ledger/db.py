"""Connections, transactions and migrations."""

import contextlib
import datetime
import pathlib
import sqlite3

MIGRATIONS = pathlib.Path(__file__).resolve().parent.parent / "migrations"


def connect(path):
    """Open a connection in autocommit mode; writers open their own transaction."""
    conn = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
    conn.row_factory = sqlite3.Row
    conn.execute("PRAGMA foreign_keys = ON")
    conn.execute("PRAGMA journal_mode = WAL")
    return conn


@contextlib.contextmanager
def transaction(conn):
    """Hold the write lock from the first read to the last write."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield conn
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    conn.execute("COMMIT")


def migrate(conn):
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    for script in sorted(MIGRATIONS.glob("*.sql")):
        number = int(script.name.split("_", 1)[0])
        if number > version:
            conn.executescript(script.read_text(encoding="utf-8"))
            conn.execute(f"PRAGMA user_version = {number:d}")


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
