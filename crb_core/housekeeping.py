"""What may be removed to make room: a pure rule over things that can be made again or that nobody names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Thing", "choose_removals"]


@dataclass(frozen=True, kw_only=True)
class Thing:
    """A blob, a cached snapshot or an image.

    ``size`` in bytes, ``last_used`` in seconds since the epoch (None where nobody knows: such a thing is kept).
    ``kept_because`` names who needs it; None is nobody.
    """

    kind: str
    name: str
    shown_as: str
    size: int
    last_used: float | None
    kept_because: str | None = None


def choose_removals(
    things: Sequence[Thing], *, now: float, older_than: float, max_bytes: int | None, young: float
) -> list[Thing]:
    """What goes, the longest unused first: everything that nobody needs and that was last used ``older_than`` seconds

    ago; and, while the kind still holds more than ``max_bytes``, younger things that nobody needs, none of them used
    within ``young`` seconds. What is needed counts towards ``max_bytes`` and stays.
    """
    free = sorted(
        (thing for thing in things if thing.kept_because is None and thing.last_used is not None),
        key=lambda thing: (thing.last_used, thing.kind, thing.name),
    )
    left = sum(thing.size for thing in things)
    chosen = []
    for thing in free:
        unused = now - (thing.last_used or 0.0)
        over = max_bytes is not None and left > max_bytes
        if unused >= older_than or (over and unused >= young):
            chosen.append(thing)
            left -= thing.size
    return chosen
