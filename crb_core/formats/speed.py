"""Review latency from GitHub timelines that someone downloaded (seed C, *Speed analysis*; facts C5).

Input ``crb.timelines/1`` (docs/formats.md), or the public tool's own ``speed_analysis.json``, whose statistics are then
made again from its durations. The answer has the public tool's shape. Times are whole seconds as GitHub gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path
from typing import Any

from crb_core.distribution import percentile
from crb_core.errors import InputError, Where
from crb_core.formats.checked import Problems
from crb_core.formats.imported import Irregularities, JsonFile, shown

__all__ = ["FORMAT", "STARTS", "read_speed", "statistics"]

FORMAT = "crb.timelines/1"
#: When a tool's review began, by the rule of the tool.
STARTS = (
    "pull_request_created",
    "last_human_comment",
    "ready_for_review",
    "review_requested",
    "last_reopened",
    "first_body_edit",
)

_COMMENTS = frozenset({"commented", "reviewed", "line-commented", "commit-commented"})


def read_speed(path: Path, *, compatible: bool = False) -> dict[str, Any]:
    """The latencies of every tool in a file: ``{tool: {per_pr, stats, failed_count}}``, tools by name.

    ``compatible`` takes the public tool's nearest-index percentiles instead of Type 7. InputError names the first
    problem and how many more there are.
    """
    problems = Problems()
    file = JsonFile(path, problems, Irregularities())
    value = file.load()
    problems.raise_first()
    document = file.object(value)
    problems.raise_first()
    assert document is not None
    reviews = _timelines(file, document) if "format" in document else _measured(file, document)
    problems.raise_first()
    return {tool: _tool(reviews[tool], compatible=compatible) for tool in sorted(reviews)}


def statistics(durations: Sequence[float], *, compatible: bool = False) -> dict[str, Any] | None:
    """Count, mean, quartiles and range in seconds; None without a duration.

    ``compatible``: of n sorted values those at n//4, n//2 and 3n//4, so the median of an even number is the upper one.
    """
    if not durations:
        return None
    ordered = sorted(durations)
    count = len(ordered)
    if compatible:
        quartiles = {25: ordered[count // 4], 50: ordered[count // 2], 75: ordered[3 * count // 4]}
    else:
        quartiles = {p: percentile(ordered, p / 100) or 0.0 for p in (25, 50, 75)}
    return {
        "count": count,
        "mean_seconds": math.fsum(ordered) / count,
        "median_seconds": quartiles[50],
        "p25_seconds": quartiles[25],
        "p75_seconds": quartiles[75],
        "min_seconds": ordered[0],
        "max_seconds": ordered[-1],
    }


def _tool(reviews: Sequence[dict[str, Any]], *, compatible: bool) -> dict[str, Any]:
    durations = [review["duration_seconds"] for review in reviews if review["duration_seconds"] is not None]
    return {
        "per_pr": list(reviews),
        "stats": statistics(durations, compatible=compatible),
        "failed_count": len(reviews) - len(durations),
        "percentiles": "nearest-index" if compatible else "type-7",
    }


def _measured(file: JsonFile, document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The reviews of a ``speed_analysis.json``; its own statistics are not used."""
    found: dict[str, list[dict[str, Any]]] = {}
    for tool, value in document.items():
        record = file.object(value, tool)
        found[tool] = []
        if record is None:
            continue
        for place, item in enumerate(file.array(record.get("per_pr"), tool, "per_pr") or ()):
            at = (tool, "per_pr", place)
            review = file.object(item, *at)
            if review is None:
                continue
            seconds = review.get("duration_seconds")
            if seconds is not None:
                seconds = file.number(seconds, *at, "duration_seconds")
            found[tool].append({**_named(file, review, at), **_rest(review), "duration_seconds": seconds})
    return found


def _named(file: JsonFile, review: Mapping[str, Any], at: tuple[str | int, ...]) -> dict[str, Any]:
    return {name: file.text(review.get(name), *at, name) for name in ("repo", "pr_url")}


def _rest(review: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: review.get(name) for name in ("start", "end")}
    return kept | ({"notes": review["notes"]} if review.get("notes") is not None else {})


def _timelines(file: JsonFile, document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    if document.get("format") != FORMAT:
        raise InputError(
            f"the format is {shown(document.get('format'))}, not {FORMAT}",
            where=Where(file=str(file.path), field="format"),
            remedy="docs/formats.md describes it",
        )
    tools: dict[str, tuple[frozenset[str], str]] = {}
    for name, value in (file.object(document.get("tools"), "tools") or {}).items():
        record = file.object(value, "tools", name)
        if record is None:
            continue
        bots = [file.text(bot, "tools", name, "bots", i) for i, bot in enumerate(_array(file, record, name))]
        start = record.get("start")
        if start not in STARTS:
            file.wrong(
                f"{shown(start)} is no start of a review", "tools", name, "start", remedy=f"Use {', '.join(STARTS)}"
            )
        elif not bots:
            file.wrong("a tool has at least one account", "tools", name, "bots")
        else:
            tools[name] = (frozenset(bot.lower() for bot in bots if bot), str(start))
    file.problems.raise_first()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tools}
    for place, item in enumerate(file.array(document.get("reviews"), "reviews") or ()):
        review = file.object(item, "reviews", place)
        tool = review.get("tool") if review is not None else None
        if review is None:
            continue
        if not isinstance(tool, str) or tool not in tools:
            file.wrong(f"{shown(tool)} is not one of the file's tools", "reviews", place, "tool")
            continue
        found[tool].append(_Timeline(file, review, place, *tools[tool]).measure())
    return found


