"""A local run is steered from a second terminal, and ends by itself where nothing of its sweep may go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.store import open_store
from crb_core.store.operations import cancel_trials, pause_sweep
from tests.e2e.farm import crb, start, wait_for

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(240)]

SWEEP = (
    "sweep", "start", "--agent", "minimal", "--runner", "process", "--rounds", "2", "--name", "steered",
    "--agent-concurrency", "minimal=1",
)  # fmt: skip


def test_a_local_run_follows_a_second_terminal(tmp_path: Path) -> None:
    """A retry while it runs is left to it; paused, it ends with the reason; resumed, it finishes."""
    home, log = tmp_path / "home", tmp_path / "log"
    process = start(*SWEEP, home=home, log=log)
    reviewed = home / "logs" / "worker.jsonl"
    wait_for(lambda: reviewed.exists() and "review_started" in reviewed.read_text())
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        cancel_trials(connection, [30], actor="a test")
    retried = crb("trial", "retry", "30", home=home)
    assert retried.returncode == 0, retried.stderr
    assert f"The crb run that uses this home (process {process.pid}) takes them up" in retried.stdout
    # One review at a time: it cannot be over yet.
    with store.write() as connection:
        assert pause_sweep(connection, "steered", agent="minimal", reason="a look at it", actor="a test").has_changed
    store.close()
    assert process.wait(timeout=120) == 1
    said = log.read_text()
    assert "nothing of it goes on: agent minimal is paused (a look at it)" in said
    assert "Traceback" not in said
    assert crb("sweep", "set", "steered", "--agent", "minimal", "--concurrency", "none", home=home).returncode == 0
    resumed = crb("sweep", "resume", "steered", "--agent", "minimal", home=home)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "30/30 trials ended (30 scored)" in resumed.stdout
