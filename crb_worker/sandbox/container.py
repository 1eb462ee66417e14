"""One container from its preparation to its removal."""

from __future__ import annotations

import contextlib
import io
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crb_core.agent import Outcome
from crb_core.errors import CrbError, InputError, UnavailableError
from crb_worker.sandbox.contract import (
    ATTEMPT_LABEL,
    FARM_LABEL,
    WORKSPACE_LABEL,
    AgentView,
    AttemptRequest,
    AttemptResult,
    agent_environment,
    declared_secrets,
)
from crb_worker.sandbox.control import Control
from crb_worker.sandbox.disk import DiskWatch
from crb_worker.sandbox.engine import Engine, EngineFailureError, bind_mount, engine_calls, overlay_mount
from crb_worker.sandbox.folder import AttemptFolder, copy_tree, disk_usage
from crb_worker.sandbox.images import Images
from crb_worker.sandbox.logs import Tail, log_options, may_have_lost_lines
from crb_worker.sandbox.output import FINDINGS_NAME, OutputError, read_findings_file
from crb_worker.sandbox.reaper import Janitor, remove_container
from crb_worker.sandbox.verdict import Ending, Verdict, judge

__all__ = ["ContainerRun"]

_MIB = 1024 * 1024
_VIEW = AgentView()
#: Given back after all are dropped: what a contract image that changes owner or user needs.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
#: Seconds that a killed container may take to be gone before it is left to the reaper.
_KILL_GRACE = 20.0
#: Seconds that the engine may be away (a restart) before the attempt is given up.
_ENGINE_PATIENCE = 30.0
_ENGINE_RETRY = 0.5
#: Seconds between two questions to the engine for the size of a layer that this process may not look into.
_LAYER_INTERVAL = 5.0


class _EndedEarlyError(Exception):
    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


