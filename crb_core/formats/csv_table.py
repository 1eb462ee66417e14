"""Tables for spreadsheets: CSV, and what every spreadsheet format has to guard against.

A cell that begins like a formula is run by a spreadsheet that opens the file, and messages come from agents. Such text
gets an apostrophe in front in CSV, which has no types; XLSX says that it is text (crb_core.formats.xlsx).
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from crb_core.errors import InputError

__all__ = ["Cell", "Table", "cell", "flat_rows", "looks_like_formula", "neutralised", "table_of", "write_csv"]

#: What a cell can hold. None is an empty cell: not measured or undefined.
Cell = str | int | float | bool | None

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A named table; ``rows`` may be a generator and are read once."""

    name: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]


def looks_like_formula(text: str) -> bool:
    """Whether a spreadsheet could take the text for a formula: it starts with = + - @, tab, CR or LF.

    Full-width forms of the signs count too; some programs fold them.
    """
    return text.startswith(_STARTS) or unicodedata.normalize("NFKC", text[:1]).startswith(_STARTS)


def neutralised(text: str) -> str:
    """The text with an apostrophe in front where it looks like a formula."""
    return f"'{text}" if looks_like_formula(text) else text


def write_csv(table: Table, stream: IO[str]) -> int:
    """Write a table as CSV (RFC 4180: comma, CRLF, quotes doubled) with a header line; returns the rows written.

    Numbers are in Python's shortest exact form, booleans ``true`` and ``false``, None is an empty field; empty text is
    a pair of quotes, so that it stays different from None.
    """
    writer = csv.writer(stream, lineterminator="\r\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow([neutralised(name) for name in table.columns])
    count = 0
    for row in table.rows:
        fields = [_field(value) for value in row]
        # csv quotes an empty string only where it is a row's one field.
        if "" in fields:
            stream.write(",".join(_quoted(value) for value in fields) + "\r\n")
        else:
            writer.writerow(fields)
        count += 1
    return count


def cell(value: Any) -> Cell:
    """A JSON value as a cell: lists of plain values joined by ``; ``, with nothing for null."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return "; ".join("" if each is None else str(each) for each in value)
    raise InputError(f"a value of the kind {type(value).__name__} fits into no cell")


def flat_rows(records: Iterable[dict[str, Any]]) -> list[dict[str, Cell]]:
    """JSON records as flat ones: ``{"macro": {"f": 1}}`` becomes ``{"macro.f": 1}``; lists of objects are left out."""
    return [dict(_flat(record, "")) for record in records]


def table_of(name: str, records: Sequence[dict[str, Cell]]) -> Table:
    """A table of flat records; its columns are all their fields, in the order of first use."""
    columns = list(dict.fromkeys(column for record in records for column in record))
    return Table(name=name, columns=columns, rows=[[record.get(column) for column in columns] for record in records])


def _flat(value: dict[str, Any], prefix: str) -> Iterable[tuple[str, Cell]]:
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _flat(each, f"{prefix}{name}.")
        elif isinstance(each, list | tuple) and any(isinstance(item, dict | list | tuple) for item in each):
            continue
        else:
            yield f"{prefix}{name}", cell(each)


def _field(value: Cell) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return neutralised(value) if isinstance(value, str) else repr(value)


def _quoted(value: str | None) -> str:
    if value is None:
        return ""
    needs = value == "" or any(character in value for character in ',"\r\n')
    return '"' + value.replace('"', '""') + '"' if needs else value
