"""What people said in review, from pull-request review comments of the GitHub REST API (seed A 4.1; facts A15).

Each comment of a person at a line or at lines is one remark, on the commit on which it was made. Comments of bots,
replies (kept with the comment that they answer), and comments that name no line are none, and are reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from crb_core.formats.github_review import comments_of, first_line, is_empty, login_of, replies_of, source_of
from crb_core.formats.imported import JsonFile, shown
from crb_core.formats.located import Places

__all__ = ["ReviewRemark", "read_remarks"]

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class ReviewRemark:
    """One remark of a person. ``start_line`` and ``end_line`` are lines of ``file`` at ``commit``.

    ``on_old_side``: they are lines of the base, which the change removed. ``field`` is the comment's place in its file.
    """

    message: str
    file: str
    start_line: int
    end_line: int
    commit: str
    on_old_side: bool
    author: str
    field: str
    source: dict[str, Any]


def read_remarks(file: JsonFile, value: Any, places: Places, *, without: Collection[str] = ()) -> list[ReviewRemark]:
    """The remarks in the order of the file; ``without`` are accounts that are no reviewers, such as the author's."""
    comments = comments_of(file, value)
    replies = replies_of(file, comments)
    found = []
    for at, comment in comments:
        if comment.get("in_reply_to_id") is None:
            remark = _remark(file, comment, at, places, replies, without)
            if remark is not None:
                found.append(remark)
    return found


def _remark(
    file: JsonFile,
    comment: dict[str, Any],
    at: tuple[str | int, ...],
    places: Places,
    replies: dict[Any, list[dict[str, Any]]],
    without: Collection[str],
) -> ReviewRemark | None:
    login = login_of(comment)
    if login is None:
        file.odd("comment without an author", "its account is not recorded, so it can be a bot's", *at)
        return None
    if login in without:
        file.odd("comment by another account", f"it is by {shown(login)}", *at)
        return None
    if _is_bot(comment, login):
        file.odd("comment by a bot", f"it is by {shown(login)}", *at)
        return None
    body = comment.get("body")
    if is_empty(file, body, *at):
        return None
    prefix = "original_" if comment.get("original_line") is not None else ""
    if comment.get(f"{prefix}line") is None or comment.get("path") is None:
        file.odd("comment without lines", "it is anchored to no line", *at)
        return None
    before = len(file.problems.found)
    message = file.text(body, *at, "body")
    path = file.text(comment["path"], *at, "path")
    end = places.line(comment[f"{prefix}line"], *at, f"{prefix}line")
    first = first_line(file, comment, prefix, *at)
    start = end if first is None else places.line(first, *at, f"{prefix}start_line")
    name = "original_commit_id" if prefix else "commit_id"
    commit = comment.get(name)
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        file.wrong("this must be the full id of the commit that was commented on", *at, name)
    if message is None or path is None or start is None or end is None or len(file.problems.found) > before:
        return None
    placed = places.candidate(message, path, start, end, at=at, path_at=(*at, "path"))
    if placed is None or placed.finding.file is None:
        return None
    return ReviewRemark(
        message=message,
        file=placed.finding.file,
        start_line=start,
        end_line=end,
        commit=str(commit),
        on_old_side=comment.get("side") == "LEFT",
        author=login,
        field="".join(f"[{part}]" for part in at),
        source=source_of(comment, replies),
    )


def _is_bot(comment: dict[str, Any], login: str) -> bool:
    user = comment.get("user")
    return login.endswith("[bot]") or (isinstance(user, dict) and user.get("type") == "Bot")
