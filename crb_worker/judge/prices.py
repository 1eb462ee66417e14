"""List prices of Claude models: a dated table, good for an estimate and a budget, never shown as a charge (rule 21)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["PRICES", "TABLE", "Price", "TokenUsage", "list_price", "most_it_can_cost", "price_of"]

#: Day on which the table was taken from the service's public price list. Prices differ by day; this is one of them.
TABLE = "list price 2026-10"
_MILLION = 1_000_000
#: The Batches API costs half.
_BATCH = 0.5
#: A tokenizer that falls back to bytes makes at most one token of each; ordinary text has three to four bytes a token.
_BYTES_PER_TOKEN = 1


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD for a million tokens. ``cache_write`` is the five-minute cache's price.

    Where ``long_prompt`` is set, requests with more input tokens than that are priced by ``long``.
    """

    input: float
    output: float
    cache_write: float
    cache_read: float
    long_prompt: int | None = None
    long: Price | None = None


def _usual(input_: float, output: float, *, cache_read: float | None = None) -> Price:
    return Price(
        input=input_,
        output=output,
        cache_write=1.25 * input_,
        cache_read=0.1 * input_ if cache_read is None else cache_read,
    )


PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "claude-sonnet-5": _usual(2, 10),
        "claude-sonnet-5-5": _usual(2, 10, cache_read=0.1),
        "claude-sonnet-4-6": _usual(3, 15),
        "claude-sonnet-4-5": _usual(3, 15),
        "claude-opus-5-5": _usual(4, 20, cache_read=0.2),
        "claude-opus-5": _usual(5, 25),
        "claude-opus-4-8": _usual(5, 25),
        "claude-opus-4-7": _usual(5, 25),
        "claude-opus-4-6": _usual(5, 25),
        "claude-opus-4-5": _usual(5, 25),
        "claude-haiku-4-5": _usual(1, 5),
        "claude-haiku-5-5": Price(
            input=0.1,
            output=0.5,
            cache_write=0.125,
            cache_read=0.01,
            long_prompt=100_000,
            long=Price(input=0.5, output=2.5, cache_write=0.625, cache_read=0.05),
        ),
        # The loopback model costs nothing.
        "crb-loopback": _usual(0, 0),
    }
)


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """What an answer says it used; None where it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    service_tier: str | None = None


def price_of(model: str) -> Price | None:
    """The price of a model id; a trailing date (``-20250929``) is left out. None for a model without a list price."""
    return PRICES.get(model) or PRICES.get(re.sub(r"-[0-9]{8}$", "", model))


def list_price(model: str, usage: TokenUsage) -> float | None:
    """USD by list price. None where the model has no price or the answer did not report input and output tokens.

    Absent cache counts are zero: a service without a prompt cache does not report them.
    """
    price = price_of(model)
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    if price.long is not None and usage.input_tokens + read + written > (price.long_prompt or 0):
        price = price.long
    total = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + read * price.cache_read
        + written * price.cache_write
    ) / _MILLION
    return total * (_BATCH if usage.service_tier == "batch" else 1)


def most_it_can_cost(model: str, request_bytes: int, max_tokens: int, *, batch: bool = False) -> float | None:
    """USD that a request costs at most by list price; None for a model without one."""
    price = price_of(model)
    if price is None:
        return None
    tokens = request_bytes / _BYTES_PER_TOKEN
    if price.long is not None and tokens > (price.long_prompt or 0):
        price = price.long
    return (tokens * price.cache_write + max_tokens * price.output) / _MILLION * (_BATCH if batch else 1)
