"""Refunds of captured charges."""

from ledger import charges, db, entries
from ledger.errors import Conflict


def refund_charge(conn, charge_id):
    """Give the whole charge back to the customer."""
    with db.transaction(conn):
        charge = charges.get(conn, charge_id)
        if charge["status"] != "captured":
            raise Conflict(f"charge is {charge['status']}")
        entries.post(conn, charge_id, "merchant", "processor", charge["amount"])
        conn.execute("UPDATE charges SET status = 'refunded' WHERE id = ?", (charge_id,))
    return charges.get(conn, charge_id)
