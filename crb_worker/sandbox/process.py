"""The process sandbox: bundled agents as plain processes, where there is no engine. Not isolated."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

from crb_core.agent import Outcome
from crb_core.agent_source import AgentSource, load_agent
from crb_core.errors import CrbError, UnavailableError
from crb_core.runners import RUNNERS
from crb_worker.sandbox.contract import AttemptRequest, AttemptResult, LiveAttempts, ResolvedImage
from crb_worker.sandbox.control import Registry, RunSlots
from crb_worker.sandbox.folder import attempt_folders, remove_tree
from crb_worker.sandbox.process_run import ProcessRun

__all__ = ["ProcessSandbox"]


class ProcessSandbox:
    """Runs bundled agents as processes of this user.

    ``slots``, ``permits`` and ``workspace`` are those of DockerSandbox. ``agents`` is the folder of the agents that
    may run, by default the bundled ones.
    """

    name = "process"
    isolated = RUNNERS["process"].isolated
    limitations: tuple[str, ...] = RUNNERS["process"].limitations

    def __init__(
        self,
        *,
        slots: int = 1,
        permits: int | None = None,
        workspace: Path | None = None,
        agents: Path | None = None,
    ) -> None:
        self._slots = RunSlots(slots)
        self._permits = threading.BoundedSemaphore(permits or os.cpu_count() or 1)
        self._registry = Registry()
        self._host = socket.gethostname()
        self._workspaces: set[Path] = set() if workspace is None else {workspace}
        self._agents = agents

    def check(self) -> None:
        """UnavailableError on a system without the calls that hold an agent's processes together."""
        if sys.platform not in {"linux", "darwin"}:
            raise UnavailableError(
                f"the process runner does not work on {sys.platform}", remedy="Use a Docker engine, or Linux or macOS"
            )

    def resolve(self, reference: str, *, pull: bool = True) -> ResolvedImage:
        """The agent called ``reference`` as it is now: its id is the SHA-256 of its folder. Nothing is ever pulled."""
        del pull
        return ResolvedImage(reference=reference, image_id=self._source(reference).digest)

    def run(self, request: AttemptRequest) -> AttemptResult:
        """Run one attempt to its end, blocking. InputError only for an attempt that already runs here."""
        with self._registry.running(request) as control:
            self._workspaces.add(request.workspace)
            return ProcessRun(
                request,
                control,
                find_agent=self._source,
                slots=self._slots,
                permits=self._permits,
                host=self._host,
            ).run()

    def stop(self, attempt_id: str, outcome: Outcome) -> bool:
        """End a running attempt, from any thread; its ``run`` returns ``outcome``."""
        return self._registry.stop(attempt_id, outcome)

    def resize(self, slots: int) -> None:
        """See ``Sandbox.resize``."""
        self._slots.resize(slots)

    def reap(self, farm: str, live_attempt_ids: LiveAttempts) -> list[str]:
        """See ``Sandbox.reap``. Processes end with the farm's process, so only folders can be left."""
        found = [item for workspace in sorted(self._workspaces) for item in attempt_folders(workspace, farm)]
        live = self._registry.live(live_attempt_ids)
        return [
            f"folder {path.name} of attempt {attempt}"
            for attempt, path in found
            if attempt not in live and remove_tree(path)
        ]

    def close(self) -> None:
        """Nothing is held."""

    def _source(self, name: str) -> AgentSource:
        try:
            source = load_agent(self._agents / name if self._agents is not None else name)
        except CrbError as error:
            raise UnavailableError(f"the process runner cannot run the agent {name}: {error.problem}") from None
        if not source.is_bundled and self._agents is None:
            raise UnavailableError(
                f"the process runner runs bundled agents only, and {name} is none",
                remedy="Use a Docker engine for other people's agents",
            )
        if not source.process_argv:
            raise UnavailableError(
                f"the agent {name} cannot run as a process", remedy="Use a Docker engine for it (--runner docker)"
            )
        return source
