import pytest

from ledger import charges, entries, refunds
from ledger.errors import Conflict


def captured(conn, amount=1000):
    charge = charges.authorise(conn, "cus_1", amount, "EUR")
    return charges.capture(conn, charge["id"])


def test_capture_posts_a_balanced_pair(conn):
    captured(conn)
    assert entries.balance(conn, "processor") == 1000
    assert entries.balance(conn, "merchant") == -1000


def test_same_key_same_charge(conn):
    first = charges.authorise(conn, "cus_1", 500, "EUR", key="k1")
    again = charges.authorise(conn, "cus_1", 500, "EUR", key="k1")
    assert first["id"] == again["id"]


def test_full_refund(conn):
    charge = captured(conn)
    assert refunds.refund_charge(conn, charge["id"])["status"] == "refunded"
    assert entries.balance(conn, "merchant") == 0


def test_second_refund_is_refused(conn):
    charge = captured(conn)
    refunds.refund_charge(conn, charge["id"])
    with pytest.raises(Conflict):
        refunds.refund_charge(conn, charge["id"])
