"""``crb sweep watch`` and ``show`` while the store or the broker is silent: one sentence, and on it goes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crb_cli import watch
from crb_cli.sweep import app as sweep_commands
from crb_cli.watch import watch_sweep
from crb_core.store import Store, open_store, silence
from crb_scheduler import broker_watch
from crb_worker import app
from tests.chaos.broker import OwnBroker
from tests.crb_cli.test_watch import Terminal
from tests.crb_scheduler.running_sweeps import RunningSweep
from tests.crb_scheduler.test_broker_watch import SILENT
from tests.e2e.farm import wait_for
from tests.services import frozen


class Heard:
    """What was printed so far, by stream."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def look(self) -> Heard:
        new = self._capsys.readouterr()
        self.out += new.out
        self.err += new.err
        return self


@pytest.fixture
def heard(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Heard:
    """With less patience than in earnest: what is tested is what comes after it."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(silence, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(app, "ANSWER_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(broker_watch, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(watch, "LINE_SECONDS", 0.1)
    return Heard(capsys)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OwnBroker]:
    made = OwnBroker(tmp_path / "broker")
    made.start()
    yield made
    made.close()


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: OwnBroker) -> Iterator[RunningSweep]:
    monkeypatch.setenv("CRB_HOME", str(tmp_path))
    monkeypatch.setenv("CRB_BROKER_URL", broker.url)
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield RunningSweep(opened, agents=("alpha",), pull_requests=1)
    opened.close()


def follow(*, as_json: bool) -> threading.Thread:
    """``crb sweep watch nightly`` in a thread, until the sweep ends."""
    watching = threading.Thread(
        target=lambda: watch_sweep("nightly", once=False, every=0.1, ascii_only=False, as_json=as_json), daemon=True
    )
    watching.start()
    return watching


@pytest.mark.docker
@pytest.mark.parametrize("as_json", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_silent_store_is_said_once_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_store_url: str, heard: Heard, as_json: bool
) -> None:
    """However often it is asked; what is read goes to standard output as before and after."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path))
    monkeypatch.setenv("CRB_STORE_URL", f"{postgres_store_url}?connect_timeout=2")
    store: Store = open_store(postgres_store_url)
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=1)
    watching = follow(as_json=as_json)
    wait_for(lambda: heard.look().out)
    with frozen(postgres_store_url):
        wait_for(lambda: "does not answer" in heard.look().err)
    wait_for(lambda: "answers again" in heard.look().err)
    sweep.done("alpha", 0)
    watching.join(60)
    store.close()
    away, back = heard.look().err.splitlines()
    assert re.fullmatch(r"crb: The store \S+ does not answer: .*\.", away)
    assert back == "crb: The store answers again"
    last = heard.out.splitlines()[-1]
    assert json.loads(last)["finished"] if as_json else last.startswith("nightly: 1/1 trials ended")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_silent_broker_is_said_once(broker: OwnBroker, sweep: RunningSweep, heard: Heard, as_json: bool) -> None:
    """The readings go on: they are the store's."""
    watching = follow(as_json=as_json)
    wait_for(lambda: heard.look().out)
    broker.freeze()
    wait_for(lambda: "does not answer" in heard.look().err)
    before = len(heard.out)
    wait_for(lambda: len(heard.look().out) > before)
    broker.thaw()
    wait_for(lambda: "answers again" in heard.look().err)
    sweep.done("alpha", 0)
    watching.join(60)
    assert heard.look().err.splitlines() == [f"crb: {SILENT}", "crb: The broker answers again"]


@pytest.mark.usefixtures("heard")
def test_whoever_looks_once_is_told_of_a_silent_broker(broker: OwnBroker, sweep: RunningSweep) -> None:
    """Beside what is printed, and only while that sweep has something to wait for."""
    broker.kill()
    for arguments in (["watch", "nightly", "--once"], ["show", "nightly"], ["show", "nightly", "--json"]):
        looked = CliRunner().invoke(sweep_commands, arguments, catch_exceptions=False)
        assert (looked.exit_code, looked.stderr) == (0, f"crb: {SILENT}\n")
    assert json.loads(looked.stdout)["open_steps"] == 1
    sweep.done("alpha", 0)
    assert CliRunner().invoke(sweep_commands, ["show", "nightly"], catch_exceptions=False).stderr == ""


@pytest.mark.thorough
def test_a_picture_says_that_the_broker_is_silent(tmp_path: Path, broker: OwnBroker, sweep: RunningSweep) -> None:
    """In a line of its own, which goes when it answers."""
    with Terminal(tmp_path, 80, CRB_BROKER_URL=broker.url) as terminal:
        wait_for(lambda: terminal.shows("0/1 trials"))
        broker.freeze()
        wait_for(lambda: terminal.shows(SILENT))
        broker.thaw()
        wait_for(lambda: SILENT not in redrawn(terminal))
        sweep.done("alpha", 0)
        wait_for(lambda: terminal.process.poll() == 0)


def redrawn(terminal: Terminal) -> str:
    """What a terminal shows from now on."""
    terminal.seen.clear()
    wait_for(lambda: terminal.shows("trials"))
    return terminal.seen.decode(errors="replace")
