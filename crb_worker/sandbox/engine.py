"""The connection to the Docker engine: one client a process, its errors in plain words, and what the engine can do."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import docker.types
import requests
import urllib3

from crb_core.errors import UnavailableError
from crb_worker.sandbox.folder import remove_tree

__all__ = ["ENGINE_TIMEOUT", "Engine", "EngineFailureError", "bind_mount", "engine_calls", "is_read_timeout", "overlay_mount"]

#: Seconds to wait for one answer of the engine.
ENGINE_TIMEOUT = 120
#: Oldest API that has everything used here (engine 19.03).
_MINIMUM_API = "1.40"
_PROBE_REPOSITORY = "crb/probe"
_REMEDY = "Start the Docker engine and let this user reach its socket, or use the process runner for the bundled agents"


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
            return docker.APIClient(
                version="auto",
                timeout=ENGINE_TIMEOUT,
                max_pool_size=2 * self._slots + 8,
                num_pools=4,
                **docker.utils.kwargs_from_env(),
            )
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

    def sees_folder(self, workspace: Path) -> bool:
        """Whether the engine mounts this machine's folder, and not a folder of the same name on another machine."""
        return self._probe(workspace, overlay=False)

    def _probe(self, workspace: Path, *, overlay: bool = True) -> bool:
        """Mounts a folder in a container that never starts, writes through the engine, and looks on the host.

        It needs no image of anyone: an empty one is imported.
        """
        api = self.api
        folder = workspace / f"probe-{uuid.uuid4().hex}"
        lower, upper, layer = folder / "lower", folder / "upper", folder / "layer"
        tag = uuid.uuid4().hex
        container: str | None = None
        try:
            workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in (folder, lower, upper, layer):
                path.mkdir(mode=0o700)
            (lower / "old").write_text("old")
            mount = overlay_mount("/probe", lower, upper, layer, {}) if overlay else bind_mount("/probe", lower)
            with engine_calls("a probe"):
                api.import_image_from_data(_tar("marker", b""), repository=_PROBE_REPOSITORY, tag=tag)
                config = api.create_host_config(mounts=[mount], network_mode="none")
                created = api.create_container(f"{_PROBE_REPOSITORY}:{tag}", ["none"], host_config=config)
                container = created["Id"]
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
            with contextlib.suppress(EngineFailureError), engine_calls("the end of a probe"):
                if container is not None:
                    api.remove_container(container, v=True, force=True)
                api.remove_image(f"{_PROBE_REPOSITORY}:{tag}")
            remove_tree(folder)


def _plain(path: Path) -> bool:
    """Whether the path can stand in the options of an overlay mount, which have no quoting that the engine keeps."""
    return not any(character in str(path) for character in ",:\\\"'") and str(path).isprintable()


def overlay_mount(target: str, lower: Path, upper: Path, layer: Path, labels: dict[str, str]) -> dict[str, Any]:
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


def bind_mount(target: str, source: Path, *, read_only: bool = False) -> dict[str, Any]:
    """A folder or file of the host."""
    return docker.types.Mount(target=target, source=str(source), type="bind", read_only=read_only)


def _tar(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
