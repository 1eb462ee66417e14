"""Double-entry postings. Every posting is a balanced pair."""

from ledger import db


def post(conn, charge_id, debit, credit, amount):
    stamp = db.now()
    conn.executemany(
        "INSERT INTO entries (charge_id, account, amount, posted_at) VALUES (?, ?, ?, ?)",
        [(charge_id, debit, amount, stamp), (charge_id, credit, -amount, stamp)],
    )


def balance(conn, account):
    row = conn.execute(
        "SELECT COALESCE(SUM(amount), 0) FROM entries WHERE account = ?", (account,)
    ).fetchone()
    return row[0]
