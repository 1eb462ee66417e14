"""A whole farm on this machine for the length of one command: broker, worker, scheduler.

The worker is a real ``crb worker`` in a child process, so that a local run goes the way that a cluster goes and the
scheduler and the progress display cannot disturb what is measured (docs/decisions/0003).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO

import structlog

from crb_cli.home import hold_home, open_home, require_own_store
from crb_cli.services import metrics_served
from crb_core.errors import CrbError, StoreError, UnavailableError
from crb_core.logs import configure_logs
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.steps import AttemptLimits, interrupt
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.loop import run_scheduler
from crb_scheduler.metrics import scheduler_metrics
from crb_worker.app import BrokerClient, make_app
from crb_worker.sandbox.select import open_sandbox

__all__ = ["LocalFarm", "stop_on_signals"]

log = structlog.get_logger(__name__)

#: How long a worker may take to finish what it holds once nothing is left to do.
WARM_SHUTDOWN_SECONDS = 20

#: How long the scheduler of a local run may fail before the run ends: nobody else would mend a store in a folder.
TROUBLE_SECONDS = 10.0
#: ... and how long its broker may be silent: on a machine that is busy or asleep it may yet answer.
SILENT_BROKER_SECONDS = 30.0


@contextmanager
def _no_signals() -> Iterator[None]:
    """Let no impatient second Ctrl-C leave containers behind: cleaning up takes seconds."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that they clean up as Ctrl-C does; only the first one counts.

    The handler itself ignores what comes next: a second exception on the way to the clean-up would skip it.
    """
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        for number in stopping:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    earlier = {number: signal.signal(number, interrupted) for number in stopping}
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
        self._trouble: tuple[CrbError, float] | None = None
        self.store: Store

    def __enter__(self) -> LocalFarm:
        home = open_home(self._settings)
        require_own_store(self._settings)
        self._lock = hold_home(home, alone=True)
        try:
            configure_logs(self._settings.log_level, file=home / "logs" / "scheduler.jsonl", terminal=None)
            self.store = open_store(self._settings.resolved_store_url)
            interrupt(self.store, self._limits, deliberate=False)
            self._reap()
            # Owned before it is started, so that an interruption in between still ends it.
            self._broker = EmbeddedBroker(home / "broker-folder")
            self._broker.start()
            self._start_worker(self._broker.url)
            self._scheduler = threading.Thread(
                target=self._schedule,
                args=(self._broker.url,),
                name="crb-scheduler",
                daemon=True,
            )
            self._scheduler.start()
        except BaseException:
            self._end(warm=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(warm=kind is None)

    def nudge(self) -> None:
        """Let the scheduler look at once, after rows were planned while it runs."""
        assert self._broker is not None
        client = BrokerClient(self._broker.url)
        client.nudge()
        client.close()

    def process_ids(self) -> dict[str, int]:
        """The pids of this farm's processes beside this one, by what they are."""
        found = {
            "worker": None if self._worker is None else self._worker.pid,
            "broker": None if self._broker is None else self._broker.pid,
        }
        return {name: pid for name, pid in found.items() if pid is not None}

    def check(self) -> None:
        """Raise CrbError when a part of this farm has ended or fails for good; it would never finish."""
        assert self._worker is not None
        assert self._broker is not None
        assert self._scheduler is not None
        if (status := self._worker.poll()) is not None:
            logs = self._settings.home_folder / "logs"
            said = (logs / "worker.stderr").read_text(errors="replace").strip()
            how = f"with status {status}" + (f": {said.splitlines()[-1]}" if said else "")
            raise UnavailableError(
                f"The worker process {f'was killed by {_signal_name(-status)}' if status < 0 else f'ended {how}'}",
                remedy=f"Read {logs / 'worker.jsonl'}, then start the command again; finished work is kept",
            )
        self._broker.check()
        if not self._scheduler.is_alive():
            raise UnavailableError(
                "The scheduler of this run has failed",
                remedy=f"Read {self._settings.home_folder / 'logs' / 'scheduler.jsonl'}, then start the command again",
            )
        if self._trouble is not None:
            error, since = self._trouble
            patience = TROUBLE_SECONDS if isinstance(error, StoreError) else SILENT_BROKER_SECONDS
            if time.monotonic() - since >= patience:
                raise error

    def _schedule(self, broker_url: str) -> None:
        try:
            metrics = scheduler_metrics()
            with metrics_served(self._settings, "scheduler", metrics.registry, self._settings.home_folder):
                run_scheduler(
                    self.store,
                    make_app(broker_url, events=False),
                    broker_url,
                    self._settings,
                    self._stop,
                    self._note,
                    metrics,
                )
        except Exception:
            # ``check`` ends the run; a thread must not print into the progress display.
            log.exception("scheduler_failed")

    def _note(self, error: CrbError | None) -> None:
        if error is None:
            self._trouble = None
        elif self._trouble is None or type(error) is not type(self._trouble[0]):
            self._trouble = (error, time.monotonic())

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

    def _end(self, *, warm: bool) -> None:
        """Ends everything in the order in which nothing new can start. Safe to call at any point of the start."""
        with _no_signals():
            self._stop.set()
            if self._scheduler is not None:
                self._scheduler.join(timeout=15)
            self._end_worker(warm=warm)
            if self._broker is not None:
                self._broker.stop()
            if hasattr(self, "store"):
                # What still ran belongs to another sweep of this store, or was stopped by a person: nobody's fault.
                with contextlib.suppress(StoreError):
                    interrupt(self.store, self._limits, deliberate=True)
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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
