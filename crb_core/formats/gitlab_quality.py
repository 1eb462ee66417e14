"""GitLab's code-quality report (a subset of the Code Climate format): every entry is one finding."""

from __future__ import annotations

from typing import Any

from crb_core.formats.imported import ImportedCandidate, JsonFile, shown
from crb_core.formats.located import Places

__all__ = ["read"]

_FIELDS = (
    "description",
    "check_name",
    "fingerprint",
    "severity",
    "location",
    "type",
    "categories",
    "content",
    "engine_name",
    "remediation_points",
    "other_locations",
    "trace",
)


def read(file: JsonFile, value: Any, places: Places) -> list[ImportedCandidate]:
    """The entries of a report, in order. Entries of another ``type`` than issue are reported and are no findings."""
    found = []
    prints: dict[str, int] = {}
    for number, item in enumerate(file.array(value) or ()):
        entry = file.object(item, number)
        if entry is None:
            continue
        if entry.get("type", "issue") != "issue":
            file.odd("entry that is no finding", f"its type is {shown(entry['type'])}", number)
            continue
        file.unknown(entry, _FIELDS, number)
        digest = entry.get("fingerprint")
        if isinstance(digest, str) and prints.setdefault(digest, number) != number:
            file.odd("equal fingerprints", f"the fingerprint equals that of entry {prints[digest]}", number)
        candidate = _candidate(file, entry, number, places)
        if candidate is not None:
            found.append(candidate)
    return found


def _candidate(file: JsonFile, entry: dict[str, Any], number: int, places: Places) -> ImportedCandidate | None:
    before = len(file.problems.found)
    message = file.text(entry.get("description"), number, "description")
    location = file.object(entry.get("location"), number, "location")
    if location is None:
        return None
    path = file.text(location.get("path"), number, "location", "path")
    start, end = _lines(file, location, number, places)
    if len(file.problems.found) > before:
        return None
    rest = {name: value for name, value in entry.items() if name != "description"}
    rule = entry.get("check_name")
    source = ({"rule": rule} if isinstance(rule, str) else {}) | {"record": rest}
    path_at = (number, "location", "path")
    return places.candidate(message, path, start, end, at=(number,), path_at=path_at, source=source)


def _lines(file: JsonFile, location: dict[str, Any], number: int, places: Places) -> tuple[int | None, int | None]:
    at: tuple[str | int, ...] = (number, "location")
    if location.get("lines") is not None:
        lines = file.object(location["lines"], *at, "lines")
        if lines is None:
            return None, None
        start = places.line(lines.get("begin"), *at, "lines", "begin")
        end = lines.get("end")
        return start, start if end is None else places.line(end, *at, "lines", "end")
    if location.get("positions") is not None:
        at = (*at, "positions")
        positions = file.object(location["positions"], *at)
        begin = file.object(positions.get("begin"), *at, "begin") if positions is not None else None
        if positions is None or begin is None:
            return None, None
        start = places.line(begin.get("line"), *at, "begin", "line")
        if positions.get("end") is None:
            return start, start
        end = file.object(positions["end"], *at, "end")
        return start, None if end is None else places.line(end.get("line"), *at, "end", "line")
    return None, None
