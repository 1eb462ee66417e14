"""Where an attempt's time went: the split that trials show, distributions summarise and histograms count.

A sandbox notes finer phases (create, start, wait, permit); the split has one name a question that an operator asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["SPLIT", "split"]

#: The parts in the order in which they happen, with the noted phases that each is made of. ``review`` is review_ms:
#: create, start and wait lie inside it.
SPLIT: dict[str, tuple[str, ...]] = {
    "queue": ("queue",),
    "prepare": ("snapshot", "prepare", "egress"),
    "pull": ("pull",),
    "slot": ("slot", "permit"),
    "review": (),
    "collect": ("collect",),
    "teardown": ("teardown",),
}


def split(phases_ms: Mapping[str, Any] | None, review_ms: float | None) -> dict[str, float]:
    """Milliseconds by part of the split, in its order; what was not measured is absent, never 0.

    ``phases_ms`` is what the attempt's row holds. For ``{"queue": 5, "snapshot": 20, "prepare": 30, "wait": 900}`` and
    a review of 950 ms it is ``{"queue": 5, "prepare": 50, "review": 950}``.
    """
    found: dict[str, float] = {}
    for part, names in SPLIT.items():
        if part == "review":
            values: list[Any] = [review_ms]
        else:
            values = [(phases_ms or {}).get(name) for name in names]
        measured = [float(value) for value in values if _is_duration(value)]
        if measured:
            found[part] = math.fsum(measured)
    return found


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
