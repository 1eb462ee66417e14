"""Pull-request review comments as the GitHub REST API gives them: an array, or an array of pages of them.

A comment that starts a thread is one finding of the account that wrote it; replies stay with it as context. Where the
comment's line has gone from the newest version of the diff, its original lines are taken, which is reported. A general
comment (an issue comment, or the body of a review) names no file and no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crb_core.formats.imported import ImportedCandidate, JsonFile, shown
from crb_core.formats.located import Places

__all__ = ["comments_of", "first_line", "is_empty", "login_of", "read", "replies_of", "source_of"]

#: Fields of which a comment that stands at a place has at least one.
_PLACE = ("path", "line", "original_line", "position", "subject_type")


def read(file: JsonFile, value: Any, places: Places) -> list[ImportedCandidate]:
    """The thread-starting comments of ``places.login``, in order.

    Without a login all comments must be of one account: those of other people are no findings of the agent.
    """
    comments = comments_of(file, value)
    starts = [(at, comment) for at, comment in comments if comment.get("in_reply_to_id") is None]
    replies = replies_of(file, comments)
    known = {comment.get("id") for _, comment in starts if isinstance(comment.get("id"), int | str)}
    lost = [parent for parent in replies if parent not in known]
    if lost:
        file.odd("reply without its comment", f"{len(lost)} threads answer a comment that is not in the file")
    accounts = sorted({login_of(comment) or "" for _, comment in starts})
    if places.login is None and len(accounts) > 1:
        file.wrong(
            f"the comments are by {len(accounts)} accounts: {', '.join(shown(each) for each in accounts[:5])}",
            remedy="Say with --login which of them is the agent's",
        )
        return []
    found = []
    for at, comment in starts:
        if places.login is not None and login_of(comment) != places.login:
            file.odd("comment by another account", f"it is by {shown(login_of(comment))}", *at)
            continue
        candidate = _candidate(file, comment, at, places, replies)
        if candidate is not None:
            found.append(candidate)
    return found


def comments_of(file: JsonFile, value: Any) -> list[tuple[tuple[str | int, ...], dict[str, Any]]]:
    found: list[tuple[tuple[str | int, ...], dict[str, Any]]] = []
    for number, item in enumerate(file.array(value) or ()):
        page = enumerate(item) if isinstance(item, list) else [(None, item)]
        for place, each in page:
            at: tuple[str | int, ...] = (number,) if place is None else (number, place)
            comment = file.object(each, *at)
            if comment is not None:
                found.append((at, comment))
    return found


def replies_of(
    file: JsonFile, comments: Sequence[tuple[tuple[str | int, ...], dict[str, Any]]]
) -> dict[Any, list[dict[str, Any]]]:
    """The replies by the id of the comment that they answer. Each is reported, as it is no finding."""
    replies: dict[Any, list[dict[str, Any]]] = {}
    for at, comment in comments:
        parent = comment.get("in_reply_to_id")
        if parent is not None:
            replies.setdefault(parent if isinstance(parent, int | str) else None, []).append(comment)
            file.odd("reply", "a reply is kept with the comment that it answers and is no finding", *at)
    return replies


def is_empty(file: JsonFile, body: Any, *at: str | int) -> bool:
    """Whether a comment has no text, which is reported."""
    empty = body is None or (isinstance(body, str) and not body.strip())
    if empty:
        file.odd("empty comment", "a comment without text is no finding", *at)
    return empty


def login_of(comment: dict[str, Any]) -> str | None:
    user = comment.get("user")
    login = user.get("login") if isinstance(user, dict) else None
    return login if isinstance(login, str) else None


def _candidate(
    file: JsonFile,
    comment: dict[str, Any],
    at: tuple[str | int, ...],
    places: Places,
    replies: dict[Any, list[dict[str, Any]]],
) -> ImportedCandidate | None:
    before = len(file.problems.found)
    if not any(comment.get(name) is not None for name in _PLACE):
        return _general(file, comment, at, places, replies)
    message = file.text(comment.get("body"), *at, "body")
    path = file.text(comment.get("path"), *at, "path")
    start, end = _lines(file, comment, at, places)
    if len(file.problems.found) > before:
        return None
    if comment.get("side") == "LEFT":
        file.odd("comment on the old side", "its lines are those of the base, not of the head", *at)
    source = source_of(comment, replies)
    return places.candidate(message, path, start, end, at=at, path_at=(*at, "path"), source=source)


def _general(
    file: JsonFile,
    comment: dict[str, Any],
    at: tuple[str | int, ...],
    places: Places,
    replies: dict[Any, list[dict[str, Any]]],
) -> ImportedCandidate | None:
    """A comment on the whole. A review without a text of its own has an empty body, which is no finding."""
    body = comment.get("body")
    if is_empty(file, body, *at):
        return None
    message = file.text(body, *at, "body")
    found = places.candidate(message, None, None, None, at=at, path_at=at, source=source_of(comment, replies))
    return None if found is None else replace(found, is_comment=True)


def first_line(file: JsonFile, comment: dict[str, Any], prefix: str, *at: str | int) -> Any:
    """The first line of a comment as it is recorded, None where it has one line only.

    Numbers of the old and the new side are no range: of such a comment the last line is taken, which is reported.
    """
    first = comment.get(f"{prefix}start_line")
    if first is not None and comment.get("start_side") not in (None, comment.get("side", "RIGHT")):
        file.odd("comment over both sides", "its first line is one of the other side; its last line is taken", *at)
        return None
    return first


def source_of(comment: dict[str, Any], replies: dict[Any, list[dict[str, Any]]]) -> dict[str, Any]:
    rest = {name: value for name, value in comment.items() if name != "body"}
    answers = replies.get(comment.get("id")) if isinstance(comment.get("id"), int | str) else None
    return {"record": rest} | ({"replies": answers} if answers else {})


def _lines(
    file: JsonFile, comment: dict[str, Any], at: tuple[str | int, ...], places: Places
) -> tuple[int | None, int | None]:
    if comment.get("subject_type") == "file":
        return None, None
    prefix = ""
    if comment.get("line") is None:
        if comment.get("original_line") is None:
            return None, None
        prefix = "original_"
        file.odd("outdated comment", "its line is gone from the newest diff; the original lines are taken", *at)
    end = places.line(comment[f"{prefix}line"], *at, f"{prefix}line")
    first = first_line(file, comment, prefix, *at)
    return (end if first is None else places.line(first, *at, f"{prefix}start_line")), end
