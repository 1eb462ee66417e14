"""The message queue: one sqlite table with leases."""

import dataclasses
import json
import sqlite3
import threading
import time

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, aliases TEXT NOT NULL,
    subject TEXT NOT NULL, body TEXT NOT NULL, lease_until REAL NOT NULL DEFAULT 0)
"""


@dataclasses.dataclass(frozen=True)
class Message:
    id: int
    tenant: str
    aliases: tuple
    subject: str
    body: str


class Queue:
    def __init__(self, path, lease_seconds):
        self._conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._conn.execute(SCHEMA)
        self._lock = threading.Lock()
        self._lease = lease_seconds

    def put(self, tenant, aliases, subject, body):
        with self._lock:
            self._conn.execute(
                "INSERT INTO messages (tenant, aliases, subject, body) VALUES (?, ?, ?, ?)",
                (tenant, json.dumps(list(aliases)), subject, body),
            )

    def claim(self):
        """The oldest message nobody holds, or None."""
        now = time.time()
        with self._lock:
            row = self._conn.execute(
                "UPDATE messages SET lease_until = ? WHERE id ="
                " (SELECT id FROM messages WHERE lease_until < ? ORDER BY id LIMIT 1)"
                " RETURNING id, tenant, aliases, subject, body",
                (now + self._lease, now),
            ).fetchone()
        return _message(row) if row else None

    def ack(self, message):
        with self._lock:
            self._conn.execute("DELETE FROM messages WHERE id = ?", (message.id,))

    def release(self, message):
        with self._lock:
            self._conn.execute("UPDATE messages SET lease_until = 0 WHERE id = ?", (message.id,))

    def depth(self):
        with self._lock:
            return self._conn.execute("SELECT COUNT(*) FROM messages").fetchone()[0]


def _message(row):
    return Message(row[0], row[1], tuple(json.loads(row[2])), row[3], row[4])
