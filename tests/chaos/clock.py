"""A clock of the farm's own, which a test may step while the host's stays as it is (Debian's libfaketime)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import select, update

from crb_core.store.tables import StepState
from tests.chaos.farm import ChaosFarm
from tests.e2e.farm import steps

__all__ = ["FalseClock", "step_the_clock_back"]

#: Python sleeps until a moment of the monotonic clock, which libfaketime 0.9.10 turns into one before the start of time
#: when it leaves that clock alone: the sleep fails with EINVAL. A wait for no file is a plain length of time.
_SLEEP = """\
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""


class FalseClock:
    """The wall clock of every process that gets ``settings``; their monotonic clock is the host's."""

    def __init__(self, file: Path) -> None:
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not found:
            pytest.skip("no libfaketime (Debian's package libfaketime)")
        self._file = file
        at_start = file.parent / "python"
        at_start.mkdir()
        (at_start / "sitecustomize.py").write_text(_SLEEP)
        self.settings = {
            "PYTHONPATH": str(at_start),
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self._ahead = 0
        self.step(7200)

    def now(self) -> float:
        """What the farm's clock shows."""
        return time.time() + self._ahead

    def step(self, seconds: int) -> None:
        """Step the farm's clock. It begins two hours ahead, so that a step back does not go before the corpus was made.

        (A trial that seems older than its answer key is not ranked, rule 14.)
        """
        self._ahead += seconds
        new = self._file.with_suffix(".new")
        new.write_text(f"{self._ahead:+d}\n")
        new.rename(self._file)


def step_the_clock_back(farm: ChaosFarm, clock: FalseClock) -> None:
    """An hour, while a step backs off and another's message is lost: what is timed must not wait for the hour."""
    with farm.store.write() as connection:
        waiting = connection.execute(select(steps.c.id).where(steps.c.state == StepState.READY.value)).scalars().all()
        connection.execute(update(steps).where(steps.c.id == waiting[-1]).values(not_before=clock.now() + 5))
    with farm.fault("clock stepped back an hour"):
        farm.wait_for_steps_in_flight()
        clock.step(-3600)
        farm.broker.flush()
