"""Authorise and capture charges."""

import uuid

from ledger import db, entries, idempotency
from ledger.errors import Conflict, InvalidAmount, NotFound


def get(conn, charge_id):
    row = conn.execute("SELECT * FROM charges WHERE id = ?", (charge_id,)).fetchone()
    if row is None:
        raise NotFound(f"no charge {charge_id}")
    return row


def authorise(conn, customer, amount, currency, key=None):
    if amount <= 0:
        raise InvalidAmount("amount must be positive")
    with db.transaction(conn):
        known = idempotency.lookup(conn, key, "authorise")
        if known is not None:
            return get(conn, known)
        charge_id = "ch_" + uuid.uuid4().hex
        conn.execute(
            "INSERT INTO charges (id, customer, currency, amount, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (charge_id, customer, currency, amount, db.now()),
        )
        idempotency.remember(conn, key, "authorise", charge_id)
    return get(conn, charge_id)


def capture(conn, charge_id):
    with db.transaction(conn):
        charge = get(conn, charge_id)
        if charge["status"] != "authorised":
            raise Conflict(f"charge is {charge['status']}")
        entries.post(conn, charge_id, "processor", "merchant", charge["amount"])
        conn.execute("UPDATE charges SET status = 'captured' WHERE id = ?", (charge_id,))
    return get(conn, charge_id)
