"""How a container ended, by what the engine says of it."""

from __future__ import annotations

import signal

from crb_worker.sandbox.control import Stop
from crb_worker.sandbox.engine import Engine, EngineFailureError, engine_milliseconds
from crb_worker.sandbox.verdict import Ending

__all__ = ["ENGINE_PATIENCE", "how_it_ended"]

#: Seconds that the engine may be away (a restart) before the attempt is given up.
ENGINE_PATIENCE = 30.0
#: Seconds by which the engine's report of an oom may come after the end of its container.
_OOM_PATIENCE = 1.0


def how_it_ended(engine: Engine, container: str, stop: Stop | None) -> tuple[Ending, float | None]:
    """The ending of a container that was waited for, and the engine's own time of it in ms, None where it has none.

    ``stop`` is the farm's own reason, if it ended the container.
    """
    try:
        state = engine.inspect(container, ENGINE_PATIENCE)["State"]
    except EngineFailureError as error:
        gone = "The container was removed from outside the farm while the agent ran."
        return Ending(stop=stop, problem=gone if error.status == 404 else f"{error.problem}."), None
    if state.get("Running"):
        return Ending(stop=stop, problem="The engine reported the end of a container that still runs."), None
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
    return (
        Ending(stop=stop, problem=problem, out_of_memory=out_of_memory, exit_code=exit_code),
        engine_milliseconds(state.get("StartedAt"), state.get("FinishedAt")),
    )
