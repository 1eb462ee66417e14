"""The connection to the Docker engine: one client a process, its errors in plain words, and what the engine can do."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
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
from crb_worker.sandbox.folder import remove_tree
from crb_worker.sandbox.output import OutputError
from crb_worker.sandbox.probe_folder import PROBE_LABEL, ProbeFolder, dead_probes

__all__ = [
    "ENGINE_TIMEOUT",
    "Engine",
    "EngineFailureError",
    "WaitState",
    "bind_mount",
    "engine_calls",
    "engine_milliseconds",
    "engine_nanoseconds",
    "is_read_timeout",
    "overlay_mount",
]

#: Seconds to wait for one answer of the engine.
ENGINE_TIMEOUT = 120
#: Oldest API that has everything used here (engine 19.03).
_MINIMUM_API = "1.40"
#: Seconds to wait for the answer to a kill, which other threads may be waiting behind.
_KILL_TIMEOUT = 10
_FRAME_HEADER = 8
_ENGINE_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")
#: Seconds between two tries while the engine is away.
_RETRY_INTERVAL = 0.5
_PROBE_REPOSITORY = "crb/probe"
_REMEDY = "Start the Docker engine and let this user reach its socket, or use the process runner for the bundled agents"


class WaitState(Enum):
    """What waiting for a container showed."""

    #: It does not run any more, or is gone.
    ENDED = "ended"
    #: It still runs, as far as is known.
    RUNNING = "running"
    #: The connection broke or the engine failed; nothing is known of the container.
    BROKEN = "broken"


class EngineFailureError(Exception):
    """The engine refused a call or did not answer. ``status`` is its HTTP status, None where it did not answer."""

    def __init__(self, problem: str, status: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.status = status


@contextlib.contextmanager
def engine_calls(doing: str) -> Iterator[None]:
    """Turns the SDK's many errors into EngineFailureError: ``doing`` names what was tried."""
    try:
        yield
    except docker.errors.APIError as error:
        status = error.response.status_code if error.response is not None else None
        raise EngineFailureError(f"The engine failed at {doing}: {_explanation(error)}", status) from None
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        kind = "did not answer in time" if is_read_timeout(error) else "cannot be reached"
        raise EngineFailureError(f"The engine {kind} at {doing}") from None


def _explanation(error: docker.errors.APIError) -> str:
    text = str(error.explanation or error)
    return " ".join(text.split())[:400]


