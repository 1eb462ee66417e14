"""How much an attempt has written: polled while it runs, so that a disk bomb ends within its limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from crb_core.agent import Outcome
from crb_worker.sandbox.control import Stop
from crb_worker.sandbox.folder import TooDeepError, disk_usage

__all__ = ["DiskWatch"]

_MIB = 1024 * 1024
#: Seconds between two measurements, at least.
_INTERVAL = 0.5
#: Measuring takes at most this share of the time, so that a tree of a million files does not occupy a core.
_SHARE = 0.1


class DiskWatch:
    """Compares what ``out`` and the other ``written`` folders use with a limit.

    ``baseline`` (bytes) was there before the agent and is not charged. ``more`` gives folders that are known only
    once the agent runs; ``unlisted_bytes`` what is in no folder that this process may look into.
    """

    def __init__(
        self,
        limit_mib: int,
        out: Path,
        written: Iterable[Path],
        *,
        baseline: int = 0,
        more: Callable[[], Iterable[Path] | None] = tuple,
        unlisted_bytes: Callable[[], int] = int,
    ) -> None:
        self._limit_mib = limit_mib
        self._out = out
        self._written = tuple(written)
        self._baseline = baseline
        self._more = more
        self._unlisted_bytes = unlisted_bytes
        self._all: tuple[Path, ...] | None = None
        self._next = time.monotonic() + _INTERVAL

    def seconds_to_next(self) -> float:
        return max(0.0, self._next - time.monotonic())

    def check(self) -> Stop | None:
        """Measure if it is time to. A Stop if more is used than allowed."""
        began = time.monotonic()
        if began < self._next:
            return None
        try:
            stop = self._measure()
        except TooDeepError:
            stop = Stop(Outcome.NONZERO_EXIT, "The agent nested folders deeper than can be measured and was ended.")
        ended = time.monotonic()
        self._next = ended + max(_INTERVAL, (ended - began) / _SHARE)
        return stop

    def _measure(self) -> Stop | None:
        limit = self._limit_mib * _MIB
        places = self._all
        if places is None:
            more = self._more()
            places = (self._out, *self._written, *(more or ()))
            if more is not None:
                self._all = places
        room = limit + self._baseline
        in_out = disk_usage(self._out, limit=limit)
        if in_out <= limit and disk_usage(*places, limit=room) + self._unlisted_bytes() <= room:
            return None
        # Once more, so that the output folder is the reason where it is one, however fast it grew meanwhile.
        in_out = max(in_out, disk_usage(self._out, limit=limit))
        if 2 * in_out > limit:
            most = "" if in_out > limit else " to disk, most of it"
            return Stop(
                Outcome.OUTPUT_TOO_LARGE,
                f"The agent wrote more than {self._limit_mib} MiB{most} into its output folder and was ended.",
            )
        return Stop(
            Outcome.NONZERO_EXIT,
            f"The agent wrote more than {self._limit_mib} MiB to disk (checkout, temporary files and output"
            " together) and was ended.",
        )
