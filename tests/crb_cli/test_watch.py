"""``crb sweep watch``: a picture of 80 columns for any size of sweep, lines and JSON where there is no terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from crb_cli.output import wrapped
from crb_cli.watch_view import Canvas, one_line, picture
from crb_core.agent import Outcome
from crb_core.store import Store, open_store
from crb_core.time_words import time_text
from crb_scheduler.estimate import Estimate
from crb_scheduler.progress import SweepProgress, sweep_progress
from crb_scheduler.progress_parts import CELL_CODES, FailureGroup, HeatMap, HeatMapRow, RunningTrial, WorkerState
from tests.crb_core.store.planned import LIMITS
from tests.crb_scheduler.running_sweeps import RunningSweep
from tests.e2e.farm import REPOSITORY, child_environment, crb, wait_for

CODES = {code: state.value for state, code in CELL_CODES.items()}
HOSTILE = "evil\x1b[31m[bold]red[/bold]\n\u202etxt\x07" + "x" * 200


def progress(rows: dict[tuple[str, int], str], **values: Any) -> SweepProgress:
    """A sweep of these cells by agent and round."""
    states: dict[str, int] = {}
    for cells in rows.values():
        for code in cells.replace(" ", ""):
            states[CODES[code]] = states.get(CODES[code], 0) + 1
    columns = max(len(cells) for cells in rows.values())
    return SweepProgress(
        **(
            {
                "sweep_id": "s-1",
                "name": "nightly",
                "state": "active",
                "trials": sum(states.values()),
                "by_state": states,
                "by_agent": {},
                "open_steps": 1,
                "failures": (),
                "at": "2026-05-01T12:00:00.000Z",
                "started_at": None,
                "rounds": max(number for _, number in rows),
                "queues": {},
                "steps_lost": 0,
                "paused_agents": {},
                "rate": None,
                "estimate": Estimate(seconds=None, how="nothing has ended yet"),
                "finish_at": None,
                "heat_map": HeatMap(
                    pull_requests=tuple(f"pr-{place}" for place in range(columns)),
                    rows=tuple(
                        HeatMapRow(agent=agent, build_id=f"b-{agent}", round=number, cells=cells)
                        for (agent, number), cells in rows.items()
                    ),
                    codes=CODES,
                ),
                "running": (),
                "failure_groups": (),
                "workers": (),
            }
            | values
        )
    )


def draw(found: SweepProgress, **canvas: Any) -> list[str]:
    """The picture without colours, line by line."""
    width = canvas.get("width", 80)
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(picture(found, Canvas(**canvas)))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue().splitlines()


def test_fifteen_pull_requests_have_a_cell_each() -> None:
    """A row for each agent and round, with how many ended; every state has a sign of its own without colour."""
    lines = draw(progress({("lint", 1): "sssssssssssssss", ("lint", 2): "wwwrrjjFJxsssss"}))
    assert "lint 1 ███████████████ 15/15" in lines
    assert "lint 2 ···rrjjFJx█████  8/15" in lines
    assert "15 pull requests" in lines
    legend = next(line for line in lines if "waiting" in line)
    assert legend.split("  ")[:4] == ["· 3 waiting", "r 2 reviewing", "j 2 judging", "█ 20 scored"]


def test_five_hundred_pull_requests_are_folded_into_eighty_columns() -> None:
    """Several to a cell: shades for what has ended, a failure shows whatever else is in its cell."""
    cells = "s" * 200 + "sssssssssw" * 5 + "wwwwwwwwws" * 5 + "w" * 99 + "F" + "w" * 100
    lines = draw(progress({("lint", 1): cells}))
    assert "500 pull requests, 8 to a cell" in lines
    row = next(line for line in lines if line.startswith("lint"))
    drawn = row.split()[2]
    assert len(drawn) == 63
    assert (drawn.count("F"), set(drawn)) == (1, set("█▓░▒·F") & set(drawn))
    assert {"▓", "░", "█", "·", "F"} <= set(drawn)
    assert row.endswith("251/500")


@pytest.mark.parametrize("pull_requests", [1, 15, 80, 146, 500, 3000])
@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_the_terminal(pull_requests: int, width: int, ascii_only: bool) -> None:
    """Whatever the size of the sweep and of the names in it; in ASCII every character is one."""
    long_name = "an-agent-with-a-name-of-more-than-forty-characters"
    found = progress(
        {(long_name, number): "srFw"[number % 4] * pull_requests for number in range(1, 4)},
        name=HOSTILE,
        paused_agents={long_name: HOSTILE},
        running=(
            RunningTrial(
                trial_id=123456,
                stage="review",
                agent=long_name,
                pull_request="p" * 200,
                round=3,
                attempt=2,
                worker="w",
                seconds=9999.0,
            ),
        ),
        failure_groups=(
            FailureGroup(
                agent=long_name,
                build_id="b",
                stage="review",
                outcome="timeout",
                fault="agent",
                attempts=3,
                trials=2,
                failed_trials=1,
                examples=(1, 2),
                example=HOSTILE,
            ),
        ),
        workers=(
            WorkerState(
                name="h" * 90,
                host="h",
                slots={"review": 512, "match": 512},
                wanted_slots=None,
                running={"review": 514},
                alive=True,
                silent_seconds=0.0,
                status={"cpu_percent": 99.5, "memory_percent": 50.0, "disk_free_bytes": 1e13, "takes_no_reviews": "x"},
            ),
        ),
    )
    lines = draw(found, width=width, ascii=ascii_only)
    assert max(map(len, lines)) <= width
    assert not any(character in line for line in lines for character in "\x1b\x07\u202e")
    if ascii_only:
        assert all(line.isascii() for line in lines)


NAMES = (
    "審査員の代理人・改",
    "👩\u200d💻 reviewer 🦀🦀🦀🦀",
    "\u05de\u05d1\u05e7\u05e8 \u05e7\u05d5\u05d3",
    "\u0645\u0631\u0627\u062c\u0639",
    "e\u0301te\u0301",
    "plain",
    "\u202eevil",
    "\ufdfa\ufdfa",
)


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_letters_of_any_width_stay_in_their_columns(width: int, ascii_only: bool) -> None:
    """40 builds and 300 pull requests: every row's cells begin and end where the others' do, none passes the edge."""
    rows = {(f"{NAMES[number % len(NAMES)]}{number}", turn): "sw" * 150 for number in range(40) for turn in (1, 2)}
    worker = {"host": "h", "slots": {"review": 2}, "wanted_slots": None, "running": {}, "alive": True}
    status = {"takes_no_reviews": "審査 " * 40}
    found = progress(
        rows,
        name="夜間" * 30,
        paused_agents={NAMES[0]: NAMES[1] * 9},
        workers=(WorkerState(name="機械" * 20, silent_seconds=0, status=status, **worker),),
    )
    for height in (None, 24):
        lines = draw(found, width=width, height=height, ascii=ascii_only)
        assert max(map(cell_len, lines)) <= width
        assert height is None or len(lines) <= height + 12
        if width >= 40:
            drawn = [line for line in lines if line.endswith(("150/300", "300/600"))]
            assert drawn
            assert len({cell_len(line) for line in drawn}) == 1
    assert sum("審査" in line or "??" in line for line in lines) >= 1


def test_a_line_for_a_log_is_wrapped_by_columns() -> None:
    """Letters that take two columns count twice."""
    lines = wrapped("審査員" * 30 + " plain words after it", 40)
    assert max(map(cell_len, lines)) <= 40
    assert "".join(lines).startswith("審査員" * 30)


def test_a_low_terminal_folds_rounds_and_leaves_out_what_rests() -> None:
    """More rows than lines: rounds go into one row, busy agents stay, the rest is counted, nothing is cut off."""
    rows = {(f"agent-{number:02}", turn): "s" * 20 for number in range(40) for turn in (1, 2, 3)}
    rows["agent-37", 3] = "r" + "w" * 19
    lines = draw(progress(rows), height=24)
    assert len(lines) <= 24
    assert "20 pull requests, 3 rounds in a row" in lines
    assert any(line.startswith("agent-37") and line.endswith("40/60") for line in lines)
    (left_out,) = [line for line in lines if "more rows" in line]
    shown = sum(line.startswith("agent-") for line in lines)
    assert left_out == f"... and {40 - shown} more rows: {(40 - shown) * 60}/{(40 - shown) * 60} trials ended"
    assert len([line for line in draw(progress(rows)) if line.startswith("agent-")]) == 120


def test_two_builds_of_one_agent_are_told_apart() -> None:
    """A changed agent is another build, with a row of its own."""
    found = progress({("lint", 1): "ss"})
    other = found.heat_map.rows[0].model_copy(update={"build_id": "b-other", "cells": "ww"})
    found = found.model_copy(
        update={"heat_map": found.heat_map.model_copy(update={"rows": (*found.heat_map.rows, other)})}
    )
    lines = draw(found)
    assert any(line.startswith("lint lint 1 ██") for line in lines)
    assert any(line.startswith("lint ther 1 ··") for line in lines)


def test_a_silent_worker_and_one_that_takes_no_reviews_say_so() -> None:
    """The load of what is not heard of would be old news."""
    load = {"cpu_percent": 7.0, "memory_percent": 30.4, "disk_free_bytes": 2_000_000_000}
    base = {"host": "h", "slots": {"review": 2, "score": 2}, "wanted_slots": None}
    workers = (
        WorkerState(name="one", running={"review": 1}, status=load, alive=None, silent_seconds=0, **base),
        WorkerState(name="two", running={}, status=load, alive=False, silent_seconds=75, **base),
        WorkerState(
            name="three", running={}, status=load | {"takes_no_reviews": "disk"}, alive=True, silent_seconds=1, **base
        ),
    )
    lines = draw(progress({("lint", 1): "w"}, workers=workers))
    told = [line.split() for line in lines[-4:]]
    assert told[0] == ["one", "review", "1/2", "judge", "0/2", "cpu", "7%", "mem", "30%", "disk", "2", "GB"]
    assert " ".join(told[1]) == "two review 0/2 judge 0/2 not heard of for 1 min 15 s"
    assert " ".join(told[2]).startswith("three review 0/2 judge 0/2 cpu 7%")
    assert " ".join(told[3]) == "takes no reviews: disk"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (245, "4 min 05 s"), (1500, "25 min"), (7800, "2 h 10 min"), (273_600, "3 d 4 h")],
)
def test_times_are_read_at_a_glance(seconds: float, text: str) -> None:
    """No more digits than say something."""
    assert time_text(seconds) == text


def test_a_line_for_a_log() -> None:
    """Where there is no terminal: counts, throughput, estimate, in one line."""
    found = progress({("lint", 1): "ssw"}, estimate=Estimate(seconds=90, how="x"), finish_at="2026-05-01T12:01:30.000Z")
    line = one_line(found)
    assert line.startswith("nightly: 2/3 trials ended (2 scored, 1 waiting); about 1 min 30 s left, done ")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield opened
    opened.close()


def test_the_command_prints_once_and_streams_json(store: Store, tmp_path: Path) -> None:
    """--once draws, --json is one object a line; a finished sweep with failed trials exits with 3, others with 0.

    Where the output takes ASCII only, that is what it gets.
    """
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=2)
    sweep.done("alpha", 0)
    once = crb("sweep", "watch", "nightly", "--once", home=tmp_path)
    assert (once.returncode, once.stderr) == (0, "")
    assert "alpha 1 █· 1/2" in once.stdout
    assert max(map(len, once.stdout.splitlines())) <= 80
    plain = crb("sweep", "watch", "nightly", "--once", home=tmp_path, PYTHONIOENCODING="ascii")
    assert "alpha 1 #. 1/2" in plain.stdout
    for _ in range(LIMITS.agent):
        sweep.review(sweep.step("alpha", 1), Outcome.TIMEOUT, detail="too slow")
    streamed = crb("sweep", "watch", "nightly", "--json", home=tmp_path)
    assert streamed.returncode == 3
    (line,) = streamed.stdout.splitlines()
    document = json.loads(line)
    assert (document["finished"], document["heat_map"]["rows"][0]["cells"]) == (True, "sF")
    ended = crb("sweep", "watch", "nightly", home=tmp_path)
    assert ended.returncode == 3
    assert ended.stdout.splitlines()[0] == "nightly: 2/2 trials ended (1 failed, 1 scored)"
    assert "timeout: too slow" in ended.stdout


def test_ctrl_c_ends_the_watching_and_not_the_sweep(store: Store, tmp_path: Path) -> None:
    """From another process than the one that runs it: reading changes nothing, and the last line says so."""
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=2)
    sweep.take(sweep.step("alpha", 0))
    with store.read() as connection:
        before = sweep_progress(connection, sweep.sweep_id)
    watching = subprocess.Popen(
        [sys.executable, "-m", "crb_cli", "sweep", "watch", "nightly", "--json", "--every", "0.1"],
        cwd=REPOSITORY,
        env=child_environment(tmp_path, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    readings = [json.loads(watching.stdout.readline()) for _ in range(2)]
    watching.send_signal(signal.SIGINT)
    rest, errors = watching.communicate(timeout=60)
    assert (watching.returncode, errors) == (0, "The sweep goes on.\n")
    assert all(json.loads(line) for line in rest.splitlines())
    assert [each["by_state"] for each in readings] == [before.by_state] * 2
    with store.read() as connection:
        assert sweep_progress(connection, sweep.sweep_id).queues == before.queues


def test_in_a_terminal_the_picture_is_drawn_anew_until_the_sweep_ends(store: Store, tmp_path: Path) -> None:
    """A real terminal of 24 lines: the picture changes as the sweep does, and its last state stays on the screen."""
    sweep = RunningSweep(store, agents=("alpha",), pull_requests=2)
    master, slave = pty.openpty()
    watching = subprocess.Popen(
        [sys.executable, "-m", "crb_cli", "sweep", "watch", "nightly", "--every", "0.1"],
        cwd=REPOSITORY,
        env=child_environment(tmp_path, {"TERM": "xterm", "LINES": "24"}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    os.set_blocking(master, False)
    seen = bytearray()

    def shows(text: str) -> bool:
        try:
            while part := os.read(master, 65536):
                seen.extend(part)
        except (BlockingIOError, OSError):
            pass
        return text.encode() in seen

    try:
        wait_for(lambda: shows("0/2"))
        sweep.done("alpha", 0)
        wait_for(lambda: shows("1/2 trials"))
        sweep.done("alpha", 1)
        deadline = time.monotonic() + 60
        while watching.poll() is None and time.monotonic() < deadline:
            shows("")
            time.sleep(0.05)
        assert watching.returncode == 0
        assert shows("2/2 trials")
        assert b"Traceback" not in seen
    finally:
        if watching.poll() is None:
            watching.kill()
            watching.wait()
        os.close(master)


class Terminal:
    """``crb sweep watch`` in a pseudo-terminal of a size that can change."""

    def __init__(self, home: Path, columns: int, lines: int = 24, **environment: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (lines, columns))
        kept = child_environment(home, {"TERM": "xterm"} | environment)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crb_cli", "sweep", "watch", "nightly", "--every", "0.1"],
            cwd=REPOSITORY,
            env={name: value for name, value in kept.items() if name not in {"COLUMNS", "LINES"}},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        self.seen = bytearray()

    def resize(self, columns: int, lines: int = 24) -> None:
        """From now on this size; forgets what was seen."""
        termios.tcsetwinsize(self._master, (lines, columns))
        self.seen.clear()

    def shows(self, text: str) -> bool:
        with contextlib.suppress(OSError):
            while part := os.read(self._master, 65536):
                self.seen.extend(part)
        return text in self.seen.decode(errors="replace")

    def lines(self) -> list[str]:
        """What was written, without escape sequences."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen.decode(errors="replace"))
        return re.split(r"[\r\n]+", text)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_a_terminal_that_is_resized_meanwhile(store: Store, tmp_path: Path) -> None:
    """From 80 columns to 40: the screen is cleared, and from then on no line is wider than it."""
    sweep = RunningSweep(store, agents=[f"審査員{number:02}" for number in range(40)], pull_requests=20)
    with Terminal(tmp_path, 80, NO_COLOR="1") as terminal:
        wait_for(lambda: terminal.shows("0/800 trials"))
        assert not re.search(rb"\x1b\[[0-9;]*3[1-7]m", terminal.seen), "colours, although NO_COLOR is set"
        terminal.resize(40)
        wait_for(lambda: terminal.shows("\x1b[2J"))
        terminal.seen.clear()
        sweep.done("審査員00", 0)
        wait_for(lambda: terminal.shows("1/800 trials"))
        assert max(map(cell_len, terminal.lines())) <= 40
        assert b"Traceback" not in terminal.seen


