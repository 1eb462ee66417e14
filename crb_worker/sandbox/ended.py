"""How a container ended, or why it did not start, by what the engine says of it."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass

from crb_worker.sandbox.control import Stop
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError
from crb_worker.sandbox.engine_formats import engine_milliseconds, engine_nanoseconds
from crb_worker.sandbox.verdict import Ending

__all__ = ["ENGINE_PATIENCE", "EngineTimes", "how_it_ended", "is_the_images_fault"]

#: Seconds that the engine may be away (a restart) before the attempt is given up.
ENGINE_PATIENCE = 30.0
#: Seconds by which the engine's report of an oom may come after the end of its container.
_OOM_PATIENCE = 1.0
#: Seconds by which a busy machine may tell of an end late. Later, and nobody measured how long the agent took.
LATE_SECONDS = 5.0
#: Exit codes that the engine gives to a container whose command cannot be run, and to one whose mounts or control
#: groups are refused; the words tell which: the command itself, the folder that the image wants it in, or a declared
#: secret's file in the place of a folder.
_NOT_STARTED = (126, 127)
_OF_THE_COMMAND = ("exec: ", "executable file", "chdir to cwd", "mount a directory onto a file")
_OF_THE_USER = ("in passwd file", "in group file")


def is_the_images_fault(exit_code: int | None, problem: str) -> bool:
    """Whether a container that could not be started failed by its image, by its code and what the engine said."""
    is_of_the_command = exit_code in _NOT_STARTED and any(word in problem for word in _OF_THE_COMMAND)
    return is_of_the_command or any(word in problem for word in _OF_THE_USER)


@dataclass(frozen=True, kw_only=True)
class EngineTimes:
    """The engine's own times of a container: how long it ran in ms, and when it ended (seconds since the epoch).

    None where it has none.
    """

    ran_ms: float | None = None
    ended_at: float | None = None

    def told_late(self, noticed_at: float) -> float | None:
        """Seconds by which the engine told of the end late, by the clock that it has in common with this process.

        None where that is no more than a busy machine takes, and where there may be no such clock: an engine elsewhere,
        or one in a virtual machine of another system.
        """
        is_here = sys.platform == "linux" and os.environ.get("DOCKER_HOST", "unix://").startswith("unix://")
        if not is_here or self.ended_at is None or self.ran_ms is None:
            return None
        late = noticed_at - self.ended_at
        return late if late > LATE_SECONDS else None


def how_it_ended(engine: Engine, container: str, stop: Stop | None) -> tuple[Ending, EngineTimes]:
    """The ending of a container that was waited for, and the engine's times of it.

    ``stop`` is the farm's own reason, if it ended the container.
    """
    try:
        state = engine.inspect(container, ENGINE_PATIENCE)["State"]
    except EngineFailureError as error:
        gone = "The container was removed from outside the farm while the agent ran."
        return Ending(stop=stop, problem=gone if error.status == 404 else f"{error.problem}."), EngineTimes()
    if state.get("Running"):
        return Ending(stop=stop, problem="The engine reported the end of a container that still runs."), EngineTimes()
    exit_code = state.get("ExitCode")
    problem = None
    out_of_memory = bool(state.get("OOMKilled"))
    if state.get("Error"):
        problem = f"The engine reports an error of the container: {state['Error']}."
    elif stop is None and (exit_code or 0) > 128 and not out_of_memory:
        reason = engine.reason_of_death(container, patience=_OOM_PATIENCE if exit_code == 128 + signal.SIGKILL else 0.0)
        out_of_memory = reason == "oom"
        if reason == "kill":
            problem = "The container was killed from outside the farm (by a person, or by the engine as it shut down)."
    ended = engine_nanoseconds(state.get("FinishedAt"))
    return (
        Ending(stop=stop, problem=problem, out_of_memory=out_of_memory, exit_code=exit_code),
        EngineTimes(
            ran_ms=engine_milliseconds(state.get("StartedAt"), state.get("FinishedAt")),
            ended_at=None if ended is None else ended / 1e9,
        ),
    )
