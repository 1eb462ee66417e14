"""CSV and XLSX: nothing is lost, nothing is a formula, equal content gives equal bytes."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_core.errors import InputError
from crb_core.formats.csv_table import Table, flat_rows, looks_like_formula, table_of, write_csv
from crb_core.formats.xlsx import MAX_CELL, workbook, write_workbook

NAMESPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
FORMULAS = ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1", "－1", "＠x"]


def as_csv(*rows: list[Any], columns: tuple[str, ...] = ("a", "b", "c")) -> str:
    stream = io.StringIO(newline="")
    assert write_csv(Table(name="t", columns=columns, rows=rows), stream) == len(rows)
    return stream.getvalue()


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_text_in_csv(text: str) -> None:
    """An apostrophe in front; numbers keep their sign and are no text."""
    line = as_csv([text, -1, -0.5])
    assert next(csv.reader(io.StringIO(line.split("\r\n", 1)[1], newline=""))) == ["'" + text, "-1", "-0.5"]


def test_csv_keeps_null_and_empty_text_apart() -> None:
    """None is an empty field, empty text a pair of quotes, booleans are words."""
    assert as_csv([None, "", True], ["x", None, False]) == 'a,b,c\r\n,"",true\r\nx,,false\r\n'


@given(st.lists(st.one_of(st.none(), st.text(), st.integers(), st.floats(allow_nan=False)), min_size=3, max_size=3))
def test_csv_gives_back_what_was_written(row: list[Any]) -> None:
    """Any reader of RFC 4180 sees the same texts, but for the apostrophe."""
    back = list(csv.reader(io.StringIO(as_csv(row), newline="")))
    assert len(back) == 2
    for wrote, read in zip(row, back[1], strict=True):
        if wrote is None:
            assert read == ""
        elif isinstance(wrote, str):
            assert read == ("'" + wrote if looks_like_formula(wrote) else wrote)
        else:
            assert type(wrote)(read) == wrote


def test_json_rows_become_flat() -> None:
    """Objects by dotted names, lists of values in one cell, lists of objects left out, columns by first use."""
    records = [{"a": {"b": 1, "c": [1, None, 2]}, "d": [{"x": 1}]}, {"e": None, "a": {"b": 2}}]
    table = table_of("t", flat_rows(records))
    assert (table.columns, list(table.rows)) == (["a.b", "a.c", "e"], [[1, "1; ; 2", None], [2, None, None]])


def cells(path: Path, sheet: int = 1) -> list[dict[str, tuple[str | None, str]]]:
    """By row: column letter to (type, text), read without any spreadsheet library."""
    with zipfile.ZipFile(path) as archive:
        root = ElementTree.fromstring(archive.read(f"xl/worksheets/sheet{sheet}.xml"))
    rows = []
    for row in root.iter(f"{NAMESPACE}row"):
        found = {}
        for each in row.iter(f"{NAMESPACE}c"):
            assert each.find(f"{NAMESPACE}f") is None
            text = "".join(part.text or "" for part in [*each.iter(f"{NAMESPACE}t"), *each.iter(f"{NAMESPACE}v")])
            found[each.attrib["r"].rstrip("0123456789")] = (each.attrib.get("t"), text)
        rows.append(found)
    return rows


def test_xlsx_holds_text_as_text(tmp_path: Path) -> None:
    """No cell is a formula or a link; numbers and booleans are typed; None is no cell at all."""
    rows = [[text, 1.5, None] for text in (*FORMULAS, "http://x.invalid/", "007", "{=1}")] + [[True, "", 3]]
    written = write_workbook(tmp_path / "x.xlsx", [Table(name="t", columns=("a", "b", "c"), rows=rows)])
    assert (written.rows, written.cut) == (len(rows), 0)
    found = cells(tmp_path / "x.xlsx")
    assert [each["A"][0] for each in found[1:-1]] == ["inlineStr"] * (len(rows) - 1)
    plain = [each["A"][1] for each in found[1:-1] if "\r" not in each["A"][1]]
    assert plain[:4] == ["=1+1", "+1", "-2+3", "@SUM(A1)"]
    assert all("C" not in each for each in found[1:-1])
    assert (found[-1]["A"], found[-1]["C"]) == (("b", "1"), (None, "3"))


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_xlsx_keeps_every_digit(number: float) -> None:
    """A number is the same in a workbook, in CSV and in JSON: a mean of 0.1 + 0.2 is no 0.3."""
    with zipfile.ZipFile(io.BytesIO(workbook([Table(name="t", columns=("a",), rows=[[number]])])[0])) as archive:
        root = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    shown = [each.text for each in root.iter(f"{NAMESPACE}v")]
    assert shown == [repr(number)]


def test_xlsx_is_well_formed_whatever_the_text(tmp_path: Path) -> None:
    """Control characters, markup and other planes keep the file readable."""
    text = "".join(map(chr, range(32))) + "<&>\"']]> \ufffe\uffff \U0001f600 \u202e"
    write_workbook(tmp_path / "x.xlsx", [Table(name="[a]:*?/\\" * 9, columns=("a",), rows=[[text], [text]])])
    assert len(cells(tmp_path / "x.xlsx")) == 3


def test_xlsx_is_the_same_every_time(tmp_path: Path) -> None:
    """No time of writing is in the file."""
    for name in ("a.xlsx", "b.xlsx"):
        write_workbook(tmp_path / name, [Table(name="t", columns=("a",), rows=[["x"], [1]])])
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()


def test_xlsx_says_where_it_cut(tmp_path: Path) -> None:
    """A cell holds 32,767 units; longer text ends with a remark and is counted."""
    rows = [["x" * MAX_CELL], ["y" * (MAX_CELL + 1)], ["\U0001f600" * MAX_CELL]]
    written = write_workbook(tmp_path / "x.xlsx", [Table(name="t", columns=("a",), rows=rows)])
    assert written.cut == 2
    first, second, third = (each["A"][1] for each in cells(tmp_path / "x.xlsx")[1:])
    assert first == "x" * MAX_CELL
    assert second.endswith(f"[cut: {MAX_CELL + 1} characters in all, `crb export csv` has them]")
    assert len(third.encode("utf-16-le")) // 2 <= MAX_CELL


def test_sheets_have_names_of_their_own(tmp_path: Path) -> None:
    """Equal and overlong names get numbers."""
    tables = [Table(name="r" * 40, columns=("a",), rows=[]) for _ in range(3)]
    write_workbook(tmp_path / "x.xlsx", tables)
    with zipfile.ZipFile(tmp_path / "x.xlsx") as archive:
        root = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    names = [each.attrib["name"] for each in root.iter(f"{NAMESPACE}sheet")]
    assert names == ["r" * 31, "r" * 29 + "_2", "r" * 29 + "_3"]


def test_an_unwritable_workbook_is_a_sentence(tmp_path: Path) -> None:
    """And nothing half written stays."""
    with pytest.raises(InputError, match="the workbook cannot be written to"):
        write_workbook(tmp_path / "absent" / "x.xlsx", [Table(name="t", columns=("a",), rows=[])])
    assert list(tmp_path.iterdir()) == []
