"""What people said at lines: bots, replies and comments without lines are left out and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crb_core.formats.checked import Problems
from crb_core.formats.imported import Irregularities, JsonFile
from crb_core.formats.located import Places
from crb_core.formats.review_comments import ReviewRemark, read_remarks

COMMIT = "c" * 40


def comment(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "path": "./a.py",
        "line": 20,
        "start_line": None,
        "original_line": 12,
        "original_start_line": 10,
        "original_commit_id": COMMIT,
        "commit_id": "d" * 40,
        "side": "RIGHT",
        "body": "First.\n\nSecond.",
        "user": {"login": "ann", "type": "User"},
    } | changes


def read(folder: Path, *comments: dict[str, Any], without: tuple[str, ...] = ()) -> tuple[list[ReviewRemark], Any, Any]:
    path = folder / "pr.json"
    path.write_text(json.dumps(comments), encoding="utf-8")
    problems, odd = Problems(), Irregularities()
    file = JsonFile(path, problems, odd)
    found = read_remarks(file, file.load(), Places(file=file, agent="human_review"), without=without)
    return found, [(each.kind, each.field) for each in odd.found], [str(each) for each in problems.found]


def test_a_remark_is_on_the_commit_on_which_it_was_made(tmp_path: Path) -> None:
    """Original lines and commit, not where GitHub has moved it since; the text stays whole, replies stay with it."""
    ((remark,), odd, problems) = read(tmp_path, comment(1), comment(2, in_reply_to_id=1, body="Done."))
    assert (remark.file, remark.start_line, remark.end_line) == ("a.py", 10, 12)
    assert (remark.commit, remark.on_old_side, remark.author) == (COMMIT, False, "ann")
    assert remark.message == "First.\n\nSecond."
    assert [each["body"] for each in remark.source["replies"]] == ["Done."]
    assert (odd, problems) == ([("reply", "[1]")], [])


def test_without_original_lines_the_present_ones_count(tmp_path: Path) -> None:
    """They are of the comment's present commit."""
    ((remark,), _, _) = read(tmp_path, comment(1, original_line=None, original_start_line=None, side="LEFT"))
    assert (remark.start_line, remark.end_line, remark.commit) == (20, 20, "d" * 40)
    assert remark.on_old_side


def test_a_comment_over_both_sides_is_at_its_last_line(tmp_path: Path) -> None:
    """The numbers of two versions of a file are no range; that is said."""
    ((remark,), odd, _) = read(tmp_path, comment(1, start_side="LEFT"))
    assert (remark.start_line, remark.end_line) == (12, 12)
    assert odd == [("comment over both sides", "[0]")]
    ((same,), odd, _) = read(tmp_path, comment(1, start_side="RIGHT"))
    assert (same.start_line, same.end_line, odd) == (10, 12, [])


def test_what_is_no_remark_of_a_reviewer(tmp_path: Path) -> None:
    """Each is named with its kind and place."""
    found, odd, problems = read(
        tmp_path,
        comment(1, user={"login": "helper[bot]", "type": "User"}),
        comment(2, user={"login": "app", "type": "Bot"}),
        comment(3, user={"login": "author", "type": "User"}),
        comment(4, user=None),
        comment(5, body="  "),
        comment(6, line=None, original_line=None, subject_type="file"),
        comment(7, path=None),
        without=("author",),
    )
    assert (found, problems) == ([], [])
    assert odd == [
        ("comment by a bot", "[0]"),
        ("comment by a bot", "[1]"),
        ("comment by another account", "[2]"),
        ("comment without an author", "[3]"),
        ("empty comment", "[4]"),
        ("comment without lines", "[5]"),
        ("comment without lines", "[6]"),
    ]


def test_what_is_wrong(tmp_path: Path) -> None:
    """A path that leaves the repository, lines that are none, a commit that is no commit: never a guess."""
    for changes, field in (
        ({"path": "../x"}, "path"),
        ({"original_line": "12"}, "original_line"),
        ({"original_line": 9}, "last line 9 is before the first line 10"),
        ({"original_commit_id": "abc"}, "original_commit_id"),
        ({"original_commit_id": None}, "original_commit_id"),
        ({"body": "a\0b"}, "body"),
    ):
        found, _, problems = read(tmp_path, comment(1, **changes))
        assert found == []
        assert len(problems) == 1
        assert field in problems[0]
