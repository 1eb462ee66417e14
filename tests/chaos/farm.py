"""A farm under faults: supervised workers and schedulers, a broker of its own, and how long each fault was felt."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from crb_core.errors import StoreError
from crb_core.store import Store, open_store
from crb_core.store.tables import Stage, StepState
from tests.chaos.broker import OwnBroker
from tests.e2e.farm import REPOSITORY, Farm, child_environment, steps, wait_for

#: Seconds that a farm may take to mend a fault, with the leases of these tests, on a machine under load.
PATIENCE = 180
#: Short, so that what is lost is found soon; not so short that a busy machine loses what nobody killed.
LEASE_SECONDS = "8"
_IN_FLIGHT = (StepState.QUEUED.value, StepState.RUNNING.value)
_UNENDED = (StepState.READY.value, *_IN_FLIGHT)


@dataclass
class Supervised:
    """A process that is started again when it ends, as compose's ``restart:`` does."""

    command: list[str]
    process: subprocess.Popen[bytes]
    environment: dict[str, str]
    wanted: bool = True
    restarts: int = 0
    statuses: list[int] = field(default_factory=list)


@dataclass
class ChaosFarm(Farm):
    """One farm in one CRB_HOME. ``settings`` are further variables of every process."""

    broker: OwnBroker
    settings: dict[str, str] = field(default_factory=dict)
    #: The totals that its sweep has where nothing disturbs it.
    undisturbed: Callable[[], dict[str, Any]] = dict
    #: (fault, seconds from its end until what it caught was done).
    recoveries: list[tuple[str, float]] = field(default_factory=list)
    supervised: list[Supervised] = field(default_factory=list)
    sweep: str = "chaos"

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        self._supervisor.start()
        self._store: Store | None = None
        self._timers: list[threading.Thread] = []

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"CRB_LEASE_SECONDS": LEASE_SECONDS} | self.settings

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self.settings.get("CRB_STORE_URL", f"sqlite:///{self.home / 'crb.sqlite'}"))
        return self._store

    # Processes

    def keep(
        self, *arguments: str, module: str = "crb_cli", wrapper: tuple[str, ...] = (), **environment: str
    ) -> Supervised:
        """Start ``crb ARGUMENTS`` and keep it running. ``module`` is crb, or crb with a fault built in."""
        command = [*wrapper, sys.executable, "-m", module, *arguments]
        with self._lock:
            kept = Supervised(command, self._spawn(command, environment), environment)
            self.supervised.append(kept)
        return kept

    def die_at(self, point: str, hit: int, *arguments: str) -> None:
        """Start ``crb ARGUMENTS`` and wait until it has died at its weak point (tests/chaos/dying.py).

        How long what it held takes to be done is noted meanwhile by another thread.
        """
        record = self.home / "died"
        weak = [sys.executable, "-m", "tests.chaos.dying", point, str(hit), str(record), *arguments]
        process = self._spawn(weak, {})
        self.processes.append(process)
        status = process.wait(PATIENCE)
        assert status == -signal.SIGKILL, f"status {status}, so it did not die at {point}: {self.home}/processes.log"
        caught = self.steps_in_flight()
        timer = threading.Thread(
            target=self.time_recovery, args=(f"kill -9, {point}", caught, float(record.read_text())), daemon=True
        )
        timer.start()
        self._timers.append(timer)

    def _spawn(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.home / "processes.log").open("ab") as stream:
            return subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=child_environment(self.home, self.environment | environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )

    def _supervise(self) -> None:
        while not self._closing.wait(0.2):
            with self._lock:
                for kept in self.supervised:
                    if kept.wanted and not self._closing.is_set() and (status := kept.process.poll()) is not None:
                        kept.statuses.append(status)
                        kept.restarts += 1
                        kept.process = self._spawn(kept.command, kept.environment)

    def retire(self, kept: Supervised) -> None:
        """SIGTERM, and no restart."""
        with self._lock:
            kept.wanted = False
            kept.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        self._closing.set()
        self._supervisor.join()
        self.processes += [kept.process for kept in self.supervised]
        super().close()
        if self._store is not None:
            self._store.close()

    # What is in flight

    def steps_in_flight(self) -> set[int]:
        """Ids of the steps that are queued or running."""
        with self.store.read() as connection:
            return set(connection.execute(select(steps.c.id).where(steps.c.state.in_(_IN_FLIGHT))).scalars())

    def wait_for_steps_in_flight(self) -> set[int]:
        """Fails at once where none will come any more: the sweep was too short for its faults."""
        found: set[int] = set()

        def look() -> bool:
            nonlocal found
            found = self.steps_in_flight()
            return bool(found) or self.progress(self.store, self.sweep).finished

        wait_for(look, seconds=PATIENCE, every=0.02)
        assert found, "the sweep ended before the fault could be caused"
        return found

    def wait_for_running(self, stage: Stage) -> set[int]:
        """Ids of the running steps of a stage, once there are some."""

        def running() -> set[int]:
            with self.store.read() as connection:
                where = (steps.c.state == StepState.RUNNING.value, steps.c.stage == stage.value)
                return set(connection.execute(select(steps.c.id).where(*where)).scalars())

        found: set[int] = wait_for(running, seconds=PATIENCE, every=0.02)
        return found

    @property
    def ended(self) -> int:
        """How many trials have ended."""
        return self.progress(self.store, self.sweep).ended

    def wait_for_ended(self, trials: int) -> None:
        """Wait until that many trials have ended."""
        wait_for(lambda: self.ended >= trials, seconds=PATIENCE)

    def time_recovery(self, fault: str, caught: set[int], since: float) -> None:
        """Wait until every step that the fault caught has ended, and note how long that took."""

        def ended() -> bool:
            try:
                with self.store.read() as connection:
                    where = (steps.c.id.in_(caught), steps.c.state.in_(_UNENDED))
                    return connection.execute(select(steps.c.id).where(*where).limit(1)).first() is None
            except StoreError:
                # The fault may concern the store, which may be on its way back.
                return False

        try:
            wait_for(ended, seconds=PATIENCE, every=0.05)
        except AssertionError:
            self.recoveries.append((fault, float("inf")))
            raise
        self.recoveries.append((fault, time.monotonic() - since))

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Cause a fault in the body while steps are in flight; then wait until they are done."""
        caught = self.wait_for_steps_in_flight()
        yield
        ended = time.monotonic()
        with suppress(StoreError):
            caught |= self.steps_in_flight()
        self.time_recovery(name, caught, ended)

    def finish(self, seconds: float = PATIENCE) -> None:
        """Wait until the sweep has nothing left to do."""
        wait_for(lambda: self.progress(self.store, self.sweep).finished, seconds=seconds)
        for timer in self._timers:
            timer.join(PATIENCE)
        assert all(seconds != float("inf") for _, seconds in self.recoveries)


def copy_home(source: Path, target: Path) -> None:
    """A CRB_HOME that is planned already."""
    shutil.copytree(source, target, symlinks=True)
