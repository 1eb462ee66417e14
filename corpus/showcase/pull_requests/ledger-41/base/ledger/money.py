"""Amounts are integers in minor units; this module is the only text boundary."""

from decimal import Decimal, InvalidOperation

from ledger.errors import InvalidAmount

EXPONENTS = {"EUR": 2, "USD": 2, "GBP": 2, "JPY": 0}


def parse_amount(text, currency):
    """Turn "12.34" into 1234. Refuses more digits than the currency has."""
    try:
        exponent = EXPONENTS[currency]
    except KeyError:
        raise InvalidAmount(f"unknown currency {currency!r}") from None
    try:
        value = Decimal(str(text)).scaleb(exponent)
    except InvalidOperation:
        raise InvalidAmount(f"not an amount: {text!r}") from None
    if not value.is_finite() or value != value.to_integral_value():
        raise InvalidAmount(f"too many digits for {currency}: {text!r}")
    return int(value)


def format_amount(minor, currency):
    exponent = EXPONENTS[currency]
    return f"{Decimal(minor).scaleb(-exponent):.{exponent}f}"
