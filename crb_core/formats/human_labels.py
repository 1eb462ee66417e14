"""Labels that people gave to findings, ``crb.labels/1`` as JSON or CSV (docs/formats.md).

One file a rater. A label is one finding of one pull request with any of the axes; an absent axis (JSON) or an empty
cell (CSV) is no answer, not an answer. Anything unknown, repeated or out of vocabulary is an error with its place.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crb_core.errors import InputError, Where
from crb_core.finding import LABEL_AXES, Actionability, ContextRequired, Difficulty, Scope, TpFp
from crb_core.formats.strict_json import MAX_BYTES, load_json
from crb_core.protocols import Protocol, protocol_named

__all__ = ["AXES", "FORMAT", "NOTES", "NO_MATCH", "HumanLabels", "axis_values", "read_labels"]

FORMAT = "crb.labels/1"
#: ``matches`` are the golden finding ids that a finding truly matches, as one answer; ``none`` says that it is none.
AXES = (*LABEL_AXES, "matches")
NO_MATCH = "none"
#: Columns of a CSV file that say what a row is about; they are for the rater and are not read.
NOTES = ("file", "lines", "message")

_ENUMS = {
    "tp_fp": TpFp,
    "scope": Scope,
    "difficulty": Difficulty,
    "context_required": ContextRequired,
    "actionability": Actionability,
}
_KEY = ("pull_request", "finding")


def axis_values(rules: Protocol) -> dict[str, list[str]]:
    """The values of every label axis under a protocol."""
    own = {"severity": list(rules.severities), "category": list(rules.categories)}
    return {name: [each.value for each in values] for name, values in _ENUMS.items()} | own


@dataclass(frozen=True, kw_only=True)
class HumanLabels:
    """One rater's answers: by (pull request, finding) the axes that they answered."""

    rater: str
    labels: Mapping[tuple[str, str], Mapping[str, str]]


def read_labels(path: Path, *, protocol: str = "reviewbench", max_bytes: int = MAX_BYTES) -> HumanLabels:
    """Read one file; what begins with ``{`` is JSON, anything else CSV.

    Raises InputError with file, line or field for anything that the format or the protocol's vocabularies forbid.
    """
    rules = protocol_named(protocol)
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=Where(file=file)) from None
    if len(data) > max_bytes:
        raise InputError(f"the file is larger than {max_bytes} bytes", where=Where(file=file))
    if data.lstrip()[:1] == b"{":
        return _from_json(data, file, path, rules)
    return _from_csv(data, file, path, rules)


def _from_json(data: bytes, file: str, path: Path, rules: Protocol) -> HumanLabels:
    document = load_json(data, file)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f'the file does not say "format": "{FORMAT}"', where=Where(file=file, field="format"))
    for name in document:
        if name not in {"format", "rater", "labels"}:
            raise InputError("this field is not known", where=Where(file=file, field=str(name)[:100]))
    rater = document.get("rater", path.stem)
    if not isinstance(rater, str) or not rater.strip():
        raise InputError("the rater's name is no text", where=Where(file=file, field="rater"))
    entries = document.get("labels")
    if not isinstance(entries, list):
        raise InputError("the labels are no list", where=Where(file=file, field="labels"))
    reader = _Reader(file, rules)
    for place, entry in enumerate(entries):
        where = Where(file=file, field=f"labels[{place}]")
        if not isinstance(entry, dict):
            raise InputError("a label is an object", where=where)
        for name, value in entry.items():
            field = f"labels[{place}].{name[:100]}"
            if name not in _KEY and name not in AXES:
                raise InputError("this field is not known", where=Where(file=file, field=field))
            if value is None and name in AXES:
                continue
            if name == "matches" and isinstance(value, list) and all(isinstance(each, str) for each in value):
                continue
            if not isinstance(value, str) or not value.strip():
                raise InputError("the value is no text", where=Where(file=file, field=field))
        given = {name: _joined(value) for name, value in entry.items() if value is not None}
        reader.add(given, Where(file=file, field=f"labels[{place}]"))
    return HumanLabels(rater=rater, labels=reader.labels)


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(value) if value else NO_MATCH
    return str(value)


def _from_csv(data: bytes, file: str, path: Path, rules: Protocol) -> HumanLabels:
    try:
        # Spreadsheets write a byte-order mark in front of UTF-8.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            "the file is not UTF-8", where=Where(file=file, line=line), remedy="Save it as UTF-8"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InputError("the file holds a NUL character", where=Where(file=file, line=line))
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    reader = _Reader(file, rules)
    header: list[str] | None = None
    try:
        for row in rows:
            where = Where(file=file, line=rows.line_num)
            if not any(cell.strip() for cell in row):
                continue
            if header is None:
                header = _header(row, file, rows.line_num)
                continue
            if len(row) != len(header):
                raise InputError(f"the row has {len(row)} cells, the header {len(header)}", where=where)
            cells = zip(header, row, strict=True)
            reader.add({name: cell.strip() for name, cell in cells if name not in NOTES and cell.strip()}, where)
    except csv.Error as error:
        raise InputError(f"the row cannot be read: {error}", where=Where(file=file, line=rows.line_num)) from None
    if header is None:
        raise InputError("the file is empty", where=Where(file=file), remedy=f"Begin with {','.join(_KEY)} and an axis")
    return HumanLabels(rater=path.stem, labels=reader.labels)


def _header(row: list[str], file: str, line: int) -> list[str]:
    header = [cell.strip() for cell in row]
    for name in header:
        if name not in _KEY and name not in AXES and name not in NOTES:
            raise InputError(
                f"there is no column {name[:100]!r}",
                where=Where(file=file, line=line),
                remedy=f"Columns are {', '.join((*_KEY, *AXES, *NOTES))}",
            )
        if header.count(name) > 1:
            raise InputError(f"the column {name} is there twice", where=Where(file=file, line=line))
    for name in _KEY:
        if name not in header:
            raise InputError(f"the column {name} is missing", where=Where(file=file, line=line))
    return header


def _matches(text: str, where: Where) -> str:
    ids = sorted(set(text.replace(";", " ").split()))
    if NO_MATCH in ids and len(ids) > 1:
        raise InputError(
            f"matches holds {NO_MATCH} beside golden finding ids", where=where, remedy=f"Give ids, or only {NO_MATCH}"
        )
    return " ".join(ids)


class _Reader:
    def __init__(self, file: str, rules: Protocol) -> None:
        self._file = file
        self._vocabulary = axis_values(rules)
        self._first: dict[tuple[str, str], Where] = {}
        self.labels: dict[tuple[str, str], dict[str, str]] = {}

    def add(self, given: Mapping[str, str], where: Where) -> None:
        for name in _KEY:
            if name not in given:
                raise InputError(f"{name} is missing", where=where)
        for name, value in given.items():
            known = self._vocabulary.get(name)
            if known is not None and value not in known:
                raise InputError(
                    f"{value[:100]!r} is no value of {name}", where=where, remedy=f"Choose from {', '.join(known)}"
                )
        key = (given["pull_request"], given["finding"])
        if key in self.labels:
            raise InputError(
                f"finding {key[1][:100]} of {key[0][:100]} was already labelled at {self._first[key]}",
                where=where,
                remedy="Keep one label a finding",
            )
        self._first[key] = where
        answers = {name: given[name] for name in AXES if name in given}
        if "matches" in answers:
            answers["matches"] = _matches(answers["matches"], where)
        self.labels[key] = answers
