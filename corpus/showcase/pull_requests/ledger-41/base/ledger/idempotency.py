"""Client-supplied idempotency keys. Call both inside one transaction."""

from ledger import db
from ledger.errors import Conflict


def lookup(conn, key, operation):
    """The id that an earlier request with this key produced, or None."""
    if key is None:
        return None
    row = conn.execute(
        "SELECT operation, result_id FROM idempotency_keys WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    if row["operation"] != operation:
        raise Conflict(f"idempotency key already used for {row['operation']}")
    return row["result_id"]


def remember(conn, key, operation, result_id):
    if key is not None:
        conn.execute(
            "INSERT INTO idempotency_keys (key, operation, result_id, created_at)"
            " VALUES (?, ?, ?, ?)",
            (key, operation, result_id, db.now()),
        )
