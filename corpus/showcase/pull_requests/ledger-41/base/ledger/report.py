"""The daily settlement report."""

from ledger.money import format_amount


def settlement(conn, day, currency):
    """Totals of the charges created on `day` ("2024-05-01"), in minor units."""
    rows = conn.execute(
        "SELECT status, COUNT(*) AS n, SUM(amount) AS total FROM charges"
        " WHERE currency = ? AND substr(created_at, 1, 10) = ?"
        " AND status IN ('captured', 'refunded')"
        " GROUP BY status",
        (currency, day),
    ).fetchall()
    totals = {row["status"]: row["total"] for row in rows}
    gross = sum(totals.values())
    refunded = totals.get("refunded", 0)
    return {"gross": gross, "refunded": refunded, "net": gross - refunded}


def render(conn, day, currency):
    figures = settlement(conn, day, currency)
    lines = [f"{day} {currency}"]
    for name in ("gross", "refunded", "net"):
        lines.append(f"{name:>10} {format_amount(figures[name], currency):>12}")
    return "\n".join(lines) + "\n"
