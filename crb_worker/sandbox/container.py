"""One container from its preparation to its removal."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from crb_core.agent import Outcome
from crb_core.errors import CrbError, UnavailableError
from crb_worker.sandbox.contract import AttemptRequest, AttemptResult
from crb_worker.sandbox.control import Control, Permits, RunSlots
from crb_worker.sandbox.disk import DiskWatch
from crb_worker.sandbox.egress import Egress, Lease, declared_hosts
from crb_worker.sandbox.ended import how_it_ended, is_the_images_fault
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.images import Images
from crb_worker.sandbox.layers import Layers
from crb_worker.sandbox.logs import Tail, may_have_lost_lines
from crb_worker.sandbox.output import read_findings_file
from crb_worker.sandbox.preparation import VIEW, Preparation
from crb_worker.sandbox.reaper import Janitor, Removal, remove_container, remove_volumes
from crb_worker.sandbox.refusals import Refusals, refusal_sentence
from crb_worker.sandbox.verdict import Ending, Verdict, judge
from crb_worker.sandbox.watch import AgentWatch, too_slow

__all__ = ["ContainerRun"]

_MIB = 1024 * 1024


class _EndedEarlyError(Exception):
    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


class ContainerRun:
    """Runs one attempt; used once.

    ``slots`` bounds how many agents run at once, ``permits`` how many containers are created and started at once. The
    container is created before the attempt waits for its slot, so that a free slot only has to start it.
    """

    def __init__(
        self,
        request: AttemptRequest,
        control: Control,
        *,
        engine: Engine,
        images: Images,
        slots: RunSlots,
        permits: Permits,
        janitor: Janitor,
        egress: Egress,
        host: str,
    ) -> None:
        self._request = request
        self._limits = request.build.limits
        self._control = control
        self._engine = engine
        self._images = images
        self._slots = slots
        self._permits = permits
        self._janitor = janitor
        self._egress = egress
        self._lease: Lease | None = None
        self._refusals: Refusals | None = None
        self._concurrent = 0
        self._host = host
        self._prepared = Preparation(request, engine)
        self._phases: dict[str, float] = {}
        self._started_at = datetime.now(UTC)
        self._container = ""
        self._may_exist = False
        self._create_ms = 0.0
        self._start_began = 0.0
        self._deadline = 0.0
        self._review_ms: float | None = None
        self._engine_ms: float | None = None
        #: Seconds since the epoch, on the clock that the engine notes ends by.
        self._noticed_at = 0.0
        self._told_late: float | None = None
        self._exit_code: int | None = None
        self._streams = {1: Tail(self._limits.log_mib * _MIB), 2: Tail(self._limits.log_mib * _MIB)}
        self._lost_lines = False

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
            refused_hosts=None if self._refusals is None else self._refusals.hosts,
        )

    def _attempt(self) -> Verdict:
        try:
            with self._phase("prepare"):
                self._prepared.prepare()
            self._open_egress()
            problem = None
            start_problem = self._create_ahead()
            if start_problem is None:
                with contextlib.ExitStack() as slot:
                    with self._phase("slot"):
                        self._concurrent = slot.enter_context(self._slots.running(self._control))
                    start_problem = self._start()
                    if start_problem is None:
                        with self._phase("wait"):
                            watch = AgentWatch(self._engine, self._container, self._control, self._limits)
                            problem = watch.until_end(self._deadline, self._disk_watch())
                        self._review_ms = self._create_ms + (time.monotonic() - self._start_began) * 1000
                        self._noticed_at = time.time()
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
            self._phases[name] = self._phases.get(name, 0.0) + (time.monotonic() - began) * 1000

    def _stopped_verdict(self) -> Verdict:
        stop = self._control.stopped
        assert stop is not None
        return Verdict(outcome=stop.outcome, detail=stop.detail)

    # Egress

    def _open_egress(self) -> None:
        """Give an agent that declares hosts a way to them, where this machine has the proxy."""
        hosts = declared_hosts(self._request.build)
        if hosts and self._control.stopped is None:
            with self._phase("egress"):
                self._lease = self._egress.lease(
                    self._request.farm,
                    self._request.workspace,
                    hosts,
                    lambda: self._control.stopped is not None,
                )

    def _read_refusals(self) -> str | None:
        """What the proxy refused. A sentence where the proxy did not live as long as the agent."""
        if self._lease is None:
            return None
        try:
            self._refusals = self._lease.refusals()
        except EngineFailureError as error:
            return f"{error.problem}."
        return None

    def _remark(self) -> str:
        """What a verdict says of what is not the agent's, with a blank before each sentence."""
        late = (
            ""
            if self._told_late is None
            else f" The engine told of the end {self._told_late:.0f} s late, so how long the review took is not known."
        )
        return late + self._network_remark()

    def _network_remark(self) -> str:
        hosts = declared_hosts(self._request.build)
        if not hosts:
            return ""
        if self._lease is None:
            return f" The agent declares {', '.join(hosts)}, but {self._egress.absence}."
        return "" if self._refusals is None else refusal_sentence(self._refusals)

    # Create and start

    def _create_ahead(self) -> str | None:
        """Create the container, which waits for its slot then. A sentence where the image cannot be run."""
        for is_retry in (False, True):
            try:
                with self._permit(self._permits.create):
                    return self._create()
            except EngineFailureError as error:
                if error.status != 404 or is_retry:
                    raise
            # Pulling is no part of the review: the clock starts again.
            self._phases.pop("create")
            try:
                build = self._request.build
                with self._phase("pull"):
                    self._images.restore(build.image_id, build.repo_digest, build.image)
            except UnavailableError as error:
                raise _EndedEarlyError(Verdict(outcome=Outcome.IMAGE_UNAVAILABLE, detail=str(error))) from None
        raise AssertionError("the second round returns or raises")

    @contextlib.contextmanager
    def _permit(self, permits: threading.Semaphore) -> Iterator[None]:
        """Leave to have the engine work; nothing is begun for an attempt that was stopped."""
        with self._phase("permit"):
            permits.acquire()
        try:
            if self._control.stopped is not None:
                raise _EndedEarlyError(self._stopped_verdict())
            yield
        finally:
            permits.release()

    def _create(self) -> str | None:
        began = time.monotonic()
        try:
            with self._phase("create"):
                self._container = self._prepared.create(self._lease)
        except EngineFailureError as error:
            # No answer: the engine may have made it all the same.
            self._may_exist = error.status is None
            if error.status == 400 and "o command specified" in error.problem:
                return "The image names no command to run; give it an ENTRYPOINT or CMD."
            raise
        self._may_exist = True
        self._create_ms = (time.monotonic() - began) * 1000
        return None

    def _start(self) -> str | None:
        """Start the container. A sentence where the image cannot be started, None where it runs."""
        with self._permit(self._permits.start):
            self._started_at = datetime.now(UTC)
            for is_retry in (False, True):
                self._control.arm(partial(self._engine.kill, self._container))
                if self._control.stopped is not None:
                    raise _EndedEarlyError(self._stopped_verdict())
                self._start_began = time.monotonic()
                try:
                    with self._phase("start"), engine_calls("starting a container"):
                        self._engine.api.start(self._container)
                    break
                except EngineFailureError as error:
                    if is_retry or not self._was_removed(error):
                        return self._start_problem(error)
                # Somebody tidied up containers that do not run.
                remove_volumes(self._engine, self._request.attempt_id)
                for phase in ("create", "start"):
                    self._phases.pop(phase)
                self._container = ""
                start_problem = self._create()
                if start_problem is not None:
                    return start_problem
            self._deadline = time.monotonic() + self._limits.timeout_seconds
            if self._control.stopped is not None:
                self._engine.kill(self._container)
        return None

    def _was_removed(self, error: EngineFailureError) -> bool:
        """Whether the container that could not be started is gone."""
        if error.status != 404:
            return False
        try:
            self._engine.inspect(self._container)
        except EngineFailureError as gone:
            return gone.status == 404
        return False

    def _start_problem(self, error: EngineFailureError) -> str:
        """Why the image cannot start, where that is the image's fault; else the error itself."""
        if "failed to mount local volume" in error.problem:
            self._engine.distrust_overlay(self._request.workspace)
            raise error
        if error.status is None:
            raise error
        exit_code = self._engine.inspect(self._container)["State"].get("ExitCode")
        if is_the_images_fault(exit_code, error.problem):
            self._exit_code = exit_code or None
            reason = error.problem.rpartition("exec: ")[2].removesuffix(": unknown")
            return f"The image's command cannot be started: {reason}."
        raise error

    def _disk_watch(self) -> DiskWatch:
        layers = Layers(self._engine, self._container)
        return DiskWatch(
            self._limits.disk_mib,
            self._prepared.folder.out,
            [self._prepared.written],
            baseline=self._prepared.baseline,
            more=layers.folders,
            unlisted_bytes=layers.unlisted_bytes,
        )

    # Collect

    def _collect(self, problem: str | None, start_problem: str | None) -> Verdict:
        ending = Ending(stop=self._control.stopped, problem=problem, start_problem=start_problem)
        if start_problem is None and problem is None:
            ending, times = how_it_ended(self._engine, self._container, self._control.stopped)
            self._engine_ms, self._told_late = times.ran_ms, times.told_late(self._noticed_at)
            if self._told_late is not None:
                self._review_ms = None
            self._exit_code = ending.exit_code
            if ending.stop is None and ending.problem is None and self._ended_too_late():
                ending = replace(ending, stop=too_slow(self._limits))
            self._read_logs()
            lost_proxy = self._read_refusals()
            if lost_proxy is not None and ending.problem is None and ending.stop is None:
                ending = replace(ending, problem=lost_proxy)
        return judge(self._request, ending, self._read_findings, (f"{VIEW.repo}/",), remark=self._remark())

    def _ended_too_late(self) -> bool:
        """Whether the agent ended after its time, as an engine that hung said later. By two clocks: one may step."""
        limit = self._limits.timeout_seconds
        return time.monotonic() > self._deadline and self._engine_ms is not None and self._engine_ms > limit * 1000

    def _read_logs(self) -> None:
        container = self._container
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
            return read_findings_file(self._prepared.folder.out, max_bytes)
        except PermissionError:
            # Its owner keeps this process out; the engine, which is root, hands the file out as an archive.
            return self._engine.read_file(self._container, VIEW.findings, max_bytes)

    # Tear down

    def _tear_down(self) -> None:
        self._control.disarm()
        removal = Removal.REMOVED
        if self._may_exist:
            try:
                removal = remove_container(self._engine, self._container or self._prepared.name)
                if removal is Removal.BY_OTHERS:
                    remove_volumes(self._engine, self._request.attempt_id)
            except UnavailableError:
                removal = Removal.LEFT
        if self._lease is not None:
            self._lease.release(reuse=removal is not Removal.LEFT)
        if self._prepared.owns_folder and removal is not Removal.LEFT:
            self._janitor.remove(self._prepared.folder.path, self._prepared.labels, self._request.build.image_id)
