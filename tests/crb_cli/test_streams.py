"""Standard streams that are full, closed, or cannot show everything."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crb_cli.new_file import new_file
from crb_cli.output import print_json
from crb_core.errors import InputError

CRB = (sys.executable, "-m", "crb_cli")


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    """Its golden finding has an accent, and no candidate, so ratios are undefined."""
    finding = {"file": "a.py", "start_line": 1, "end_line": 1, "message": "größer", "tp_fp": "tp", "severity": "high"}
    pull_request = {"key": "é-1", "golden": [finding], "candidates": [], "correspondences": [], "classifications": []}
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps({"format": "crb.bundle/1", "pull_requests": [pull_request]}))
    return str(path)


def ran(*arguments: str, shell: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """A command, with its streams redirected as a shell does it."""
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", *CRB, *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRB_")}
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", env=environment | variables, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_is_a_sentence(bundle: str) -> None:
    """Whether it fails while a table is printed or when the last of it is written."""
    done = ran("score", bundle, "--json", shell=">/dev/full")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "crb: A file or standard output cannot be used: No space left on device. Free space, or name another place.\n"
    )


def test_a_stream_that_lacks_characters_gets_others(bundle: str) -> None:
    """A table of an ASCII terminal keeps its columns, and an absent value looks absent."""
    done = ran("score", bundle, PYTHONIOENCODING="ascii", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert "?" not in done.stdout
    assert " - " in done.stdout


def test_a_closed_standard_error_gets_nothing_elsewhere() -> None:
    """What is said of a mistake never stands among the output."""
    done = ran("score", "absent.json", shell="2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def _fill(path: Path) -> None:
    with new_file(path) as stream:
        stream.write("first")
        os.dup2(os.open("/dev/full", os.O_WRONLY), stream.fileno())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_file_that_could_not_be_written_is_not_there(tmp_path: Path) -> None:
    """Else the same command would be refused once there is room; one that is there is left alone."""
    half = tmp_path / "half"
    with pytest.raises(InputError, match="cannot be written"):
        _fill(half)
    assert not half.exists()
    half.write_text("by hand")
    with pytest.raises(InputError, match="already there"), new_file(half):
        pytest.fail("it was opened")
    assert half.read_text() == "by hand"


def test_json_survives_a_stream_without_the_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program reads the same text back, from ASCII too."""
    value = {"message": "é – \U0001f600 \x1b[31m"}
    for encoding in ("ascii", "latin-1", "utf-8"):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        print_json(value)
        sys.stdout.flush()
        assert json.loads(raw.getvalue().decode(encoding)) == value, encoding
        assert b"\x1b" not in raw.getvalue()
