"""Where an attempt's time went: the split that trials show, distributions summarise and histograms count.

A sandbox notes finer phases (create, start, wait, permit); the split has one name a question that an operator asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["SPLIT", "split"]

#: The parts in the order in which they happen, with the noted phases that each is made of. ``review`` is review_ms, of
#: which its phases are parts; they stand for it where the attempt ended before it was measured.
SPLIT: dict[str, tuple[str, ...]] = {
    "queue": ("queue",),
    "prepare": ("snapshot", "prepare", "egress"),
    "pull": ("pull",),
    "slot": ("slot", "permit"),
    "review": ("create", "start", "wait"),
    "collect": ("collect", "store"),
    "teardown": ("teardown",),
}


def split(phases_ms: Mapping[str, Any] | None, review_ms: float | None) -> dict[str, float]:
    """Milliseconds by part of the split, in its order; what was not measured is absent, never 0.

    Together they are the attempt's time from its publishing until its result was stored. ``phases_ms`` is what the
    attempt's row holds. For ``{"queue": 5, "snapshot": 20, "prepare": 30, "wait": 900}`` and a review of 950 ms it is
    ``{"queue": 5, "prepare": 50, "review": 950}``.
    """
    found: dict[str, float] = {}
    for part, names in SPLIT.items():
        values: list[Any] = [(phases_ms or {}).get(name) for name in names]
        if part == "review" and _is_duration(review_ms):
            values = [review_ms]
        measured = [float(value) for value in values if _is_duration(value)]
        if measured:
            found[part] = math.fsum(measured)
    return found


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
