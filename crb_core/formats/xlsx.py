"""XLSX workbooks through XlsxWriter: text is always written as text, equal content gives equal bytes."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from crb_core.errors import InputError
from crb_core.formats.csv_table import Cell, Table, looks_like_formula

__all__ = ["MAX_CELL", "MAX_ROWS", "Written", "workbook", "write_workbook"]

#: Most characters (UTF-16 units) of one cell, and most rows of one sheet, header included: Excel's own limits.
MAX_CELL = 32_767
MAX_ROWS = 1_048_576

_FORBIDDEN_IN_NAMES = "[]:*?/\\"
_MAX_NAME = 31


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a workbook holds; ``cut`` cells had more text than a cell can hold and end with a remark that says so."""

    rows: int
    cut: int


def write_workbook(path: Path, tables: Iterable[Table]) -> Written:
    """Write ``workbook(tables)`` to a file, which appears only once it is whole. InputError where that fails."""
    data, written = workbook(tables)
    _save(path, data)
    return written


def workbook(tables: Iterable[Table]) -> tuple[bytes, Written]:
    """A workbook with one sheet a table, header row frozen.

    Text that looks like a formula is stored as text with the quote prefix, so it is no formula after editing either.
    Numbers keep all their digits, as in CSV and JSON. InputError where a table has more rows than a sheet can hold.
    """
    import xlsxwriter  # type: ignore[import-untyped]

    rows = cut = 0
    target = io.BytesIO()
    book = xlsxwriter.Workbook(
        target,
        {
            "constant_memory": True,
            "strings_to_formulas": False,
            "strings_to_numbers": False,
            "strings_to_urls": False,
            "nan_inf_to_errors": False,
        },
    )
    # Otherwise the time of writing would be in the file.
    book.set_properties({"created": datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)})
    bold = book.add_format({"bold": True})
    quoted = book.add_format({"quote_prefix": True})
    used: set[str] = set()
    for table in tables:
        sheet = book.add_worksheet(_sheet_name(table.name, used), worksheet_class=_exact_worksheet())
        sheet.freeze_panes(1, 0)
        for column, name in enumerate(table.columns):
            sheet.write_string(0, column, _fitting(name)[0], bold)
        for number, row in enumerate(table.rows, start=1):
            if number >= MAX_ROWS:
                raise InputError(
                    f"the table {table.name} has more rows than the {MAX_ROWS} of a sheet",
                    remedy="Export it with `crb export csv`",
                )
            cut += sum(_write(sheet, number, column, value, quoted) for column, value in enumerate(row))
            rows += 1
    book.close()
    return target.getvalue(), Written(rows=rows, cut=cut)


@cache
def _exact_worksheet() -> Any:
    """A worksheet that writes numbers in Python's shortest exact form; XlsxWriter's own rounds to 16 digits."""
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

    class ExactWorksheet(Worksheet):  # type: ignore[misc]
        def _xml_number_element(self, number: float, attributes: Sequence[tuple[str, Any]] = ()) -> None:
            attributes = [(name, self._escape_attributes(value)) for name, value in attributes]
            named = "".join(f' {name}="{value}"' for name, value in attributes)
            # A number of NumPy's says its type when it is asked for its own form.
            text = float.__repr__(number) if isinstance(number, float) else str(number)
            self.fh.write(f"<c{named}><v>{text}</v></c>")

    return ExactWorksheet


def _write(sheet: Any, row: int, column: int, value: Cell, quoted: Any) -> bool:
    """Write one cell; whether its text had to be cut."""
    if value is None:
        return False
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
        return False
    if isinstance(value, int | float):
        sheet.write_number(row, column, value)
        return False
    text, was_cut = _fitting(value)
    if looks_like_formula(text):
        sheet.write_string(row, column, text, quoted)
    else:
        sheet.write_string(row, column, text)
    return was_cut


def _fitting(text: str) -> tuple[str, bool]:
    units = text.encode("utf-16-le")
    if len(units) // 2 <= MAX_CELL:
        return text, False
    remark = f" [cut: {len(text)} characters in all, `crb export csv` has them]"
    kept = units[: 2 * (MAX_CELL - len(remark))].decode("utf-16-le", "ignore")
    return kept + remark, True


def _sheet_name(name: str, used: set[str]) -> str:
    plain = "".join("_" if each in _FORBIDDEN_IN_NAMES or not each.isprintable() else each for each in name)
    plain = plain.strip("'")[:_MAX_NAME] or "sheet"
    chosen, number = plain, 1
    while chosen.lower() in used or chosen.lower() == "history":
        number += 1
        chosen = f"{plain[: _MAX_NAME - 1 - len(str(number))]}_{number}"
    used.add(chosen.lower())
    return chosen


def _save(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(
            f"the workbook cannot be written to {path}: {error.strerror}", remedy="Name a file in another folder"
        ) from None
