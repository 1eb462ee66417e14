"""The tenants' address books."""

import dataclasses
import sqlite3

SCHEMA = """
CREATE TABLE IF NOT EXISTS users (
    id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, alias TEXT NOT NULL,
    address TEXT NOT NULL, active INTEGER NOT NULL DEFAULT 1, UNIQUE (tenant, alias));
CREATE TABLE IF NOT EXISTS preferences (
    user_id INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (user_id, name));
"""


@dataclasses.dataclass(frozen=True)
class User:
    id: int
    alias: str
    address: str


class Directory:
    """Not shared between threads: every worker opens its own."""

    def __init__(self, path):
        self._conn = sqlite3.connect(path, isolation_level=None)
        self._conn.executescript(SCHEMA)
        self.queries = 0

    def _all(self, sql, values):
        self.queries += 1
        return self._conn.execute(sql, values).fetchall()

    def add(self, tenant, alias, address, **preferences):
        cursor = self._conn.execute(
            "INSERT INTO users (tenant, alias, address) VALUES (?, ?, ?)",
            (tenant, alias, address),
        )
        self._conn.executemany(
            "INSERT INTO preferences (user_id, name, value) VALUES (?, ?, ?)",
            [(cursor.lastrowid, name, value) for name, value in preferences.items()],
        )

    def lookup(self, tenant, alias):
        rows = self._all(
            "SELECT id, alias, address FROM users"
            " WHERE tenant = ? AND alias = ? AND active = 1",
            (tenant, alias),
        )
        return User(*rows[0]) if rows else None

    def preferences(self, user_id):
        rows = self._all("SELECT name, value FROM preferences WHERE user_id = ?", (user_id,))
        return dict(rows)
