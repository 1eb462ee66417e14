import pytest

from ledger.errors import InvalidAmount
from ledger.money import format_amount, parse_amount


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [("12.34", "EUR", 1234), ("0.29", "USD", 29), ("19.99", "GBP", 1999), ("500", "JPY", 500)],
)
def test_round_trip(text, currency, minor):
    assert parse_amount(text, currency) == minor
    assert format_amount(minor, currency) == text


@pytest.mark.parametrize("text", ["1.234", "x", "NaN"])
def test_refused(text):
    with pytest.raises(InvalidAmount):
        parse_amount(text, "EUR")
