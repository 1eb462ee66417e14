"""The main job as a stranger sees it: a clone, one command, a table that agrees with the store."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from crb_core.store import Store, open_store
from crb_core.store.results import SweepResults, load_results, sweep_judges
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import AttemptRow, core
from tests import oracle
from tests.e2e.farm import REPOSITORY, crb, processes_with, start, wait_for

pytestmark = pytest.mark.timeout(300)


def test_demo_in_a_clone_prints_what_the_store_holds(tmp_path: Path) -> None:
    """The printed macro precision and recall of every row equal those that an independent oracle computes."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRB_")}
    ran = subprocess.run(
        [sys.executable, "-m", "crb_cli", "demo", "--subset", "smoke", "--runner", "process"],
        cwd=clone,
        env=environment | {"COLUMNS": "80", "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert max(map(len, ran.stdout.splitlines()[:-3])) <= 80
    assert "not isolated" in ran.stdout
    store = open_store(f"sqlite:///{clone / '.crb' / 'crb.sqlite'}")
    with store.read() as connection:
        sweep_id = find_sweep(connection, "demo").id
        results = [load_results(connection, sweep_id, judge) for judge in sweep_judges(connection, sweep_id)]
    store.close()
    tables = ran.stdout.split("Leaderboard of sweep demo")[1:]
    assert len(tables) == len(results) == 2
    for text, result in zip(tables, results, strict=True):
        assert result.judge.name in " ".join(text.split())
        for build in result.builds:
            expected = []
            for metric in ("grounded_precision", "grounded_recall"):
                rounds = [
                    oracle.score(_bundle(result, build.build_id, number))["macro"]["overall"][metric]
                    for number in (1, 2, 3)
                ]
                expected.append("–" if None in rounds else f"{sum(rounds) / 3:.2f}")
            line = next(line for line in text.splitlines() if re.search(rf"\b{build.agent}\s+macro", line))
            shown = [word.split("±")[0] for word in line.split("macro")[1].split()]
            assert shown[:2] == expected


def _bundle(result: SweepResults, build_id: str, number: int) -> dict[str, Any]:
    """One round as the plain JSON that the oracle reads."""
    trials = [trial for trial in result.trials if trial.build_id == build_id and trial.round == number]
    assert len(trials) == 4
    return {
        "pull_requests": [
            {
                "key": trial.pull_request,
                "golden": [golden.label.model_dump(mode="json") for golden in trial.judged.golden],
                "candidates": [{} for _ in trial.judged.candidates],
                "correspondences": [record.model_dump() for record in trial.judged.correspondences],
                "classifications": [
                    {"candidate": record.candidate, **record.label.model_dump(mode="json")}
                    for record in trial.judged.classifications
                ],
            }
            for trial in trials
            if trial.judged is not None
        ]
    }


def succeeded(store: Store) -> set[tuple[int, int, str]]:
    """The attempts that succeeded: trial, number and beginning."""
    attempts = core(AttemptRow)
    with store.read() as connection:
        rows = connection.execute(
            select(attempts.c.trial_id, attempts.c.number, attempts.c.started_at).where(
                attempts.c.outcome == "succeeded"
            )
        )
        return {(row.trial_id, row.number, row.started_at) for row in rows}


def test_a_second_demo_repeats_nothing(tmp_path: Path) -> None:
    """It prints the same tables from the store and adds no attempt."""
    home = tmp_path / "home"
    arguments = ("demo", "--subset", "smoke", "--rounds", "1", "--runner", "process", "--json")
    first = crb(*arguments, home=home)
    assert first.returncode == 0, first.stderr
    second = crb(*arguments, home=home)
    assert second.returncode == 0, second.stderr
    assert json.loads(first.stdout)["leaderboards"] == json.loads(second.stdout)["leaderboards"]


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param((signal.SIGINT,), marks=pytest.mark.thorough),
        (signal.SIGTERM,),
        pytest.param((signal.SIGKILL,), marks=pytest.mark.thorough),
    ],
)
def test_an_interrupted_demo_leaves_nothing_and_goes_on(tmp_path: Path, signals: tuple[signal.Signals, ...]) -> None:
    """After Ctrl-C, SIGTERM or kill -9 no process is left, and the next run finishes what is missing."""
    home = tmp_path / "home"
    arguments = ("demo", "--subset", "smoke", "--rounds", "2", "--runner", "process")
    process = start(*arguments, home=home, log=tmp_path / "log")
    store_file = home / "crb.sqlite"
    wait_for(store_file.exists)
    store = open_store(f"sqlite:///{store_file}")

    def ended() -> int:
        from crb_scheduler.progress import read_progress

        with store.read() as connection:
            try:
                return read_progress(connection, find_sweep(connection, "demo").id).ended
            except Exception:  # noqa: BLE001 - the sweep is not planned yet
                return 0

    wait_for(lambda: ended() >= 3)
    for number in signals:
        process.send_signal(number)
    assert process.wait(timeout=60) != 0
    wait_for(lambda: not processes_with(str(home)), seconds=15)
    if signal.SIGKILL not in signals:
        assert not (home / "broker-folder").exists()
        assert not list((home / "attempts").iterdir())
    done = succeeded(store)
    assert done, "what was ended is kept"
    again = crb(*arguments, home=home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert done <= succeeded(store), "what was done is not done again"
    assert not (home / "broker-folder").exists()
    assert not list((home / "attempts").iterdir())
    store.close()
    assert not processes_with(str(home))
    finished = open_store(f"sqlite:///{store_file}")
    with finished.read() as connection:
        from crb_scheduler.progress import read_progress

        progress = read_progress(connection, find_sweep(connection, "demo").id)
    assert progress.by_state == {"scored": 32}
    finished.close()


@pytest.mark.thorough
def test_two_demos_in_one_folder(tmp_path: Path) -> None:
    """The second one says who holds the folder and ends with 1; the first is not disturbed."""
    home = tmp_path / "home"
    arguments = ("demo", "--subset", "smoke", "--rounds", "2", "--runner", "process")
    first = start(*arguments, home=home, log=tmp_path / "log")
    wait_for((home / "broker-folder").exists)
    second = crb(*arguments, home=home)
    assert second.returncode == 1
    assert f"Another crb run (process {first.pid}) is using" in second.stderr
    assert first.wait(timeout=200) == 0
