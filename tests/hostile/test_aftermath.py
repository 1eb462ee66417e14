"""What is left to do when an attack has ended: show its text, run git, look after the others that ran beside it."""

from __future__ import annotations

import csv
import os
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from crb_cli.main import app
from crb_core.agent import Outcome
from crb_core.store.tables import SweepRow, core
from crb_web.app import create_app
from crb_worker.judge.repo_tools import RepoTools
from crb_worker.sandbox.contract import ATTEMPT_LABEL, FARM_LABEL
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.pool_lock import POOL_LABEL
from crb_worker.snapshot import source_for
from tests.hostile.farm import HostileFarm

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def hostile_text(farm: HostileFarm) -> int:
    """The number of a trial whose findings are hostile text."""
    trial = farm.attack("hostile-text")
    assert trial.outcome is Outcome.SUCCEEDED, trial
    assert len(trial.findings) == 27
    return trial.number


def crb(farm: HostileFarm, *arguments: str) -> Result:
    """Run a command in the farm's home."""
    return CliRunner().invoke(app, arguments, env={"CRB_HOME": str(farm.home), "COLUMNS": "80"}, catch_exceptions=False)


def _unsafe(text: str) -> set[str]:
    """Characters that move a cursor, colour a terminal or turn a line around."""
    return {each for each in text if not each.isprintable() and each not in "\n\t"}


@pytest.mark.parametrize(
    "command", [("trial", "show"), ("trial", "logs"), ("trial", "show", "--json"), ("trial", "logs", "--json")]
)
def test_the_terminal_is_left_alone(farm: HostileFarm, hostile_text: int, command: tuple[str, ...]) -> None:
    """No escape sequence, no bidi control and no markup of ours reaches the terminal; nothing is left out."""
    shown = crb(farm, *command[:2], str(hostile_text), *command[2:])
    assert shown.exit_code == 0, shown.stderr
    if "--json" not in command:
        assert _unsafe(shown.stdout) == set()
        assert "[bold red]markup[/]" in shown.stdout
    assert not {"\x1b", "\x9b", "\x07"} & set(shown.stdout)
    assert "m" * 1000 in shown.stdout.replace("\n", "")


def test_spreadsheets_hold_no_formula(farm: HostileFarm, hostile_text: int, tmp_path: Path) -> None:
    """No cell of CSV begins as a formula does, and XLSX has texts and numbers only, without a link."""
    of_csv, of_xlsx = tmp_path / "attacks.csv", tmp_path / "attacks.xlsx"
    for command in (("csv", "attacks", "--table", "findings"), ("xlsx", "attacks")):
        written = crb(farm, "export", *command, "--out", str(tmp_path / f"attacks.{command[0]}"))
        assert written.exit_code == 0, written.stdout + written.stderr
    with of_csv.open(newline="", encoding="utf-8-sig") as file:
        texts = [cell for row in csv.reader(file) for cell in row]
    assert any("HYPERLINK" in text for text in texts)
    assert [text for text in texts if text[:1] in set("=+-@\t\r\n")] == []
    with zipfile.ZipFile(of_xlsx) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith((".xml", ".rels"))}
    sheets = [text for name, text in parts.items() if name.startswith("xl/worksheets/")]
    assert any("HYPERLINK" in text for text in parts.values())
    assert not any("<f>" in sheet or "<hyperlink" in sheet for sheet in sheets)
    assert not any("attacker.invalid" in text for name, text in parts.items() if name.endswith(".rels"))


def test_the_page_is_inert(farm: HostileFarm, hostile_text: int) -> None:
    """The trial's page holds no element, attribute or template that came from a finding."""
    with TestClient(create_app(farm.settings), base_url="http://127.0.0.1") as client:
        answer = client.get(f"/trials/{hostile_text}")
    assert answer.status_code == 200
    page = answer.text
    for markup in ("<script>document", "<iframe", "<img src=x", "<b>.py", "</td></tr></table><iframe"):
        assert markup not in page
    assert "&lt;script&gt;" in page
    assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & set(page)
    assert "{{7*7}}" in page


