"""Which workers are alive: a beat that moves, by the reader's own monotonic clock, never a timestamp."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["BeatState", "BeatWatch"]


@dataclass(frozen=True, kw_only=True)
class BeatState:
    """What a reader has seen of a worker's beat.

    ``alive`` is None until the beat was seen to move or has stood still for the lease: one reading tells nothing.
    """

    alive: bool | None
    #: Seconds since the beat was last seen to move, or since it was first seen.
    silent_seconds: float


@dataclass
class _Seen:
    beat: int
    since: float
    has_moved: bool = False


class BeatWatch:
    """Remembers beats between readings; one a reader."""

    def __init__(self, lease_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease_seconds
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def read(self, beats: Iterable[tuple[str, int]]) -> dict[str, BeatState]:
        """The state of every worker of one reading, by name; workers that are not in it are forgotten."""
        now = self._clock()
        seen: dict[str, _Seen] = {}
        for name, beat in beats:
            known = self._seen.get(name)
            if known is None:
                known = _Seen(beat, now)
            elif known.beat != beat:
                known = _Seen(beat, now, has_moved=True)
            seen[name] = known
        self._seen = seen
        return {name: self._state(known, now - known.since) for name, known in seen.items()}

    def _state(self, known: _Seen, silent: float) -> BeatState:
        alive = False if silent >= self._lease else (True if known.has_moved else None)
        return BeatState(alive=alive, silent_seconds=silent)
