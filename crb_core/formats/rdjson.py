"""reviewdog's rdjson (``DiagnosticResult``): every diagnostic is one finding.

Lines count from 1; the end of a range is exclusive in columns, so an end at column 1 means the line before it.
"""

from __future__ import annotations

from typing import Any

from crb_core.formats.imported import ImportedCandidate, JsonFile
from crb_core.formats.located import Places

__all__ = ["read"]

_RESULT_FIELDS = ("diagnostics", "source", "severity")
_FIELDS = (
    "message",
    "location",
    "severity",
    "source",
    "code",
    "suggestions",
    "original_output",
    "originalOutput",
    "related_locations",
    "relatedLocations",
)


def read(file: JsonFile, value: Any, places: Places) -> list[ImportedCandidate]:
    """The diagnostics of a result, in order."""
    result = file.object(value)
    if result is None:
        return []
    file.unknown(result, _RESULT_FIELDS)
    places.document.update({name: result[name] for name in ("source", "severity") if name in result})
    found = []
    for number, item in enumerate(file.array(result.get("diagnostics"), "diagnostics") or ()):
        at = ("diagnostics", number)
        diagnostic = file.object(item, *at)
        if diagnostic is None:
            continue
        file.unknown(diagnostic, _FIELDS, *at)
        candidate = _candidate(file, diagnostic, at, places)
        if candidate is not None:
            found.append(candidate)
    return found


def _candidate(
    file: JsonFile, diagnostic: dict[str, Any], at: tuple[str | int, ...], places: Places
) -> ImportedCandidate | None:
    before = len(file.problems.found)
    message = file.text(diagnostic.get("message"), *at, "message")
    location = file.object(diagnostic.get("location"), *at, "location")
    if message is None or location is None:
        return None
    path_at = (*at, "location", "path")
    path = file.text(location.get("path"), *path_at)
    start, end = _lines(file, location.get("range"), (*at, "location", "range"), places)
    if path is None or len(file.problems.found) > before:
        return None
    code = diagnostic.get("code")
    rule = code.get("value") if isinstance(code, dict) else None
    rest = {name: value for name, value in diagnostic.items() if name != "message"}
    source = ({"rule": rule} if isinstance(rule, str) else {}) | {"record": rest}
    return places.candidate(message, path, start, end, at=at, path_at=path_at, source=source)


def _lines(file: JsonFile, value: Any, at: tuple[str | int, ...], places: Places) -> tuple[int | None, int | None]:
    if value is None:
        return None, None
    span = file.object(value, *at)
    start = file.object(span["start"], *at, "start") if span is not None and span.get("start") is not None else None
    if span is None or start is None or start.get("line") in (None, 0):
        return None, None
    first = places.line(start["line"], *at, "start", "line")
    end = file.object(span["end"], *at, "end") if span.get("end") is not None else None
    if end is None or end.get("line") in (None, 0) or first is None:
        return first, first
    last = places.line(end["line"], *at, "end", "line")
    if last is not None and last > first and end.get("column") == 1:
        last -= 1
    return first, last