def test_git_of_the_farm_runs_nothing_that_was_planted(farm: HostileFarm) -> None:
    """After hooks, filters and settings of every kind, the tools of the classifier and a new snapshot run git."""
    assert farm.attack("planted-git").outcome is Outcome.SUCCEEDED
    tools = RepoTools(farm.snapshot)
    for name, arguments in (
        ("show_diff", {"path": "src/app.py"}),
        ("read_file", {"path": "src/app.py"}),
        ("search", {"text": "return"}),
        ("list_files", {}),
        ("blame", {"path": "src/app.py", "start_line": 1, "end_line": 2}),
    ):
        assert not tools.call(name, arguments).is_error
    source = source_for("mirror", farm.corpus.source_template)
    assert farm.context.snapshots.get(source, farm.pull_request) == farm.snapshot
    assert farm.left_behind() == []


def test_shared_files_cannot_be_held(farm: HostileFarm) -> None:
    """While an agent holds leases on every file that it is shown, the farm's own files open at once."""
    blocked, ended = [], threading.Event()
    files = [path for path in farm.snapshot.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    opened = 0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(farm.attack, "leases")
        running.add_done_callback(lambda _: ended.set())
        while not ended.wait(0.05):
            for path in files:
                try:
                    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                    opened += 1
                except BlockingIOError:
                    blocked.append(path)
        trial = running.result()
    assert (blocked, trial.outcome) == ([], Outcome.SUCCEEDED)
    assert opened > len(files)
    assert b"4 leases" in trial.stdout or b"2 leases" in trial.stdout


def test_neighbours_are_not_affected(farm: HostileFarm) -> None:
    """A calm trial beside a fork bomb, a memory bomb and endless output gives what it always gives."""
    bombs = ("fork-bomb", "memory-bomb", "endless-output")
    with ThreadPoolExecutor(4) as pool:
        attacks = [pool.submit(farm.attack, name) for name in bombs]
        neighbours = [pool.submit(farm.calm).result() for _ in range(2)]
        ended = [attack.result().outcome for attack in attacks]
    assert [neighbour.result for neighbour in neighbours] == [farm.normal.result] * 2
    assert ended == [Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT]
    assert farm.left_behind() == []


def test_agents_that_run_side_by_side_do_not_meet(farm: HostileFarm) -> None:
    """Neither in names of sockets, queues and shared memory, nor at ports or in files: each of two is the first."""
    with ThreadPoolExecutor(2) as pool:
        trials = [each.result() for each in [pool.submit(farm.attack, "meeting-place") for _ in range(2)]]
    assert [trial.outcome for trial in trials] == [Outcome.SUCCEEDED] * 2, trials
    assert not any(b"BREACH" in trial.stdout for trial in trials)
    assert farm.left_behind() == []


def test_labels_of_an_image_are_not_believed(farm: HostileFarm, engine: docker.APIClient) -> None:
    """An image that calls itself a network's proxy of a dead worker, or another farm's, is not reaped while it runs."""
    sandbox = farm.context.sandbox("docker")
    ours = {"label": f"{FARM_LABEL}={farm.settings.farm}"}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(farm.attack, "stays-a-while")
        while not running.done() and not engine.containers(filters=ours):
            time.sleep(0.05)
        (labels,) = (each["Labels"] for each in engine.containers(filters=ours))
        removed = sandbox.reap(farm.settings.farm, ())
        trial = running.result()
    assert labels[POOL_LABEL] == "0123456789ab"
    assert labels[ATTEMPT_LABEL] != "another"
    assert (removed, trial.outcome) == ([], Outcome.SUCCEEDED)


def test_doctor_is_right_about_the_hypervisor(farm: HostileFarm, engine: docker.APIClient) -> None:
    """What crb doctor says of this engine's filter is what an agent finds."""
    says = Engine(1)
    try:
        is_open = says.leaves_hypervisor_open()
    finally:
        says.close()
    found = farm.attack("socket-to-the-hypervisor").stdout
    assert (b"hypervisor open" in found) is is_open or not Path("/dev/vsock").exists()


def test_nobody_touched_the_other_sweep(farm: HostileFarm) -> None:
    """The store still has its two sweeps, and no trial of the calm one has failed."""
    with farm.store.read() as connection:
        names = set(connection.execute(select(core(SweepRow).c.name)).scalars())
    assert names == {"calm", "attacks"}
    listed = crb(farm, "trial", "list", "--sweep", "calm", "--failed", "--json")
    assert listed.exit_code == 0, listed.stderr
    assert '"trials": []' in listed.stdout
