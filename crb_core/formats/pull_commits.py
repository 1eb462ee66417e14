"""The commits of a pull request as the GitHub REST API lists them: an array, or an array of pages of them (seed A 3.2).

Those after the reviewed head are the author's answer to the review, as far as the author made them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from crb_core.formats.github_review import comments_of
from crb_core.formats.imported import JsonFile, shown

__all__ = ["FollowUp", "read_follow_ups"]

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class FollowUp:
    """One commit after the reviewed head; ``field`` is its place in the file."""

    sha: str
    parent: str
    author: str
    message: str
    field: str


def read_follow_ups(file: JsonFile, value: Any, head: str, *, author: str | None = None) -> list[FollowUp]:
    """The commits after ``head`` by ``author`` (by default whoever made the head), in the order of the file.

    Merges and other people's commits are reported. A list that does not hold the head is an error: it says nothing of
    what came after.
    """
    found: list[FollowUp] = []
    seen_head = False
    for at, item in comments_of(file, value):
        before = len(file.problems.found)
        sha = item.get("sha")
        if not isinstance(sha, str) or not _COMMIT.fullmatch(sha):
            file.wrong("this must be a full commit id", *at, "sha")
            continue
        if sha == head:
            seen_head = True
            author = author if author is not None else _author(item)
            if author is None:
                file.wrong("the reviewed head has no author", *at, "author", remedy="Say with --author who it was")
            continue
        if not seen_head:
            continue
        parents = item.get("parents")
        shas = [each.get("sha") if isinstance(each, dict) else None for each in parents or ()]
        if not isinstance(parents, list) or not all(isinstance(each, str) and _COMMIT.fullmatch(each) for each in shas):
            file.wrong("these must be objects with the full ids of the parents", *at, "parents")
        commit = item.get("commit")
        message = commit.get("message") if isinstance(commit, dict) else None
        if not isinstance(message, str):
            file.wrong("this must be text", *at, "commit", "message")
        if len(file.problems.found) > before:
            continue
        if len(shas) != 1:
            file.odd("merge", "a commit with several parents, or none, says nothing of its own", *at)
        elif _author(item) != author:
            file.odd("commit by another account", f"it is by {shown(_author(item))}, not by {shown(author)}", *at)
        else:
            found.append(
                FollowUp(
                    sha=sha,
                    parent=str(shas[0]),
                    author=str(author),
                    message=str(message),
                    field="".join(f"[{part}]" for part in at),
                )
            )
    if not seen_head and not file.problems.found:
        file.wrong(f"the commits do not hold the reviewed head {head}", remedy="List all commits of the pull request")
    return found


def _author(item: dict[str, Any]) -> str | None:
    """The account, or where the platform knows none the address."""
    account = item.get("author")
    login = account.get("login") if isinstance(account, dict) else None
    if isinstance(login, str) and login:
        return login
    commit = item.get("commit")
    written = commit.get("author") if isinstance(commit, dict) else None
    email = written.get("email") if isinstance(written, dict) else None
    return email if isinstance(email, str) and email else None