def test_a_dumb_terminal_gets_lines(store: Store, tmp_path: Path) -> None:
    """It cannot draw over what it shows: lines as in a log, as wide as it is, without any escape sequence."""
    sweep = RunningSweep(store, agents=("審査員",), pull_requests=1)
    with Terminal(tmp_path, 40, TERM="dumb") as terminal:
        wait_for(lambda: terminal.shows("nightly: 0/1 trials ended"))
        sweep.done("審査員", 0)
        wait_for(lambda: terminal.shows("nightly: 1/1 trials ended"))
        assert terminal.process.wait(60) == 0
        terminal.shows("")
        assert b"\x1b" not in terminal.seen
        assert max(map(cell_len, terminal.lines())) <= 40


def test_the_latency_command_and_the_split_of_a_trial(store: Store, tmp_path: Path) -> None:
    """A table of 80 columns, the same as JSON, and each attempt's split on the trial's page."""
    sweep = RunningSweep(store, agents=("alpha", "beta"), pull_requests=2)
    sweep.done("alpha", 0)
    sweep.done("beta", 1)
    printed = crb("sweep", "latency", "nightly", home=tmp_path)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert max(map(len, printed.stdout.splitlines())) <= 80
    words = [line.split() for line in printed.stdout.splitlines()]
    assert ["prepare", "2", "30", "30", "30", "30", "30"] in words
    assert ["alpha"] in words
    document = json.loads(crb("sweep", "latency", "nightly", "--agent", "beta", "--json", home=tmp_path).stdout)
    assert [each["agent"] for each in document["builds"]] == ["beta"]
    assert document["all"]["phases"]["review"] == {
        "n": 1,
        "of": 1,
        "p50": 1000.0,
        "p90": 1000.0,
        "p95": 1000.0,
        "p99": 1000.0,
        "maximum": 1000.0,
    }
    shown = crb("trial", "show", "1", home=tmp_path)
    assert "    queue 40, prepare 30, slot 6, review 1000, collect 15, teardown 25 ms" in shown.stdout.splitlines()
    missing = crb("sweep", "latency", "nightly", "--agent", "gamma", home=tmp_path)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