def _array(file: JsonFile, record: Mapping[str, Any], name: str) -> list[Any]:
    return file.array(record.get("bots"), "tools", name, "bots") or []


class _Timeline:
    """One review: the pull request and what happened to it, in GitHub's own objects."""

    def __init__(self, file: JsonFile, review: Mapping[str, Any], place: int, bots: frozenset[str], start: str) -> None:
        self._file = file
        self._at = ("reviews", place)
        self._review = review
        self._bots = bots
        self._start = start
        self._events: list[dict[str, Any]] = []
        for number, item in enumerate(file.array(review.get("timeline"), *self._at, "timeline") or ()):
            event = file.object(item, *self._at, "timeline", number)
            if event is not None:
                self._events.append(self._event(event, number))

    def measure(self) -> dict[str, Any]:
        """repo, pr_url, start, end and duration in seconds; ``notes`` says why one of them is null."""
        record = _named(self._file, self._review, self._at)
        mine = [event for event in self._events if event["kind"] in _COMMENTS and event["is_bot"]]
        ends = [event["last"] for event in mine if event["last"] is not None]
        end = max(ends) if ends else None
        start = self._began()
        notes = None
        seconds: float | None = None
        if end is None:
            notes = "the tool left no comment"
        elif start is None:
            notes = f"no start: {self._start.replace('_', ' ')} is not in the timeline"
        elif end < start:
            notes = "the last comment of the tool is older than the start"
        else:
            seconds = (end - start).total_seconds()
        record |= {"start": _text(start), "end": _text(end), "duration_seconds": seconds}
        return record | ({"notes": notes} if notes else {})

    def _began(self) -> datetime | None:
        match self._start:
            case "pull_request_created":
                return self._time(self._review.get("created_at"), "created_at")
            case "last_human_comment":
                mine = self._last(_COMMENTS, lambda event: event["is_bot"])
                return self._last(
                    _COMMENTS, lambda event: not event["is_bot"] and mine is not None and event["at"] < mine
                )
            case "ready_for_review":
                return self._last({"ready_for_review"}, lambda _: True)
            case "review_requested":
                return self._last({"review_requested"}, lambda event: event["requested"] in self._bots)
            case "last_reopened":
                return self._last({"reopened"}, lambda _: True)
        edits = []
        recorded = self._review.get("body_edits")
        listed = [] if recorded is None else self._file.array(recorded, *self._at, "body_edits") or []
        for number, item in enumerate(listed):
            edit = self._file.object(item, *self._at, "body_edits", number)
            if edit is not None and _login(edit.get("editor")) in self._bots:
                edits.append(self._time(edit.get("edited_at"), "body_edits", number, "edited_at"))
        return min((each for each in edits if each is not None), default=None)

    def _last(self, kinds: Set[str], wanted: Callable[[dict[str, Any]], bool]) -> datetime | None:
        """The time of the last event of these kinds that is wanted."""
        times = [
            event["at"]
            for event in self._events
            if event["at"] is not None and event["kind"] in kinds and wanted(event)
        ]
        return max(times, default=None)

    def _event(self, event: Mapping[str, Any], number: int) -> dict[str, Any]:
        at = ("timeline", number)
        kind = event.get("event")
        if not isinstance(kind, str):
            self._file.wrong("an event has a name", *self._at, *at, "event")
            kind = None
        is_known = kind in _COMMENTS or kind in {"ready_for_review", "review_requested", "reopened"}
        name = "submitted_at" if kind == "reviewed" and event.get("created_at") is None else "created_at"
        made = self._time(event.get(name), *at, name) if is_known else None
        updated = self._time(event["updated_at"], *at, "updated_at") if event.get("updated_at") is not None else None
        author = _login(event.get("user")) or _login(event.get("actor"))
        return {
            "kind": kind,
            "at": made,
            "last": max(each for each in (made, updated) if each is not None) if made or updated else None,
            "is_bot": author in self._bots,
            "requested": _login(event.get("requested_reviewer")),
        }

    def _time(self, value: Any, *parts: str | int) -> datetime | None:
        if isinstance(value, str):
            try:
                found = datetime.fromisoformat(value)
            except ValueError:
                found = None
            if found is not None and found.tzinfo is not None:
                return found
        self._file.wrong(
            f"{shown(value)} is no time",
            *self._at,
            *parts,
            remedy="Write it as GitHub does, for example 2026-01-05T09:00:00Z",
        )
        return None


def _login(value: Any) -> str | None:
    login = value.get("login") if isinstance(value, Mapping) else None
    return login.lower() if isinstance(login, str) else None


def _text(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")