class ContainerRun:
    """Runs one attempt; used once. ``permits`` bounds how many containers are created and started at once."""

    def __init__(
        self,
        request: AttemptRequest,
        control: Control,
        *,
        engine: Engine,
        images: Images,
        permits: threading.Semaphore,
        janitor: Janitor,
        concurrent: int,
        host: str,
    ) -> None:
        self._request = request
        self._limits = request.build.limits
        self._control = control
        self._engine = engine
        self._images = images
        self._permits = permits
        self._janitor = janitor
        self._concurrent = concurrent
        self._host = host
        self._folder = AttemptFolder(request)
        self._name = f"crb-{request.attempt_id}"
        self._labels = {
            FARM_LABEL: request.farm,
            ATTEMPT_LABEL: request.attempt_id,
            WORKSPACE_LABEL: str(request.workspace),
        }
        self._phases: dict[str, float] = {}
        self._started_at = datetime.now(UTC)
        self._overlay = False
        self._owns_folder = False
        self._baseline = 0
        self._secret_environment: dict[str, str] = {}
        self._secret_mounts: list[dict[str, Any]] = []
        self._container: str | None = None
        self._created = False
        self._review_started = 0.0
        self._deadline = 0.0
        self._review_ms: float | None = None
        self._engine_ms: float | None = None
        self._exit_code: int | None = None
        self._streams = {1: Tail(self._limits.log_mib * _MIB), 2: Tail(self._limits.log_mib * _MIB)}
        self._lost_lines = False
        self._layer_bytes = 0
        self._layer_asked = 0.0

    def run(self) -> AttemptResult:
        try:
            verdict = self._attempt()
        finally:
            with self._phase("teardown"):
                self._tear_down()
        return AttemptResult(
            outcome=verdict.outcome,
            detail=verdict.detail,
            findings=verdict.findings,
            usage=verdict.usage,
            findings_bytes=verdict.findings_bytes,
            stdout=self._streams[1].data(),
            stderr=self._streams[2].data(),
            stdout_truncated=self._streams[1].truncated or (self._lost_lines and self._streams[1].total > 0),
            stderr_truncated=self._streams[2].truncated or (self._lost_lines and self._streams[2].total > 0),
            exit_code=self._exit_code,
            review_ms=self._review_ms,
            engine_ms=self._engine_ms,
            phases=self._phases,
            image_id=self._request.build.image_id,
            concurrent=self._concurrent,
            host=self._host,
            started_at=self._started_at,
        )

    def _attempt(self) -> Verdict:
        try:
            with self._phase("prepare"):
                self._prepare()
            start_problem = self._launch()
            if start_problem is None:
                with self._phase("wait"):
                    problem = self._wait()
                self._review_ms = (time.monotonic() - self._review_started) * 1000
            else:
                problem = None
            self._control.disarm()
            with self._phase("collect"):
                return self._collect(problem, start_problem)
        except _EndedEarlyError as early:
            return early.verdict
        except EngineFailureError as error:
            problem = f"{error.problem}."
        except CrbError as error:
            problem = str(error)
        except OSError as error:
            problem = f"The farm cannot prepare or read the attempt's folder: {error.strerror or error}."
        if self._control.stopped is not None:
            return self._stopped_verdict()
        return Verdict(outcome=Outcome.ENGINE_ERROR, detail=problem)

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = (time.monotonic() - began) * 1000

    def _stopped_verdict(self) -> Verdict:
        stop = self._control.stopped
        assert stop is not None  # noqa: S101 - callers ask first
        return Verdict(outcome=stop.outcome, detail=stop.detail)

    # Prepare

    def _prepare(self) -> None:
        request = self._request
        self._secret_environment, files = declared_secrets(request)
        for needed in (request.repo, request.pr_files / "diff.patch", request.pr_files / "pr.json"):
            if not needed.exists():
                raise InputError(f"the snapshot is incomplete: {needed.name} is missing")
        self._folder.create()
        self._owns_folder = True
        for number, (path, value) in enumerate(files.items()):
            self._folder.secrets.mkdir(mode=0o755, exist_ok=True)
            secret = self._folder.secrets / str(number)
            secret.write_text(value, encoding="utf-8")
            secret.chmod(0o444)
            self._secret_mounts.append(bind_mount(path, secret, read_only=True))
        self._overlay = self._engine.can_overlay(request.workspace, request.repo)
        if self._overlay:
            self._folder.open_folder(self._folder.upper)
            self._folder.layer.mkdir()
        else:
            self._folder.open_folder(self._folder.repo)
            copy_tree(request.repo, self._folder.repo)
            self._folder.repo.chmod(0o777)
            self._baseline = disk_usage(self._folder.repo, limit=2**62)

    # Create and start

    def _launch(self) -> str | None:
        """Start the container. A sentence where the image cannot be started, None where it runs."""
        for is_retry in (False, True):
            with self._phase("permit"):
                self._permits.acquire()
            try:
                if self._control.stopped is not None:
                    raise _EndedEarlyError(self._stopped_verdict())
                self._started_at = datetime.now(UTC)
                self._review_started = time.monotonic()
                with self._phase("create"):
                    self._create()
                with self._phase("start"):
                    return self._start()
            except EngineFailureError as error:
                if self._created or error.status != 404 or is_retry:
                    return self._create_problem(error)
            finally:
                self._permits.release()
            # Pulling is no part of the review: the clock starts again.
            try:
                build = self._request.build
                self._images.restore(build.image_id, build.repo_digest, build.image)
            except UnavailableError as error:
                raise _EndedEarlyError(
                    Verdict(outcome=Outcome.IMAGE_UNAVAILABLE, detail=str(error))
                ) from None
        raise AssertionError("the second round returns or raises")

    def _create_problem(self, error: EngineFailureError) -> str:
        if not self._created and error.status == 400 and "o command specified" in error.problem:
            return "The image names no command to run; give it an ENTRYPOINT or CMD."
        raise error

    def _create(self) -> None:
        request, limits, api = self._request, self._limits, self._engine.api
        environment = {**self._secret_environment, **agent_environment(request, _VIEW)}
        if self._overlay:
            repo = overlay_mount(_VIEW.repo, request.repo, self._folder.upper, self._folder.layer, self._labels)
        else:
            repo = bind_mount(_VIEW.repo, self._folder.repo)
        with engine_calls("creating a container"):
            host_config = api.create_host_config(
                mounts=[
                    repo,
                    bind_mount(_VIEW.pr, request.pr_files, read_only=True),
                    bind_mount(_VIEW.out, self._folder.out),
                    *self._secret_mounts,
                ],
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=list(_CAPABILITIES),
                security_opt=["no-new-privileges"],
                mem_limit=limits.memory_mib * _MIB,
                memswap_limit=limits.memory_mib * _MIB,
                nano_cpus=int(limits.cpus * 1_000_000_000),
                pids_limit=limits.pids,
                oom_score_adj=500,
                ulimits=[
                    {"Name": "fsize", "Soft": limits.disk_mib * _MIB, "Hard": limits.disk_mib * _MIB},
                    {"Name": "core", "Soft": 0, "Hard": 0},
                ],
                log_config={"Type": "json-file", "Config": log_options(limits.log_mib * _MIB)},
            )
            created = api.create_container(
                request.build.image_id,
                name=self._name,
                environment=environment,
                labels=self._labels,
                healthcheck={"Test": ["NONE"]},
                host_config=host_config,
                use_config_proxy=False,
            )
        self._container = created["Id"]
        self._created = True

    def _start(self) -> str | None:
        container = self._container
        assert container is not None  # noqa: S101 - _create ran
        self._control.arm(lambda: self._engine.kill(container))
        if self._control.stopped is not None:
            raise _EndedEarlyError(self._stopped_verdict())
        try:
            with engine_calls("starting a container"):
                self._engine.api.start(container)
        except EngineFailureError as error:
            return self._start_problem(error)
        self._deadline = time.monotonic() + self._limits.timeout_seconds
        if self._control.stopped is not None:
            self._engine.kill(container)
        return None

    def _start_problem(self, error: EngineFailureError) -> str:
        """Why the image cannot start, where that is the image's fault; else the error itself."""
        if "failed to mount local volume" in error.problem:
            self._engine.distrust_overlay(self._request.workspace)
            raise error
        if error.status is None:
            raise error
        state = self._inspect()["State"]
        if state.get("ExitCode") in {126, 127} or "in passwd file" in error.problem or "in group file" in error.problem:
            self._exit_code = state.get("ExitCode") or None
            reason = error.problem.rpartition("exec: ")[2].removesuffix(": unknown")
            return f"The image's command cannot be started: {reason}."
        raise error

    # Wait

    def _wait(self) -> str | None:
        """Until nothing of the agent runs. A sentence where the engine lost it, None where it ended."""
        container = self._container
        assert container is not None  # noqa: S101 - _create ran
        disk = self._disk_watch()
        killed_at: float | None = None
        while True:
            now = time.monotonic()
            if now >= self._deadline and self._control.stopped is None:
                self._control.stop(
                    Outcome.TIMEOUT, f"The agent was not done after {self._limits.timeout_seconds} seconds."
                )
            if self._control.stopped is not None:
                killed_at = killed_at or now
                if now - killed_at > _KILL_GRACE:
                    return "The engine did not end the container after it was killed."
                patience = 1.0
            else:
                patience = min(self._deadline - now, disk.seconds_to_next())
            state = self._engine.wait(container, max(0.02, patience))
            if state == "ended":
                return None
            if state == "broken":
                problem = self._outlast_engine()
                if problem is not None:
                    return problem
            elif self._control.stopped is None:
                over = disk.check()
                if over is not None:
                    self._control.stop(over.outcome, over.detail)
            else:
                self._engine.kill(container)

    def _outlast_engine(self) -> str | None:
        """The connection broke. None if the container still runs once the engine answers again."""
        try:
            state = self._inspect(patience=_ENGINE_PATIENCE)["State"]
        except EngineFailureError as error:
            return f"{error.problem}."
        return None if state.get("Running") else "The engine's connection broke while the agent ran, and it did not survive."

    def _disk_watch(self) -> DiskWatch:
        return DiskWatch(
            self._limits.disk_mib,
            self._folder.out,
            [self._folder.upper if self._overlay else self._folder.repo],
            baseline=self._baseline,
            more=self._engine_folders,
            engine_bytes=self._engine_bytes,
        )

    def _engine_folders(self) -> Iterable[Path]:
        """The container's own layer and the volumes that its image declares, where this process may look into them."""
        try:
            facts = self._inspect()
        except EngineFailureError:
            return ()
        layer = ((facts.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        volumes = [
            mount["Source"]
            for mount in facts.get("Mounts") or []
            if mount.get("Type") == "volume" and mount.get("Destination") != _VIEW.repo and mount.get("Source")
        ]
        found = []
        for path in (Path(text) for text in [layer, *volumes] if text):
            with contextlib.suppress(OSError):
                next(path.iterdir(), None)
                found.append(path)
        if layer is None or Path(layer) not in found:
            self._layer_asked = 1.0
        return found

    def _engine_bytes(self) -> int:
        """Size of the container's own layer as the engine measures it, asked only where it cannot be looked into."""
        if self._layer_asked and time.monotonic() - self._layer_asked > _LAYER_INTERVAL:
            with contextlib.suppress(EngineFailureError), engine_calls("measuring a container"):
                listed = self._engine.api.containers(all=True, size=True, filters={"id": self._container})
                self._layer_bytes = int(listed[0].get("SizeRw") or 0) if listed else 0
            self._layer_asked = time.monotonic()
        return self._layer_bytes

    # Collect

    def _collect(self, problem: str | None, start_problem: str | None) -> Verdict:
        ending = Ending(stop=self._control.stopped, problem=problem, start_problem=start_problem)
        if start_problem is None and problem is None:
            ending = self._ending()
            self._read_logs()
        return judge(self._request, ending, self._read_findings, (f"{_VIEW.repo}/",))

    def _ending(self) -> Ending:
        stop = self._control.stopped
        try:
            state = self._inspect(patience=_ENGINE_PATIENCE)["State"]
        except EngineFailureError as error:
            gone = "The container was removed from outside the farm while the agent ran."
            return Ending(stop=stop, problem=gone if error.status == 404 else f"{error.problem}.")
        if state.get("Running"):
            return Ending(stop=stop, problem="The engine reported the end of a container that still runs.")
        self._engine_ms = _milliseconds(state.get("StartedAt"), state.get("FinishedAt"))
        self._exit_code = state.get("ExitCode")
        problem = None
        if state.get("Error"):
            problem = f"The engine reports an error of the container: {state['Error']}."
        elif stop is None and (self._exit_code or 0) > 128 and not state.get("OOMKilled") and self._killed_from_outside():
            problem = "The container was killed from outside the farm (by a person, or by the engine as it shut down)."
        return Ending(
            stop=stop, problem=problem, out_of_memory=bool(state.get("OOMKilled")), exit_code=self._exit_code
        )

    def _killed_from_outside(self) -> bool:
        """Whether the engine sent a signal: what an agent does to itself is no event of the engine."""
        return self._engine.saw_kill(self._container or "", since=self._started_at)

    def _inspect(self, patience: float = 0.0) -> dict[str, Any]:
        """The engine's facts of the container, asked for ``patience`` seconds while the engine is away."""
        until = time.monotonic() + patience
        while True:
            try:
                with engine_calls("inspecting a container"):
                    return dict(self._engine.api.inspect_container(self._container))
            except EngineFailureError as error:
                if error.status is not None or time.monotonic() >= until:
                    raise
            time.sleep(_ENGINE_RETRY)

    def _read_logs(self) -> None:
        container = self._container
        assert container is not None  # noqa: S101 - _create ran
        try:
            for stream, chunk in self._engine.logs(container):
                self._streams[stream].add(chunk)
        except EngineFailureError:
            self._lost_lines = True
        self._lost_lines = self._lost_lines or may_have_lost_lines(
            (stream.data() for stream in self._streams.values()), self._limits.log_mib * _MIB
        )

    def _read_findings(self, max_bytes: int) -> bytes:
        try:
            return read_findings_file(self._folder.out, max_bytes)
        except PermissionError:
            return self._read_through_engine(max_bytes)

    def _read_through_engine(self, max_bytes: int) -> bytes:
        """The file where its owner keeps this process from reading it: the engine hands it out as an archive."""
        container = self._container
        assert container is not None  # noqa: S101 - _create ran
        try:
            with engine_calls("reading the findings file"):
                chunks, _ = self._engine.api.get_archive(container, _VIEW.findings)
                head = b""
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
            if entry is None or not entry.isreg() or entry.name != FINDINGS_NAME:
                raise OutputError(Outcome.OUTPUT_INVALID, "the findings file is not a regular file")
            if entry.size > max_bytes:
                raise OutputError(
                    Outcome.OUTPUT_TOO_LARGE, f"the findings file is larger than the limit of {max_bytes} bytes"
                )
            content = tar.extractfile(entry)
            return content.read(max_bytes) if content is not None else b""

    # Tear down

    def _tear_down(self) -> None:
        self._control.disarm()
        gone = True
        # By name, since a create that timed out may have made the container all the same.
        if self._review_started:
            with contextlib.suppress(UnavailableError):
                gone = remove_container(self._engine, self._name)
        if self._owns_folder and gone:
            self._janitor.remove(self._folder.path, self._labels, self._request.build.image_id)


def _milliseconds(started: str | None, finished: str | None) -> float | None:
    """Between two of the engine's times (RFC 3339 with nanoseconds); None where one is its zero."""
    first, last = _nanoseconds(started), _nanoseconds(finished)
    if first is None or last is None or last < first:
        return None
    return (last - first) / 1_000_000


def _nanoseconds(text: str | None) -> int | None:
    if not text or text.startswith("0001-"):
        return None
    whole, _, rest = text.partition(".")
    fraction = "".join(character for character in rest.partition("Z")[0].partition("+")[0] if character.isdigit())
    moment = datetime.fromisoformat(whole.removesuffix("Z")[:19]).replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)
