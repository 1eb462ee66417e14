"""One agent process from its preparation to its removal."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil

from crb_core.agent import Outcome
from crb_core.agent_source import AgentSource
from crb_core.errors import CrbError, InputError, UnavailableError
from crb_worker.sandbox.contract import (
    AgentView,
    AttemptRequest,
    AttemptResult,
    agent_environment,
    declared_secrets,
)
from crb_worker.sandbox.control import Control, RunSlots, Stop
from crb_worker.sandbox.disk import DiskWatch
from crb_worker.sandbox.folder import AttemptFolder, copy_pr_files, copy_tree, disk_usage, remove_tree, require_snapshot
from crb_worker.sandbox.logs import Tail
from crb_worker.sandbox.nameless import device, nameless_bytes, process_tree
from crb_worker.sandbox.output import read_findings_file
from crb_worker.sandbox.verdict import Ending, Verdict, judge

__all__ = ["ProcessRun"]

_MIB = 1024 * 1024
_LAUNCHER = Path(__file__).with_name("launcher.py")
#: Seconds between two looks at deadline, memory and disk.
_INTERVAL = 0.5
#: Seconds that the launcher may take to kill everything below it before it is killed itself.
_KILL_GRACE = 15.0
#: Where certificates are, which is no secret, and which TLS needs behind a company proxy.
_INHERITED = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class ProcessRun:
    """Runs one attempt; used once."""

    def __init__(
        self,
        request: AttemptRequest,
        control: Control,
        *,
        find_agent: Callable[[str], AgentSource],
        slots: RunSlots,
        permits: threading.Semaphore,
        host: str,
    ) -> None:
        self._request = request
        self._limits = request.build.limits
        self._control = control
        self._find_agent = find_agent
        self._slots = slots
        self._permits = permits
        self._concurrent = 0
        self._host = host
        self._folder = AttemptFolder(request)
        # Symbolic links resolved, since agents print resolved paths.
        self._root = request.workspace.resolve() / self._folder.path.name
        self._view = AgentView(repo=str(self._root / "repo"), pr=str(self._root / "pr"), out=str(self._root / "out"))
        self._owns_folder = False
        self._baseline = 0
        self._environment: dict[str, str] = {}
        self._argv: tuple[str, ...] = ()
        self._agent_folder: Path | None = None
        self._phases: dict[str, float] = {}
        self._started_at = datetime.now(UTC)
        self._review_ms: float | None = None
        self._exit_code: int | None = None
        self._streams = (Tail(self._limits.log_mib * _MIB), Tail(self._limits.log_mib * _MIB))

    def run(self) -> AttemptResult:
        try:
            verdict = self._attempt()
        finally:
            with self._phase("teardown"):
                self._control.disarm()
                if self._owns_folder:
                    remove_tree(self._folder.path)
        stdout, stderr = self._streams
        return AttemptResult(
            outcome=verdict.outcome,
            detail=verdict.detail,
            findings=verdict.findings,
            usage=verdict.usage,
            findings_bytes=verdict.findings_bytes,
            stdout=stdout.data(),
            stderr=stderr.data(),
            stdout_truncated=stdout.truncated,
            stderr_truncated=stderr.truncated,
            exit_code=self._exit_code,
            review_ms=self._review_ms,
            phases=self._phases,
            image_id=self._request.build.image_id,
            concurrent=self._concurrent,
            host=self._host,
            started_at=self._started_at,
        )

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = (time.monotonic() - began) * 1000

    def _attempt(self) -> Verdict:
        try:
            with self._phase("prepare"):
                self._prepare()
            ending = self._execute()
            with self._phase("collect"):
                prefixes = (f"{self._view.repo}/", "/work/repo/")
                return judge(self._request, ending, self._read_findings, prefixes)
        except UnavailableError as error:
            return Verdict(outcome=Outcome.IMAGE_UNAVAILABLE, detail=str(error))
        except CrbError as error:
            return Verdict(outcome=Outcome.ENGINE_ERROR, detail=str(error))
        except OSError as error:
            return Verdict(
                outcome=Outcome.ENGINE_ERROR,
                detail=f"The farm cannot prepare, start or read the attempt: {error.strerror or error}.",
            )

    def _prepare(self) -> None:
        request, folder = self._request, self._folder
        secrets, files = declared_secrets(request)
        if files:
            raise InputError(
                "the agent wants secret files, which the process runner cannot put at absolute paths",
                remedy="Use a Docker engine for it",
            )
        source = self._find_agent(request.build.agent)
        if source.digest != request.build.image_id:
            raise UnavailableError(
                f"the agent {request.build.agent} has changed since its build was recorded",
                remedy="Start a new sweep",
            )
        self._argv, self._agent_folder = source.process_argv, source.folder
        require_snapshot(request)
        folder.create()
        self._owns_folder = True
        for path in (folder.repo, self._root / "home", self._root / "tmp"):
            path.mkdir()
        copy_tree(request.repo, folder.repo)
        copy_pr_files(request.pr_files, folder.pr)
        self._baseline = disk_usage(folder.repo, limit=2**62)
        # The tools of a bundled agent are beside the interpreter that runs the farm.
        paths = [str(Path(sys.executable).parent), os.defpath, "/usr/local/bin"]
        self._environment = {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "PATH": os.pathsep.join(paths),
            "HOME": str(self._root / "home"),
            "TMPDIR": str(self._root / "tmp"),
            "LANG": "C.UTF-8",
            # The agent's folder is measured by its digest and stays as it is.
            "PYTHONDONTWRITEBYTECODE": "1",
            **secrets,
            **agent_environment(request, self._view),
        }

    def _execute(self) -> Ending:
        with contextlib.ExitStack() as closing:
            lifeline, kill_end = os.pipe()
            closing.callback(os.close, lifeline)
            closing.callback(os.close, kill_end)
            report, report_end = os.pipe()
            closing.callback(os.close, report)
            with self._phase("slot"):
                self._concurrent = closing.enter_context(self._slots.running(self._control))
            with self._phase("permit"):
                self._permits.acquire()
            try:
                if self._control.stopped is not None:
                    return Ending(stop=self._control.stopped)
                self._started_at = datetime.now(UTC)
                began = time.monotonic()
                with self._phase("start"):
                    launcher = self._start(lifeline, report_end)
            finally:
                self._permits.release()
                # The launcher has its own; while this one is open, the report has no end.
                os.close(report_end)
            closing.callback(_finish, launcher)
            self._control.arm(lambda: _write(kill_end))
            with self._phase("wait"):
                text = self._wait(launcher, report)
            self._control.disarm()
            self._review_ms = (time.monotonic() - began) * 1000
            return self._ending(text)

    def _start(self, lifeline: int, report: int) -> subprocess.Popen[bytes]:
        fsize = self._limits.disk_mib * _MIB
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LAUNCHER), str(lifeline), str(report), str(fsize), *self._argv],
            cwd=self._agent_folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(lifeline, report),
            start_new_session=True,
        )

    def _wait(self, launcher: subprocess.Popen[bytes], report: int) -> str:
        """Until the launcher has reported the end of everything; gives its report. Streams are read meanwhile."""
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        said = bytearray()
        deadline = time.monotonic() + self._limits.timeout_seconds
        disk = DiskWatch(
            self._limits.disk_mib,
            self._folder.out,
            [self._folder.repo, self._root / "home", self._root / "tmp"],
            baseline=self._baseline,
            unlisted_bytes=lambda: nameless_bytes(process_tree(launcher.pid), {device(self._root)}),
        )
        look_at = 0.0
        killed_at: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(report, selectors.EVENT_READ, said.extend)
            selector.register(launcher.stdout, selectors.EVENT_READ, self._streams[0].add)
            selector.register(launcher.stderr, selectors.EVENT_READ, self._streams[1].add)
            while report in {key.fd for key in selector.get_map().values()}:
                _pump(selector, max(0.0, min(_INTERVAL, deadline - time.monotonic())) if killed_at is None else 1.0)
                now = time.monotonic()
                if self._control.stopped is None:
                    if now >= deadline:
                        self._control.stop(
                            Outcome.TIMEOUT, f"The agent was not done after {self._limits.timeout_seconds} seconds."
                        )
                    elif now >= look_at:
                        look_at = now + _INTERVAL
                        stop = disk.check() or self._over_memory(launcher.pid)
                        if stop is not None:
                            self._control.stop(stop.outcome, stop.detail)
                elif killed_at is None:
                    killed_at = now
                elif now - killed_at > _KILL_GRACE:
                    launcher.kill()
                    break
            # What was printed last may still be in the pipes; outside Linux a process that escaped may hold them open.
            until = time.monotonic() + 1.0
            while selector.get_map() and time.monotonic() < until:
                _pump(selector, 0.1)
        return said.decode(errors="replace")

    def _over_memory(self, launcher: int) -> Stop | None:
        used = 0
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(launcher).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    used += process.memory_info().rss
        if used <= self._limits.memory_mib * _MIB:
            return None
        return Stop(
            Outcome.OUT_OF_MEMORY,
            f"The agent needed more than its {self._limits.memory_mib} MiB of memory and was ended.",
        )

    def _ending(self, report: str) -> Ending:
        stop = self._control.stopped
        word, _, rest = report.strip().partition(" ")
        if word == "cannot":
            self._exit_code = 127
            return Ending(stop=stop, start_problem=f"The agent's command cannot be started: {rest}.")
        if word not in {"exit", "signal"}:
            return Ending(stop=stop, problem="The agent's launcher ended without a report.")
        self._exit_code = int(rest) + (128 if word == "signal" else 0)
        return Ending(stop=stop, exit_code=self._exit_code)

    def _read_findings(self, max_bytes: int) -> bytes:
        return read_findings_file(self._folder.out, max_bytes)


def _write(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, b"k")


def _pump(selector: selectors.BaseSelector, seconds: float) -> None:
    """Hand on what can be read; forget what has ended."""
    for key, _ in selector.select(seconds):
        chunk = os.read(key.fd, 64 * 1024)
        if chunk:
            key.data(chunk)
        else:
            selector.unregister(key.fileobj)


def _finish(launcher: subprocess.Popen[bytes]) -> None:
    for stream in (launcher.stdout, launcher.stderr):
        if stream is not None:
            stream.close()
    try:
        launcher.wait(_KILL_GRACE)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
