"""A local run whose parts are killed says so and ends; it never waits for what cannot come back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from crb_core.store import open_store
from tests.e2e.farm import check_every_trial_is_whole, crb, processes_with, start, wait_for

pytestmark = pytest.mark.timeout(200)

SWEEP = ("sweep", "start", "--agent", "minimal", "--subset", "smoke", "--rounds", "2", "--runner", "process")


def _begin(home: Path) -> subprocess.Popen[bytes]:
    """A sweep that has reached its worker."""
    log = home / "logs" / "worker.jsonl"
    process = start(*SWEEP, home=home, log=home.with_suffix(".log"))
    wait_for(lambda: log.exists() and "review_started" in log.read_text())
    return process


def _child(process: subprocess.Popen[bytes], name: str) -> psutil.Process:
    is_broker = [("valkey" in child.name(), child) for child in psutil.Process(process.pid).children()]
    return next(child for broker, child in is_broker if broker == (name == "broker"))


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("worker", "The worker process was killed by SIGKILL"),
        pytest.param("broker", "The embedded broker has ended", marks=pytest.mark.thorough),
    ],
)
def test_a_killed_part_ends_the_run_with_a_sentence(part: str, says: str, tmp_path: Path) -> None:
    """Nothing is left behind, nobody's attempt counts as failed, and the same command finishes the sweep."""
    home = tmp_path / "home"
    process = _begin(home)
    _child(process, part).send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    said = home.with_suffix(".log").read_text()
    assert f"crb: {says}" in said
    assert "Traceback" not in said
    assert processes_with(str(home)) == []
    assert not (home / "broker-folder").exists()
    assert crb(*SWEEP, home=home).returncode == 0
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    check_every_trial_is_whole(store)
    store.close()


@pytest.mark.thorough
def test_a_broker_that_hangs_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    """It takes connections and never answers: the run does not wait for ever, leaves nothing, and can go on."""
    home = tmp_path / "home"
    process = _begin(home)
    _child(process, "broker").suspend()
    assert process.wait(timeout=150) == 1
    said = home.with_suffix(".log").read_text()
    assert "crb: The broker does not answer" in said
    assert "Traceback" not in said
    assert processes_with(str(home)) == []
    assert crb(*SWEEP, home=home).returncode == 0


def test_an_impatient_second_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    """While the run cleans up, signals are too late to matter."""
    home = tmp_path / "home"
    process = _begin(home)
    broker = _child(process, "broker")
    process.send_signal(signal.SIGTERM)
    while process.poll() is None and (broker.is_running() or (home / "broker-folder").exists()):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
    process.wait(timeout=60)
    assert processes_with(str(home)) == []
    assert not (home / "broker-folder").exists()
    assert list((home / "attempts").iterdir()) == []


@pytest.mark.thorough
def test_every_line_about_a_trial_says_which_one(tmp_path: Path) -> None:
    """Sweep, trial and attempt are fields of every line of our tasks, and no other line speaks of a task."""
    home = tmp_path / "home"
    ran = crb(*SWEEP, home=home, CRB_REVIEW_SLOTS=str(os.cpu_count() or 1))
    assert ran.returncode == 0, ran.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in (home / "logs" / "worker.jsonl").open()]
    ours = [line for line in lines if line["logger"].startswith("crb_worker.tasks")]
    assert {line["event"] for line in ours} == {"review_started", "review_finished", "judge_step_finished"}
    assert {(line["trial"], line["attempt"]) for line in ours} == {(trial, 1) for trial in range(1, 9)}
    assert len({line["sweep"] for line in ours}) == 1
    assert not [line for line in lines if line["event"].startswith("Task ")]
