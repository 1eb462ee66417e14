"""Commits after the reviewed head by its author; all else is named, and a list without the head is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crb_core.formats.checked import Problems
from crb_core.formats.imported import Irregularities, JsonFile
from crb_core.formats.pull_commits import FollowUp, read_follow_ups


def sha(number: int) -> str:
    return f"{number:040x}"


def commit(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "sha": sha(number),
        "parents": [{"sha": sha(number - 1)}],
        "author": {"login": "ann"},
        "commit": {"message": f"Commit {number}", "author": {"email": "ann@example.org"}},
    } | changes


def read(folder: Path, *commits: Any, author: str | None = None) -> tuple[list[FollowUp], list[Any], list[str]]:
    path = folder / "pr.json"
    path.write_text(json.dumps(commits), encoding="utf-8")
    problems, odd = Problems(), Irregularities()
    file = JsonFile(path, problems, odd)
    found = read_follow_ups(file, file.load(), sha(2), author=author)
    return found, [(each.kind, each.field) for each in odd.found], [str(each) for each in problems.found]


def test_commits_after_the_head(tmp_path: Path) -> None:
    """Pages or not; merges and other people's commits are named."""
    found, odd, problems = read(
        tmp_path,
        [commit(1), commit(2)],
        [
            commit(3),
            commit(4, author={"login": "ben"}),
            commit(5, parents=[{"sha": sha(4)}, {"sha": sha(9)}]),
            commit(6),
        ],
    )
    assert [(each.sha, each.parent, each.author, each.message, each.field) for each in found] == [
        (sha(3), sha(2), "ann", "Commit 3", "[1][0]"),
        (sha(6), sha(5), "ann", "Commit 6", "[1][3]"),
    ]
    assert (odd, problems) == ([("commit by another account", "[1][1]"), ("merge", "[1][2]")], [])


def test_whose_commits(tmp_path: Path) -> None:
    """An account that the platform does not know is told by its address; --author says another one."""
    without = [commit(number, author=None) for number in (2, 3)]
    assert [each.author for each in read(tmp_path, *without)[0]] == ["ann@example.org"]
    given = (commit(2), commit(3, author={"login": "ben"}))
    assert [each.sha for each in read(tmp_path, *given, author="ben")[0]] == [sha(3)]


@pytest.mark.parametrize(
    ("commits", "problem"),
    [
        ([commit(1), commit(3)], "do not hold the reviewed head"),
        ([], "do not hold the reviewed head"),
        ([commit(2, author=None, commit={})], "no author"),
        ([commit(2), commit(3, sha="abc")], "full commit id"),
        ([commit(2), commit(3, parents=None)], "parents"),
        ([commit(2), commit(3, parents=[{"sha": "--output=x"}])], "parents"),
        ([commit(2), commit(3, commit={"message": 3})], "message"),
        ([3], "object"),
    ],
)
def test_what_is_wrong(tmp_path: Path, commits: list[Any], problem: str) -> None:
    """One sentence with the field, and no commit is guessed."""
    found, _, problems = read(tmp_path, *commits)
    assert found == []
    assert problem in problems[0]
