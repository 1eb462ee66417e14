"""Tokens and time of a review, as the API reported them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Usage"]


@dataclass
class Usage:
    """Sums over all replies. A count that any reply did not report is unknown, and stays out of the result.

    ``prompt`` holds all input tokens, those written to and read from the cache included. ``models`` are those that
    answered, by the names that the API gave them.
    """

    prompt: int | None = 0
    completion: int | None = 0
    cached: int | None = 0
    milliseconds: float = 0.0
    models: set[str] | None = field(default_factory=set)

    def add(self, reported: Any, milliseconds: float, model: Any) -> None:
        """Add one reply's ``usage`` (None where it had none), the time that its request took in ms, and its model."""
        if self.models is not None and isinstance(model, str) and model.strip():
            self.models.add(model)
        else:
            self.models = None
        plain = _count(reported, "input_tokens")
        written = _count(reported, "cache_creation_input_tokens")
        read = _count(reported, "cache_read_input_tokens")
        self.prompt = _sum(self.prompt, None if plain is None else plain + (written or 0) + (read or 0))
        self.completion = _sum(self.completion, _count(reported, "output_tokens"))
        self.cached = _sum(self.cached, read)
        self.milliseconds += milliseconds

    @property
    def spent(self) -> int:
        """The tokens known to be used so far, those read from the cache left out: what the budget counts."""
        return (self.prompt or 0) + (self.completion or 0) - (self.cached or 0)

    def report(self) -> dict[str, Any]:
        """The ``usage`` of the findings file. It holds no cost: the API reports none."""
        total = None if self.prompt is None or self.completion is None else self.prompt + self.completion
        known = {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": total,
            "cached_tokens": self.cached,
            "time_in_ms": round(self.milliseconds),
            "models": sorted(self.models) if self.models else None,
        }
        return {name: value for name, value in known.items() if value is not None}


def _count(reported: Any, name: str) -> int | None:
    value = getattr(reported, name, None)
    return value if type(value) is int and value >= 0 else None


def _sum(total: int | None, value: int | None) -> int | None:
    return None if total is None or value is None else total + value
