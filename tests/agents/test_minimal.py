"""The minimal agent: one shell script that keeps the whole contract."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.agents.support import PullRequestFolder


def test_it_remarks_on_added_lines(pull_request: PullRequestFolder) -> None:
    """Unfinished work, conflict markers, debugging and long lines, each at its line; nothing on old lines."""
    pull_request.commit(
        {"a.py": "# TODO: old\nx = 1\n"},
        {
            "a.py": "# TODO: old\nx = 1\ny = 2  # FIXME\n" + "z" * 161 + "\n" + "z" * 160 + "\nTODOS = mastodon\n",
            "b.js": "console.log(1)\r\n<<<<<<< ours\r\n",
            "c.txt": "é" * 160 + "\n",
        },
    )
    run = pull_request.run("minimal")
    assert run.status == 0, run.log
    assert [(file, start, end, message.split()[-1]) for file, start, end, message in run.findings] == [
        ("a.py", 3, 3, "here."),
        ("a.py", 4, 4, "review."),
        ("b.js", 1, 1, "debugging."),
        ("b.js", 2, 2, "conflict."),
    ]
    assert run.document["pr"] == {
        "repo": "https://github.com/crb-showcase/ledger",
        "pr_number": 41,
        "base": pull_request.base,
        "head": pull_request.head,
    }


def test_nothing_found_is_an_empty_list(pull_request: PullRequestFolder) -> None:
    """A clean change, a deletion, a rename and a binary file give no findings and status 0."""
    pull_request.commit({"a": "TODO\n", "b": "x\n"}, {"a": None, "c": "x\n", "b": None, "d": b"\0TODO"})
    run = pull_request.run("minimal")
    assert (run.status, run.document["findings"]) == (0, [])


@pytest.mark.parametrize("quoted", ["true", "false"])
@pytest.mark.parametrize("awk", ["awk", "mawk", "gawk", "busybox awk"])
def test_text_of_others_is_escaped(pull_request: PullRequestFolder, tmp_path: Path, awk: str, quoted: str) -> None:
    """The file is valid JSON whatever names and values hold, with each awk that this machine has."""
    tool = shutil.which(awk.split()[0])
    if tool is None:
        pytest.skip(f"this machine has no {awk}")
    names = ["a b.py", "naïve/模块.py", "back\\slash.py", "co:lon.py", "{}[],.py", "%s%d.py", "-e.py"]
    pull_request.commit({}, dict.fromkeys(names, '# TODO \\ " \x01 \x7f\n+++ b/evil\n@@ -1 +1 @@\n# FIXME'))
    pull_request.git("config", "core.quotePath", quoted)
    (pull_request.root / "diff.patch").write_bytes(pull_request.git("diff", pull_request.base, pull_request.head))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "awk").write_text(f'#!/bin/sh\nexec {tool} {" ".join(awk.split()[1:])} "$@"\n')
    (folder / "awk").chmod(0o755)
    agent = 'mi"n\\i\tmal%s'
    run = pull_request.run("minimal", RB_AGENT=agent, PATH=f"{folder}:/usr/bin:/bin")
    assert run.status == 0, run.log
    assert run.document["agent"] == agent
    assert sorted((file, start) for file, start, *_ in run.findings) == sorted(
        (name, line) for name in names if "\\" not in name and ":" not in name for line in (1, 4)
    )
    assert run.log.count("not reviewed") == 2


def test_a_name_that_is_not_utf8_is_left_out(pull_request: PullRequestFolder) -> None:
    """A path of other bytes cannot stand in JSON; the log says so, and the rest is reported."""
    pull_request.commit({}, {"ok.py": "TODO\n"})
    diff = (pull_request.root / "diff.patch").read_bytes()
    for odd in (rb'"b/\377.py"', b"b/\xc3(.py", b"b/\xed.py", b"b/\x80.py"):
        (pull_request.root / "diff.patch").write_bytes(
            diff + b"diff --git a/x b/x\n--- /dev/null\n+++ " + odd + b"\n@@ -0,0 +1 @@\n+TODO\n"
        )
        run = pull_request.run("minimal")
        assert [file for file, *_ in run.findings] == ["ok.py"]
        assert "not reviewed" in run.log


@pytest.mark.parametrize("limit", ["abc", "-1", "1e3", "100000000", "$(id)"])
def test_a_bad_setting_ends_with_status_2(pull_request: PullRequestFolder, limit: str) -> None:
    """Configuration is checked, and never run."""
    pull_request.commit({}, {"a": "x\n"})
    run = pull_request.run("minimal", RB_CONFIG_MAX_LINE_LENGTH=limit)
    assert (run.status, run.out.exists()) == (2, False)


def test_an_output_folder_that_is_not_there_is_a_failure(pull_request: PullRequestFolder, tmp_path: Path) -> None:
    """Status 0 stands for a written file only."""
    pull_request.commit({}, {"a": "x\n"})
    run = pull_request.run("minimal", RB_OUT=str(tmp_path / "missing" / "findings.json"))
    assert run.status != 0
