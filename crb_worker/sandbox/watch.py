"""Watching a container until nothing of its agent runs: its time, its disk, and an engine that breaks or hangs."""

from __future__ import annotations

import time

from crb_core.agent import Limits, Outcome
from crb_worker.sandbox.control import Control, Stop
from crb_worker.sandbox.disk import DiskWatch
from crb_worker.sandbox.ended import ENGINE_PATIENCE
from crb_worker.sandbox.engine import Engine, WaitState
from crb_worker.sandbox.engine_failures import EngineFailureError

__all__ = ["AgentWatch", "too_slow"]

#: Seconds that a killed container may take to be gone before it is left to the reaper.
_KILL_GRACE = 20.0


def too_slow(limits: Limits) -> Stop:
    """What ends an agent whose time is over."""
    return Stop(Outcome.TIMEOUT, f"The agent was not done after {limits.timeout_seconds} seconds.")


class AgentWatch:
    """Watches one container that was started; used once."""

    def __init__(self, engine: Engine, container: str, control: Control, limits: Limits) -> None:
        self._engine = engine
        self._container = container
        self._control = control
        self._limits = limits

    def until_end(self, deadline: float, disk: DiskWatch) -> str | None:
        """Wait for the end, and make it come at ``deadline`` (monotonic) or where the disk's limit is passed.

        A sentence where the engine lost the container, None where it ended.
        """
        killed_at: float | None = None
        while True:
            now = time.monotonic()
            if now >= deadline and self._control.stopped is None:
                problem = self._end_of_time()
                if problem is not None:
                    return problem
            if self._control.stopped is not None:
                killed_at = killed_at or now
                if now - killed_at > _KILL_GRACE:
                    return "The engine did not end the container after it was killed."
                patience = 1.0
            else:
                patience = min(deadline - now, disk.seconds_to_next())
            state = self._engine.wait(self._container, max(0.02, patience))
            if state is WaitState.ENDED:
                return None
            if state is WaitState.BROKEN:
                problem = self._outlast_engine()
                if problem is not None:
                    return problem
            elif self._control.stopped is None:
                over = disk.check()
                if over is not None:
                    self._control.stop(over.outcome, over.detail)
            else:
                self._engine.kill(self._container)

    def _end_of_time(self) -> str | None:
        """The deadline has come: end the agent, if it was its own to use the time.

        A sentence where it was not, or where nobody can tell: an engine that hangs does not say that the agent ended.
        """
        try:
            running, paused = self._engine.is_running(self._container, ENGINE_PATIENCE)
        except EngineFailureError as error:
            return f"{error.problem}."
        if paused or (running and self._engine.was_paused(self._container)):
            return "The container was paused from outside the farm while the agent ran."
        if running:
            stop = too_slow(self._limits)
            self._control.stop(stop.outcome, stop.detail)
        return None

    def _outlast_engine(self) -> str | None:
        """The connection broke. None if the container still runs once the engine answers again."""
        try:
            state = self._engine.inspect(self._container, ENGINE_PATIENCE)["State"]
        except EngineFailureError as error:
            return f"{error.problem}."
        return (
            None
            if state.get("Running")
            else "The engine's connection broke while the agent ran, and it did not survive."
        )
