"""reviewdog's rdjson (``DiagnosticResult``) and rdjsonl (one diagnostic a line): every diagnostic is one finding.

Lines count from 1; the end of a range is exclusive in columns, so an end at column 1 means the line before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crb_core.errors import InputError, Where
from crb_core.formats.imported import ImportedCandidate, JsonFile
from crb_core.formats.located import Places
from crb_core.formats.strict_json import MAX_BYTES, load_json

__all__ = ["Lines", "load", "read"]

_LINES_SUFFIXES = (".rdjsonl", ".jsonl")

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


class Lines(list[tuple[int, Any]]):
    """The values of a file with one diagnostic a line, each with its line (from 1)."""


def load(file: JsonFile) -> Any:
    """The value of an rdjson file, or the ``Lines`` of an rdjsonl file; None after noting why it cannot be read.

    A file is rdjsonl by its ending, or where its first line is a diagnostic of its own. One without lines has none.
    """
    data = file.problems.content(file.path)
    if data is None:
        return None
    if not file.path.name.endswith(_LINES_SUFFIXES) and not _begins_with_a_diagnostic(data):
        return file.load()
    if len(data) > MAX_BYTES:
        file.wrong(f"the file is larger than {MAX_BYTES} bytes", remedy="Split it or remove data")
        return None
    lines = Lines()
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                lines.append((number, load_json(line, str(file.path))))
            except InputError as error:
                where = replace(error.where or Where(file=str(file.path)), line=number)
                file.problems.note(InputError(error.problem, where=where, remedy=error.remedy))
    return lines


def _begins_with_a_diagnostic(data: bytes) -> bool:
    try:
        first = load_json(data.lstrip().split(b"\n", 1)[0])
    except InputError:
        return False
    return isinstance(first, dict) and "diagnostics" not in first and not {"message", "location"}.isdisjoint(first)


def read(file: JsonFile, value: Any, places: Places) -> list[ImportedCandidate]:
    """The diagnostics of a result or of lines, in order."""
    if isinstance(value, Lines):
        found = []
        for number, item in value:
            file.line = number
            found += _diagnostic(file, item, (), places)
        file.line = None
        return found
    result = file.object(value)
    if result is None:
        return []
    file.unknown(result, _RESULT_FIELDS)
    places.document.update({name: result[name] for name in ("source", "severity") if name in result})
    found = []
    for number, item in enumerate(file.array(result.get("diagnostics"), "diagnostics") or ()):
        found += _diagnostic(file, item, ("diagnostics", number), places)
    return found


def _diagnostic(file: JsonFile, item: Any, at: tuple[str | int, ...], places: Places) -> list[ImportedCandidate]:
    diagnostic = file.object(item, *at)
    if diagnostic is None:
        return []
    file.unknown(diagnostic, _FIELDS, *at)
    candidate = _candidate(file, diagnostic, at, places)
    return [] if candidate is None else [candidate]


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
