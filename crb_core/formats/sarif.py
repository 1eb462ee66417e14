"""SARIF 2.1.0 (OASIS standard): every result of kind ``fail``, ``open`` or ``review`` is one finding.

Its place is the first location; further ones, rule, level and the result itself are kept. Results that say that
something passed, are suppressed, or are absent from the newer of two runs are no findings, and are reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from crb_core.formats.imported import ImportedCandidate, JsonFile, shown
from crb_core.formats.located import Places

__all__ = ["VERSION", "read"]

VERSION = "2.1.0"
_FINDING_KINDS = ("fail", "open", "review")
_OTHER_KINDS = ("pass", "notApplicable", "informational")
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\d{1,3})\}")
_MAX_BASES = 16


def read(file: JsonFile, value: Any, places: Places) -> list[ImportedCandidate]:
    """The findings of all runs, in order."""
    log = file.object(value)
    if log is None:
        return []
    if log.get("version") != VERSION:
        file.wrong(f"the version is {shown(log.get('version'))}, not {VERSION}", "version", remedy="Export SARIF 2.1.0")
        return []
    found: list[ImportedCandidate] = []
    tools = []
    for number, item in enumerate(file.array(log.get("runs"), "runs") or ()):
        run = file.object(item, "runs", number)
        if run is None:
            continue
        reader = _Run(file, run, number, places)
        tools.append(reader.tool)
        found += reader.findings()
    places.document["tools"] = tools
    return found


class _Run:
    def __init__(self, file: JsonFile, run: dict[str, Any], number: int, places: Places) -> None:
        self._file = file
        self._run = run
        self._at = ("runs", number)
        self._places = places
        driver = _dict(_dict(run.get("tool")).get("driver"))
        self.tool = {
            name: driver[name] for name in ("name", "version", "semanticVersion") if isinstance(driver.get(name), str)
        }
        components = [driver, *(_dict(each) for each in _list(_dict(run.get("tool")).get("extensions")))]
        self._rules = [_list(component.get("rules")) for component in components]

    def findings(self) -> list[ImportedCandidate]:
        results = self._run.get("results")
        if results is None:
            self._file.odd("run without results", "the run records no results", *self._at)
            return []
        found = []
        for number, item in enumerate(self._file.array(results, *self._at, "results") or ()):
            at = (*self._at, "results", number)
            result = self._file.object(item, *at)
            if result is None or not self._is_finding(result, at):
                continue
            candidate = self._candidate(result, at)
            if candidate is not None:
                found.append(candidate)
        return found

    def _is_finding(self, result: Mapping[str, Any], at: tuple[str | int, ...]) -> bool:
        kind = result.get("kind", "fail")
        if kind in _OTHER_KINDS:
            self._file.odd("result that is no finding", f"its kind is {kind}", *at)
            return False
        if kind not in _FINDING_KINDS:
            self._file.wrong(f"{shown(kind)} is no kind of a SARIF result", *at, "kind")
            return False
        if result.get("baselineState") == "absent":
            self._file.odd("result that is no finding", "it is absent from the newer run", *at)
            return False
        suppressions = result.get("suppressions")
        active = [each for each in _list(suppressions) if _dict(each).get("status", "accepted") == "accepted"]
        if active:
            self._file.odd("suppressed result", "it is suppressed, so the tool does not show it", *at)
            return False
        return True

    def _candidate(self, result: dict[str, Any], at: tuple[str | int, ...]) -> ImportedCandidate | None:
        rule = self._rule(result)
        message = self._message(result, rule, at)
        locations = result.get("locations")
        path, start, end = None, None, None
        path_at = (*at, "locations", 0)
        before = len(self._file.problems.found)
        if locations:
            first = self._file.array(locations, *at, "locations")
            location = self._file.object(first[0], *path_at) if first else None
            if first and len(first) > 1:
                problem = f"it has {len(first)} locations: the first is its place, the others stay in its record"
                self._file.odd("result with several locations", problem, *at, "locations")
            physical = location.get("physicalLocation") if location is not None else None
            if physical is not None:
                path_at = (*path_at, "physicalLocation")
                place = self._file.object(physical, *path_at)
                if place is not None:
                    path = self._path(place.get("artifactLocation"), (*path_at, "artifactLocation"))
                    start, end = self._lines(place.get("region"), (*path_at, "region"))
        if len(self._file.problems.found) > before:
            return None
        source = {"rule": result.get("ruleId") or rule.get("id"), "level": result.get("level"), "record": result}
        return self._places.candidate(
            message,
            path,
            start,
            end,
            at=at,
            path_at=(*path_at, "artifactLocation"),
            source={name: value for name, value in source.items() if value is not None},
        )

    def _rule(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The rule's own record, where the run has it."""
        reference = _dict(result.get("rule"))
        index = result.get("ruleIndex", reference.get("index"))
        component = _dict(reference.get("toolComponent")).get("index")
        rules = self._rules[0]
        if isinstance(component, int) and _is_index(component, len(self._rules) - 1):
            rules = self._rules[component + 1]
        if isinstance(index, int) and _is_index(index, len(rules)):
            return _dict(rules[index])
        name = result.get("ruleId") or reference.get("id")
        return next((_dict(each) for each in rules if name is not None and _dict(each).get("id") == name), {})

    def _message(self, result: Mapping[str, Any], rule: Mapping[str, Any], at: tuple[str | int, ...]) -> str | None:
        message = self._file.object(result.get("message"), *at, "message")
        if message is None:
            return None
        text = message.get("text")
        if text is None and message.get("id") is not None:
            texts = _dict(rule.get("messageStrings"))
            name = message["id"]
            text = _dict(texts.get(name)).get("text") if isinstance(name, str) else None
            if text is None:
                self._file.wrong(f"the rule has no message {shown(name)}", *at, "message", "id")
                return None
        if text is None:
            text = message.get("markdown")
        checked = self._file.text(text, *at, "message", "text")
        arguments = message.get("arguments")
        if checked is None or not isinstance(arguments, list):
            return checked

        def fill(found: re.Match[str]) -> str:
            if found[1] is None:
                return found[0][0]
            place = int(found[1])
            return str(arguments[place]) if place < len(arguments) else found[0]

        return _PLACEHOLDER.sub(fill, checked)

    def _path(self, location: Any, at: tuple[str | int, ...]) -> str | None:
        if location is None:
            return None
        artifact = self._file.object(location, *at)
        if artifact is None:
            return None
        artifacts = _list(self._run.get("artifacts"))
        uri = artifact.get("uri")
        if uri is None and artifact.get("index") is not None:
            if not _is_index(artifact["index"], len(artifacts)):
                self._file.wrong(f"there is no artifact {shown(artifact['index'])}", *at, "index")
                return None
            artifact = _dict(_dict(artifacts[artifact["index"]]).get("location"))
            uri = artifact.get("uri")
        text = self._file.text(uri, *at, "uri")
        if text is None:
            return None
        return self._without_base(text, artifact.get("uriBaseId"))

    def _without_base(self, uri: str, base: Any) -> str:
        """The path of a URI, relative to the root of its base where it is absolute and begins with one."""
        bases = _dict(self._run.get("originalUriBaseIds"))
        roots = [_dict(each).get("uri") for each in bases.values()]
        for root in sorted((each for each in roots if isinstance(each, str)), key=len, reverse=True):
            if root and uri.startswith(root) and uri != root:
                return unquote(uri[len(root) :])
        # A base inside another one names a folder of the repository; the outermost is the repository itself.
        prefix = ""
        for _ in range(_MAX_BASES):
            record = _dict(bases.get(base)) if isinstance(base, str) else {}
            if not isinstance(record.get("uriBaseId"), str):
                break
            prefix, base = str(record.get("uri") or "") + prefix, record["uriBaseId"]
        path = unquote(prefix + uri)
        for scheme in ("file://localhost/", "file:///"):
            if path.startswith(scheme):
                return "/" + path[len(scheme) :]
        return path

    def _lines(self, value: Any, at: tuple[str | int, ...]) -> tuple[int | None, int | None]:
        if value is None:
            return None, None
        region = self._file.object(value, *at)
        if region is None or region.get("startLine") is None:
            return None, None
        start = self._places.line(region["startLine"], *at, "startLine")
        end = region.get("endLine")
        return start, start if end is None else self._places.line(end, *at, "endLine")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_index(value: Any, length: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < length
