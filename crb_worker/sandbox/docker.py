"""The Docker sandbox: a fresh container for every attempt."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from crb_core.agent import Outcome
from crb_core.errors import UnavailableError
from crb_core.runners import RUNNERS
from crb_worker.sandbox.container import ContainerRun
from crb_worker.sandbox.contract import AttemptRequest, AttemptResult, LiveAttempts, ResolvedImage
from crb_worker.sandbox.control import Permits, Registry, RunSlots
from crb_worker.sandbox.egress import Egress
from crb_worker.sandbox.egress_options import EgressOptions
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError
from crb_worker.sandbox.images import Images
from crb_worker.sandbox.reaper import Janitor, Leftovers

__all__ = ["BASE_IMAGE", "DockerSandbox"]

#: Slots that the engine's connections are enough for, however few a worker starts with.
RESIZABLE_TO = 64

#: Holds ``rm`` for what a farm that is not root may not remove; any image with ``rm`` would do.
BASE_IMAGE = "crb/base:bookworm"


class DockerSandbox:
    """Runs attempts in containers: without a network, or with a way to the hosts that their build declares.

    ``slots`` is how many agents run at once in this process, ``permits`` how many of them create and start a
    container at the same time (by default the number of cores: more only makes each start slower, and the time of a
    start is part of ``review_ms``). ``workspace`` is where attempts' folders are; ``check`` probes it and ``reap``
    cleans it, beside those that this process or a left container names. ``egress`` says how declared hosts are
    reached.
    """

    name = "docker"
    isolated = RUNNERS["docker"].isolated
    limitations: tuple[str, ...] = RUNNERS["docker"].limitations

    def __init__(
        self,
        *,
        slots: int,
        permits: int | None = None,
        workspace: Path | None = None,
        janitor_image: str = BASE_IMAGE,
        egress: EgressOptions | None = None,
    ) -> None:
        # While one agent runs in each slot, another may be prepared and a third collected.
        self._engine = Engine(3 * max(slots, RESIZABLE_TO))
        self._slots = RunSlots(slots)
        self._images = Images(self._engine)
        self._janitor = Janitor(self._engine, janitor_image)
        self._egress = Egress(self._engine, self._images, egress or EgressOptions())
        self._permits = Permits(permits or os.cpu_count() or 1)
        self._registry = Registry()
        self._host = socket.gethostname()
        self._workspace = workspace
        self._workspaces: set[Path] = set() if workspace is None else {workspace}

    def check(self) -> None:
        """UnavailableError unless the engine answers, runs Linux containers and sees the workspace."""
        self._engine.check()
        if self._workspace is None:
            return
        try:
            seen = self._engine.has_overlay(self._workspace) or self._engine.sees_folder(self._workspace)
        except EngineFailureError as error:
            raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None
        if not seen:
            raise UnavailableError(
                f"the Docker engine cannot mount the folder {self._workspace}",
                remedy="Use an engine of this machine, or a CRB_HOME that it may mount",
            )

    def has_overlay(self, workspace: Path) -> bool:
        """Whether checkouts in ``workspace`` are overlays (cheap) or plain copies. UnavailableError."""
        try:
            return self._engine.has_overlay(workspace)
        except EngineFailureError as error:
            raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None

    def resolve(self, reference: str, *, pull: bool = True) -> ResolvedImage:
        """See ``Images.resolve``."""
        return self._images.resolve(reference, pull=pull)

    def run(self, request: AttemptRequest) -> AttemptResult:
        """Run one attempt to its end, blocking. InputError only for an attempt that already runs here."""
        with self._registry.running(request) as control:
            self._workspaces.add(request.workspace)
            return ContainerRun(
                request,
                control,
                engine=self._engine,
                images=self._images,
                slots=self._slots,
                permits=self._permits,
                janitor=self._janitor,
                egress=self._egress,
                host=self._host,
            ).run()

    def stop(self, attempt_id: str, outcome: Outcome) -> bool:
        """End a running attempt, from any thread; its ``run`` returns ``outcome``."""
        return self._registry.stop(attempt_id, outcome)

    def resize(self, slots: int) -> None:
        """See ``Sandbox.resize``."""
        self._slots.resize(slots)

    def reap(self, farm: str, live_attempt_ids: LiveAttempts) -> list[str]:
        """See ``Sandbox.reap``. UnavailableError if the engine does not answer."""
        leftovers = Leftovers(self._engine, farm, set(self._workspaces))
        try:
            leftovers.find()
        except EngineFailureError as error:
            raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None
        return leftovers.remove(self._registry.live(live_attempt_ids), self._janitor)

    def close(self) -> None:
        """Release connections, and remove what the pool of networks and proxies holds."""
        self._egress.close()
        self._engine.close()
