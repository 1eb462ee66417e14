"""A whole farm on this machine for the length of one command: broker, worker, scheduler.

The worker is a real ``crb worker`` in a child process, so that a local run goes the way that a cluster goes and the
scheduler and the progress display cannot disturb what is measured (docs/decisions/0003).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

import structlog

from crb_core.errors import InputError, StoreError, UnavailableError
from crb_core.logs import configure_logs
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.steps import AttemptLimits, interrupt
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.loop import run_scheduler
from crb_worker.app import BrokerClient, make_app
from crb_worker.sandbox.select import open_sandbox

__all__ = ["LocalFarm", "open_home", "stop_on_signals"]

log = structlog.get_logger(__name__)

#: How long a worker may take to finish what it holds once nothing is left to do.
WARM_SHUTDOWN_SECONDS = 20


def open_home(settings: Settings) -> Path:
    """Make CRB_HOME and check that it can be written; StoreError otherwise."""
    home = settings.home_folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe = home / ".write-probe"
        probe.write_bytes(b"crb")
        probe.unlink()
    except OSError as error:
        raise StoreError(
            f"CRB_HOME {home} cannot be written: {error.strerror}",
            remedy="Set CRB_HOME to a folder that can be written and has space",
        ) from None
    return home


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that they clean up as Ctrl-C does."""

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    earlier = {number: signal.signal(number, interrupted) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


class LocalFarm:
    """Broker, worker and scheduler of one CRB_HOME. Only one at a time: a lock file refuses the second.

    On entry it reaps what a killed run left. On exit it leaves no process, container, network or temporary folder;
    after an exception (Ctrl-C) it does not wait for running reviews, and their attempts count as cancelled.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = AttemptLimits(agent=settings.agent_attempts, farm=settings.farm_attempts)
        self._lock: IO[str] | None = None
        self._broker: EmbeddedBroker | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._stop = threading.Event()
        self._scheduler: threading.Thread | None = None
        self.store: Store

    def __enter__(self) -> LocalFarm:
        home = open_home(self._settings)
        self._lock = self._take_lock(home)
        try:
            configure_logs(self._settings.log_level, file=home / "logs" / "scheduler.jsonl", terminal=None)
            self.store = open_store(self._settings.resolved_store_url)
            interrupt(self.store, self._limits, deliberate=False)
            self._reap()
            self._broker = EmbeddedBroker(home / "broker-folder").start()
            self._start_worker(self._broker.url)
            self._scheduler = threading.Thread(
                target=run_scheduler,
                args=(
                    self.store,
                    make_app(self._broker.url, events=False),
                    self._broker.url,
                    self._settings,
                    self._stop,
                ),
                name="crb-scheduler",
                daemon=True,
            )
            self._scheduler.start()
        except BaseException:
            self._end(deliberate=True)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(deliberate=kind is not None)

    def nudge(self) -> None:
        """Let the scheduler look at once, after rows were planned while it runs."""
        assert self._broker is not None
        client = BrokerClient(self._broker.url)
        client.nudge()
        client.close()

    def check(self) -> None:
        """Raise UnavailableError when the worker process has ended, with the last line of its log."""
        if self._worker is not None and (status := self._worker.poll()) is not None:
            log_file = self._settings.home_folder / "logs" / "worker.jsonl"
            said = (self._settings.home_folder / "logs" / "worker.stderr").read_text(errors="replace").strip()
            raise UnavailableError(
                f"The worker process ended with status {status}" + (f": {said.splitlines()[-1]}" if said else ""),
                remedy=f"Read {log_file}, then start the command again; finished work is kept",
            )

    def _take_lock(self, home: Path) -> IO[str]:
        stream = (home / "farm.lock").open("a+")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            holder = stream.read().strip()
            stream.close()
            raise InputError(
                f"Another crb run{f' (process {holder})' if holder else ''} is using {home}",
                remedy="Wait for it or end it, or set CRB_HOME to another folder",
            ) from None
        stream.seek(0)
        stream.truncate()
        stream.write(str(os.getpid()))
        stream.flush()
        return stream

    def _start_worker(self, broker_url: str) -> None:
        reading, self._lifeline = os.pipe()
        with (self._settings.home_folder / "logs" / "worker.stderr").open("wb") as errors:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "crb_cli", "worker", "--lifeline", str(reading)],
                env=os.environ | self._settings.environment() | {"CRB_BROKER_URL": broker_url},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(reading,),
                # A terminal's Ctrl-C is for this process, which then decides what happens to the worker.
                start_new_session=True,
            )
        os.close(reading)

    def _end(self, *, deliberate: bool) -> None:
        """Ends everything in the order in which nothing new can start. Safe to call at any point of the start."""
        self._stop.set()
        if self._scheduler is not None:
            self._scheduler.join(timeout=15)
        self._end_worker(warm=not deliberate)
        if self._broker is not None:
            self._broker.stop()
        if hasattr(self, "store"):
            with contextlib.suppress(StoreError):
                interrupt(self.store, self._limits, deliberate=deliberate)
            self._reap()
            self.store.close()
        if self._lock is not None:
            self._lock.close()

    def _end_worker(self, *, warm: bool) -> None:
        if self._worker is None:
            return
        if warm:
            self._worker.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._worker.wait(timeout=WARM_SHUTDOWN_SECONDS)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        try:
            self._worker.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._worker.kill()
            self._worker.wait()

    def _reap(self) -> None:
        """Remove containers, volumes and folders of attempts; no attempt is live when this is called."""
        for runner in ("docker", "process"):
            try:
                sandbox = open_sandbox(runner, slots=1, workspace=self._settings.workspace)
            except UnavailableError:
                continue
            try:
                for line in sandbox.reap(self._settings.farm, ()):
                    log.info("reaped", what=line)
            finally:
                sandbox.close()
