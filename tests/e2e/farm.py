"""A farm of real processes for tests: broker, scheduler, workers, in one temporary CRB_HOME."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from crb_core.store import Store, open_store
from crb_core.store.tables import AttemptRow, JudgmentRow, ScoreRow, StepRow, SweepJudgeRow, TrialRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_scheduler.progress import SweepCounts, read_progress

REPOSITORY = Path(__file__).resolve().parents[2]
attempts = core(AttemptRow)
steps = core(StepRow)
trials = core(TrialRow)
scores = core(ScoreRow)
judgments = core(JudgmentRow)
sweep_judges = core(SweepJudgeRow)


def crb(*arguments: str, home: Path, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "crb_cli", *arguments],
        cwd=REPOSITORY,
        env=child_environment(home, environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*arguments: str, home: Path, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start the command in its own session."""
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "crb_cli", *arguments],
            cwd=REPOSITORY,
            env=child_environment(home, environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def child_environment(home: Path, more: dict[str, str]) -> dict[str, str]:
    """The environment of a crb process of a test."""
    kept = {name: value for name, value in os.environ.items() if name != "CRB_BROKER_URL"}
    return kept | {"CRB_HOME": str(home), "COLUMNS": "80", "PYTHONPATH": str(REPOSITORY)} | more


def wait_for(condition: Callable[[], Any], seconds: float = 120, every: float = 0.1) -> Any:
    """Wait until ``condition`` gives something true and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(every)
    raise AssertionError(f"not within {seconds} s: {condition}")


@dataclass
class Farm:
    """Processes of one farm with a short lease, so that what is lost is found within seconds."""

    home: Path
    broker: EmbeddedBroker
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CRB_BROKER_URL": self.broker.url,
            "CRB_LEASE_SECONDS": "4",
            "CRB_BEAT_SECONDS": "0.5",
            "CRB_RUNNER": "process",
        }

    @property
    def store(self) -> Store:
        return open_store(f"sqlite:///{self.home / 'crb.sqlite'}")

    def crb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return crb(*arguments, home=self.home, **self.environment)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = start(*arguments, home=self.home, log=self.home / "processes.log", **self.environment)
        self.processes.append(process)
        return process

    def progress(self, store: Store, name: str) -> SweepCounts:
        from crb_core.store.sweeps import find_sweep

        with store.read() as connection:
            return read_progress(connection, find_sweep(connection, name).id)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check_every_trial_is_whole(store: Store) -> None:
    """One successful attempt a trial and one judgment a judge; attempts numbered without gaps; none left open."""
    with store.read() as connection:
        by_trial: dict[int, list[Any]] = {row: [] for row in connection.execute(select(trials.c.id)).scalars()}
        for row in connection.execute(
            select(attempts.c.trial_id, attempts.c.number, attempts.c.outcome, attempts.c.review_ms).order_by(
                attempts.c.trial_id, attempts.c.number
            )
        ):
            by_trial[row.trial_id].append(row)
        planned = connection.execute(
            select(trials.c.id, sweep_judges.c.judge_id).join(
                sweep_judges,
                (sweep_judges.c.sweep_id == trials.c.sweep_id) & (sweep_judges.c.build_id == trials.c.build_id),
            )
        ).all()
        scored = connection.execute(
            select(judgments.c.trial_id, judgments.c.judge_id).join(scores, scores.c.judgment_id == judgments.c.id)
        ).all()
        states = set(connection.execute(select(steps.c.state)).scalars())
    for rows in by_trial.values():
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))
        outcomes = [row.outcome for row in rows]
        assert outcomes.count("succeeded") == 1
        assert outcomes[-1] == "succeeded"
        assert rows[-1].review_ms > 0
    assert sorted(scored) == sorted(planned)
    assert states == {"done"}


def processes_with(text: str) -> list[int]:
    """Processes whose command line or environment names ``text``, other than this one and its parents."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in seen:
            found.append(int(entry.name))
    return found