def is_read_timeout(error: BaseException) -> bool:
    """Whether only our own patience ended: the SDK reports that in the same class as a broken connection."""
    if isinstance(error, requests.ReadTimeout | urllib3.exceptions.ReadTimeoutError):
        return True
    return isinstance(error, requests.ConnectionError) and any(
        isinstance(cause, urllib3.exceptions.ReadTimeoutError) for cause in error.args
    )


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
            known = _plain(workspace) and self._probe(workspace)
            with self._lock:
                self._overlay.setdefault(workspace, known)
        return known

    def distrust_overlay(self, workspace: Path) -> None:
        """An overlay failed to mount although the probe passed: copy from now on."""
        with self._lock:
            self._overlay[workspace] = False

    def can_overlay(self, workspace: Path, lower: Path) -> bool:
        """Whether an attempt in ``workspace`` can have ``lower`` as an overlay. See ``has_overlay``."""
        return _plain(lower) and self.has_overlay(workspace)

    def sees_folder(self, workspace: Path) -> bool:
        """Whether the engine mounts this machine's folder, and not a folder of the same name on another machine."""
        return self._probe(workspace, overlay=False)

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

    def reason_of_death(self, container: str, *, patience: float) -> str | None:
        """``oom`` or ``kill`` if the engine saw that happen to the container, the first of the two; None if neither.

        What an agent does to itself is no event of the engine. The report of an oom can come after the container's
        end, hence ``patience`` seconds.
        """
        filters = {"container": container, "event": ["kill", "oom"]}
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
                yield from _frames(response.iter_content(64 * 1024))

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

    def _probe(self, workspace: Path, *, overlay: bool = True) -> bool:
        """Mounts a folder in a container that never starts, writes through the engine, and looks on the host.

        It needs no image of anyone: an empty one is imported.
        """
        api = self.api
        try:
            folder = ProbeFolder(workspace)
        except OSError:
            return False
        lower, upper, layer = (folder.path / name for name in ("lower", "upper", "layer"))
        labels = {PROBE_LABEL: folder.id}
        image = f"{_PROBE_REPOSITORY}:{folder.id}"
        is_over = False
        try:
            for path in (lower, upper, layer):
                path.mkdir(mode=0o700)
            (lower / "old").write_text("old")
            mount = overlay_mount("/probe", lower, upper, layer, labels) if overlay else bind_mount("/probe", lower)
            with engine_calls("a probe"):
                api.import_image_from_data(_tar("marker", b""), repository=_PROBE_REPOSITORY, tag=folder.id)
                config = api.create_host_config(mounts=[mount], network_mode="none")
                container = api.create_container(image, ["none"], host_config=config, labels=labels)["Id"]
                api.put_archive(container, "/probe", _tar("new", b"new"))
                chunks, _ = api.get_archive(container, "/probe/old")
                found = b"".join(chunks)
            written, kept = (upper, lower) if overlay else (lower, upper)
            return b"old" in found and (written / "new").read_bytes() == b"new" and not (kept / "new").exists()
        except OSError:
            return False
        except EngineFailureError as error:
            if error.status is None:
                raise
            return False
        finally:
            with contextlib.suppress(EngineFailureError):
                self._end_probe(folder.id)
                is_over = True
            folder.close(remove=is_over)

    def _end_probe(self, probe: str) -> None:
        """Remove a probe's container, volume and image, as far as they are there. EngineFailureError."""
        ours = {"label": f"{PROBE_LABEL}={probe}"}
        with engine_calls("the end of a probe"):
            for container in self.api.containers(all=True, filters=ours):
                self.api.remove_container(container["Id"], v=True, force=True)
            for volume in self.api.volumes(filters=ours)["Volumes"] or []:
                self.api.remove_volume(volume["Name"])
            if self.api.images(f"{_PROBE_REPOSITORY}:{probe}"):
                self.api.remove_image(f"{_PROBE_REPOSITORY}:{probe}")

    def remove_dead_probes(self, workspace: Path) -> list[str]:
        """Remove what probes of killed processes left; one line for each that is gone."""
        removed = []
        for probe, folder in dead_probes(workspace):
            with contextlib.suppress(EngineFailureError):
                self._end_probe(probe)
                if remove_tree(folder):
                    removed.append(f"probe {probe} of a process that is gone")
        return removed


def _plain(path: Path) -> bool:
    """Whether the path can stand in the options of an overlay mount, which have no quoting that the engine keeps."""
    return not any(character in str(path) for character in ",:\\\"'") and str(path).isprintable()


def overlay_mount(target: str, lower: Path, upper: Path, layer: Path, labels: dict[str, str]) -> docker.types.Mount:
    """An anonymous volume that shows ``lower`` and keeps what is written in ``upper``; removed with its container."""
    return docker.types.Mount(
        target=target,
        source=None,
        type="volume",
        no_copy=True,
        labels=labels,
        driver_config=docker.types.DriverConfig(
            "local",
            {
                "type": "overlay",
                "device": "overlay",
                "o": f"lowerdir={lower},upperdir={upper},workdir={layer}",
            },
        ),
    )


def bind_mount(target: str, source: Path, *, read_only: bool = False) -> docker.types.Mount:
    """A folder or file of the host."""
    return docker.types.Mount(target=target, source=str(source), type="bind", read_only=read_only)


def _tar(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _frames(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The engine's stream format: one byte for the stream, three of padding, four of length, then the text."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        at = 0
        while len(buffer) - at >= _FRAME_HEADER:
            end = at + _FRAME_HEADER + int.from_bytes(buffer[at + 4 : at + 8], "big")
            if len(buffer) < end:
                break
            if buffer[at] in {1, 2}:
                yield buffer[at], bytes(buffer[at + _FRAME_HEADER : end])
            at = end
        del buffer[:at]


def engine_milliseconds(started: str | None, finished: str | None) -> float | None:
    """Between two of the engine's times (RFC 3339 with nanoseconds); None where one is its zero."""
    first, last = engine_nanoseconds(started), engine_nanoseconds(finished)
    if first is None or last is None or last < first:
        return None
    return (last - first) / 1_000_000


def engine_nanoseconds(text: str | None) -> int | None:
    """One of the engine's times in nanoseconds since the epoch; None where it is its zero or no time."""
    match = _ENGINE_TIME.match(text or "")
    if match is None or match[1].startswith("0001-"):
        return None
    whole = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    offset = timedelta()
    if match[3] != "Z":
        hours, minutes = match[3][1:].split(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if match[3][0] == "-" else 1)
    return int((whole - offset).timestamp()) * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))
