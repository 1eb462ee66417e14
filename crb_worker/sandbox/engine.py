"""The connection to the Docker engine: one client a process, its errors in plain words, and what the engine can do."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import docker
import docker.errors
import docker.types
import docker.utils
import requests
import urllib3

from crb_core.agent import Outcome
from crb_core.errors import UnavailableError
from crb_worker.sandbox.connection import connect
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls, is_read_timeout
from crb_worker.sandbox.engine_formats import log_frames
from crb_worker.sandbox.mounts import fits_overlay_options
from crb_worker.sandbox.output import OutputError
from crb_worker.sandbox.probe import can_mount, remove_dead_probes

__all__ = ["ENGINE_TIMEOUT", "Engine", "WaitState"]

#: Seconds to wait for one answer of the engine.
ENGINE_TIMEOUT = 120
#: Oldest API that has everything used here (engine 19.03).
_MINIMUM_API = "1.40"
#: Seconds to wait for the answer to a kill, which other threads may be waiting behind.
_KILL_TIMEOUT = 10
#: Seconds between two tries while the engine is away.
_RETRY_INTERVAL = 0.5
_REMEDY = "Start the Docker engine and let this user reach its socket, or use the process runner for the bundled agents"


class WaitState(Enum):
    """What waiting for a container showed."""

    #: It does not run any more, or is gone.
    ENDED = "ended"
    #: It still runs, as far as is known.
    RUNNING = "running"
    #: The connection broke or the engine failed; nothing is known of the container.
    BROKEN = "broken"


class Engine:
    """The engine that ``DOCKER_HOST`` names, else the local one.

    ``slots`` is how many attempts run at once; the connection pool holds two for each and some for other calls.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._api: docker.APIClient | None = None
        self._overlay: dict[Path, bool] = {}

    @property
    def api(self) -> docker.APIClient:
        """The client; UnavailableError while the engine does not answer."""
        with self._lock:
            if self._api is None:
                self._api = self._connect()
            return self._api

    def _connect(self) -> docker.APIClient:
        try:
            return connect(timeout=ENGINE_TIMEOUT, connections=2 * self._slots + 8)
        except (docker.errors.DockerException, requests.RequestException, OSError):
            where = os.environ.get("DOCKER_HOST", "the local socket").rpartition("@")[2]
            raise UnavailableError(f"no Docker engine answers at {where}", remedy=_REMEDY) from None

    def close(self) -> None:
        with self._lock:
            if self._api is not None:
                self._api.close()
                self._api = None

    def check(self) -> None:
        """UnavailableError if the engine is absent, too old or not one for Linux containers."""
        try:
            with engine_calls("its version"):
                version = self.api.version()
        except EngineFailureError as error:
            raise UnavailableError(error.problem, remedy=_REMEDY) from None
        if docker.utils.version_lt(version["ApiVersion"], _MINIMUM_API):
            raise UnavailableError(
                f"the Docker engine {version.get('Version', '')} is too old", remedy="Install 19.03 or later"
            )
        if version.get("Os", "linux") != "linux":
            raise UnavailableError(
                f"the Docker engine runs {version['Os']} containers", remedy="Switch it to Linux containers"
            )

    def leaves_hypervisor_open(self) -> bool:
        """Whether containers may open sockets to a hypervisor (AF_VSOCK), which no network namespace holds.

        Engines before 23 (API 1.42) do not filter them. EngineFailureError.
        """
        with engine_calls("its version"):
            return bool(docker.utils.version_lt(self.api.version()["ApiVersion"], "1.42"))

    def has_overlay(self, workspace: Path) -> bool:
        """Whether an attempt folder in ``workspace`` can carry an overlay volume. Probed once a process.

        EngineFailureError while the engine does not answer.
        """
        with self._lock:
            known = self._overlay.get(workspace)
        if known is None:
            known = fits_overlay_options(workspace) and can_mount(self.api, workspace, overlay=True)
            with self._lock:
                self._overlay.setdefault(workspace, known)
        return known

    def distrust_overlay(self, workspace: Path) -> None:
        """An overlay failed to mount although the probe passed: copy from now on."""
        with self._lock:
            self._overlay[workspace] = False

    def can_overlay(self, workspace: Path, lower: Path) -> bool:
        """Whether an attempt in ``workspace`` can have ``lower`` as an overlay. See ``has_overlay``."""
        return fits_overlay_options(lower) and self.has_overlay(workspace)

    def sees_folder(self, workspace: Path) -> bool:
        """Whether the engine mounts this machine's folder, and not a folder of the same name on another machine."""
        return can_mount(self.api, workspace, overlay=False)

    def network_names(self, name: str) -> list[str]:
        """Names of the engine's networks that hold ``name``. EngineFailureError."""
        with engine_calls("listing networks"):
            return [str(each["Name"]) for each in self.api.networks(names=[name])]

    def wait(self, container: str, seconds: float) -> WaitState:
        """Wait for the container's end, at most ``seconds``.

        The answer's exit code is not looked at: on a container that never started it is 0.
        """
        try:
            answer = self.api.post(self._url(container, "wait"), timeout=seconds)
        except (UnavailableError, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            return WaitState.RUNNING if is_read_timeout(error) else WaitState.BROKEN
        return WaitState.ENDED if answer.status_code in {200, 404} else WaitState.BROKEN

    def kill(self, container: str) -> None:
        """Send SIGKILL. What is not running, or an engine that does not answer soon, is no error: the waiting
        thread sees it."""
        with contextlib.suppress(UnavailableError, requests.RequestException, OSError):
            self.api.post(self._url(container, "kill"), timeout=_KILL_TIMEOUT)

    def inspect(self, container: str, patience: float = 0.0) -> dict[str, Any]:
        """The engine's facts of a container, asked for ``patience`` seconds while the engine is away."""
        until = time.monotonic() + patience
        while True:
            try:
                with engine_calls("inspecting a container"):
                    return dict(self.api.inspect_container(container))
            except EngineFailureError as error:
                if error.status is not None or time.monotonic() >= until:
                    raise
            time.sleep(_RETRY_INTERVAL)

    def is_running(self, container: str, patience: float) -> tuple[bool, bool]:
        """Whether a container runs, and whether it is paused; asked for ``patience`` seconds, and no longer where the
        engine takes the question and is silent. EngineFailureError."""
        until = time.monotonic() + patience
        while True:
            try:
                with engine_calls("asking after a container"):
                    answer = self.api.get(self._url(container, "json"), timeout=max(1.0, until - time.monotonic()))
                    if answer.status_code == 404:
                        return False, False
                    answer.raise_for_status()
                    state = answer.json()["State"]
                    return bool(state.get("Running")), bool(state.get("Paused"))
            except EngineFailureError:
                if time.monotonic() >= until:
                    raise
            time.sleep(_RETRY_INTERVAL)

    def was_paused(self, container: str) -> bool:
        """Whether the engine has paused the container at some time. An agent cannot do that."""
        return self._first_event(container, ["pause"], patience=0.0) is not None

    def reason_of_death(self, container: str, *, patience: float) -> str | None:
        """``oom`` or ``kill`` if the engine saw that happen to the container, the first of the two; None if neither.

        What an agent does to itself is no event of the engine. The report of an oom can come after the container's
        end, hence ``patience`` seconds.
        """
        return self._first_event(container, ["kill", "oom"], patience=patience)

    def _first_event(self, container: str, kinds: list[str], *, patience: float) -> str | None:
        """The first event of these kinds; None where there was none, or where the engine does not say."""
        filters = {"container": container, "event": kinds}
        # As text, since the SDK cuts a time to whole seconds; from the beginning, since clocks step.
        times: dict[str, Any] = {"since": "1", "until": f"{time.time() + patience:.6f}"}
        try:
            with engine_calls("reading its events"):
                events = self.api.events(**times, filters=filters, decode=True)
                with contextlib.closing(events):
                    for event in events:
                        return str(event["Action"])
        except EngineFailureError:
            pass
        return None

    def logs(self, container: str) -> Iterator[tuple[int, bytes]]:
        """What a container printed, in order: (1 for stdout or 2 for stderr, bytes). EngineFailureError."""
        # The SDK's own call inspects the container first and mixes the two streams.
        query = {"stdout": 1, "stderr": 1}
        with engine_calls("reading a container's log"):
            response = self.api.get(self._url(container, "logs"), params=query, stream=True, timeout=ENGINE_TIMEOUT)
            with contextlib.closing(response):
                response.raise_for_status()
                yield from log_frames(response.iter_content(64 * 1024))

    def read_file(self, container: str, path: str, max_bytes: int) -> bytes:
        """The file ``path`` of an ended container. OutputError as in ``read_findings_file``, EngineFailureError."""
        try:
            with engine_calls("reading the findings file"):
                chunks, _ = self.api.get_archive(container, path)
                head = bytearray()
                for chunk in chunks:
                    head += chunk
                    if len(head) > max_bytes + 64 * 1024:
                        break
        except EngineFailureError as error:
            if error.status == 404:
                raise OutputError(Outcome.OUTPUT_MISSING, "the agent wrote no findings file") from None
            raise
        with tarfile.open(fileobj=io.BytesIO(head), mode="r|") as tar:
            entry = tar.next()
            if entry is None or not entry.isreg():
                raise OutputError(Outcome.OUTPUT_INVALID, "the findings file is not a regular file")
            if entry.size > max_bytes:
                raise OutputError(
                    Outcome.OUTPUT_TOO_LARGE, f"the findings file is larger than the limit of {max_bytes} bytes"
                )
            content = tar.extractfile(entry)
            return content.read(max_bytes) if content is not None else b""

    def _url(self, container: str, action: str) -> str:
        return f"{self.api.base_url}/v{self.api.api_version}/containers/{container}/{action}"

    def remove_dead_probes(self, workspace: Path) -> list[str]:
        """See ``probe.remove_dead_probes``."""
        return remove_dead_probes(self.api, workspace)
