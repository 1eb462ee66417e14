from ledger import charges, refunds, report


def test_settlement(conn):
    kept = charges.authorise(conn, "cus_1", 1000, "EUR")
    charges.capture(conn, kept["id"])
    returned = charges.authorise(conn, "cus_2", 300, "EUR")
    charges.capture(conn, returned["id"])
    refunds.refund_charge(conn, returned["id"])
    charges.authorise(conn, "cus_3", 99, "EUR")
    day = kept["created_at"][:10]
    assert report.settlement(conn, day, "EUR") == {"gross": 1300, "refunded": 300, "net": 1000}
