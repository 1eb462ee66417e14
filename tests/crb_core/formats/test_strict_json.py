"""What strict JSON refuses, each with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.errors import InputError, Where
from crb_core.formats.strict_json import field_path, load_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Lone surrogates have no UTF-8 form.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


def refusal(data: bytes, **limits: int) -> InputError:
    with pytest.raises(InputError) as caught:
        load_json(data, "f.json", **limits)
    return caught.value


@settings(deadline=None)
@given(values, st.booleans())
def test_any_plain_value_reads_as_itself(value, ascii_only):
    """Whatever JSON can say is read without change."""
    assert load_json(json.dumps(value, ensure_ascii=ascii_only).encode(), "f.json") == value


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text('{}[]",:\\u0d8eNaI1-+.\n ').map(lambda text: text.encode()))
def test_any_bytes_are_read_or_refused_with_a_place(data):
    """No input ends in anything but a value or an InputError that names the file."""
    try:
        load_json(data, "f.json")
    except InputError:
        where = refusal(data).where or Where()
        assert where == Where(file="f.json", line=where.line, column=where.column, field=where.field)


@pytest.mark.parametrize(
    ("data", "problem", "line", "column", "field"),
    [
        (b'{"a": 1,\n "a": 2}', "the same key appears twice in one object", 2, 2, "a"),
        (b'{"b": [1, {"q": 1, "q": NaN}]}', "the same key appears twice in one object", 1, 20, "b[1].q"),
        (b'{"\\u0061": 1, "a": 2}', "the same key appears twice in one object", 1, 15, "a"),
        (b'{"b": [1, {"c": NaN}]}', "NaN is not a JSON number", 1, 17, "b[1].c"),
        (b"[-Infinity]", "-Infinity is not a JSON number", 1, 2, "[0]"),
        (b"[1, 1e999]", "the number is too large", 1, 5, "[1]"),
        (b"[" + b"9" * 400 + b"]", "the number is too large", 1, 2, "[0]"),
        (b'["\\ud800"]', "a \\u escape is half of a surrogate pair", 1, 2, "[0]"),
        (b'{"\\udc00": 1}', "a \\u escape is half of a surrogate pair", 1, 2, None),
    ],
)
def test_what_python_lets_pass_is_refused(data, problem, line, column, field):
    """Duplicate keys (also when escaped differently), NaN, Infinity, huge numbers, lone surrogates."""
    error = refusal(data)
    assert (error.problem, error.where) == (problem, Where(file="f.json", line=line, column=column, field=field))


def test_syntax_errors_have_line_and_column():
    """The place where the text stops being JSON."""
    error = refusal(b'{\n  "a": 1,\n  b: 2\n}')
    assert error.where == Where(file="f.json", line=3, column=3)
    assert "not valid JSON" in error.problem


def test_an_earlier_refusal_wins_over_a_later_syntax_error():
    """The first thing wrong is named."""
    assert refusal(b'{"a": 1, "a": 2, ]').problem == "the same key appears twice in one object"


@pytest.mark.parametrize("data", [b"", b" \n\t"])
def test_an_empty_file_is_named_so(data):
    """Not a syntax error at line 1."""
    assert refusal(data).problem == "the file is empty"


def test_depth_is_limited_without_crashing():
    """64 levels pass, 65 are refused at the bracket, 200,000 do not exhaust the stack."""
    assert load_json(b"[" * 64 + b"]" * 64, "f.json")
    assert refusal(b"[" * 65 + b"]" * 65).where == Where(file="f.json", line=1, column=65, field=field_path([0] * 64))
    assert "deeper than 64" in refusal(b"[" * 200_000).problem
    assert "deeper than 64" in refusal(b'{"a":' * 200_000).problem
    assert load_json(b"7", "f.json", max_depth=0) == 7
    assert "deeper than 0" in refusal(b"[]", max_depth=0).problem


def test_size_is_limited():
    """In bytes, for bytes and files alike."""
    assert load_json(b"[1]", "f.json", max_bytes=3) == [1]
    assert "larger than 2 bytes" in refusal(b"[1]", max_bytes=2).problem


@pytest.mark.parametrize(
    ("data", "line", "column"), [(b'["a"\n,"\xff"]', 2, 3), (b"\xef\xbb\xbf[]", 1, 1), (b"\xff\xfe[\x00]\x00", 1, 1)]
)
def test_only_utf8_without_a_mark_is_read(data, line, column):
    """Invalid bytes and byte-order marks have a place."""
    assert refusal(data).where == Where(file="f.json", line=line, column=column)


def test_an_unterminated_string_of_escapes_is_refused():
    """A text that would make a backtracking scanner quadratic."""
    assert "not valid JSON" in refusal(b'["' + b'\\"' * 300_000).problem


def test_files_are_named_by_their_path(tmp_path):
    """Missing, folder, empty: one sentence each with the path."""
    for path, problem in (
        (tmp_path / "no.json", "the file does not exist"),
        (tmp_path, "this is a folder, not a file"),
    ):
        with pytest.raises(InputError) as caught:
            load_json(path)
        assert (caught.value.problem, caught.value.where) == (problem, Where(file=str(path)))
    (tmp_path / "yes.json").write_text('{"a": [1, 2.5, null]}')
    assert load_json(tmp_path / "yes.json") == {"a": [1, 2.5, None]}


def test_field_paths_are_printable():
    """Keys with blanks, escapes or great length cannot spoil a terminal."""
    assert field_path(("findings", 3, "start_line")) == "findings[3].start_line"
    assert field_path(("a b", "\x1b[31m")) == '["a b"]["\\u001b[31m"]'
    assert len(field_path(["k" * 5000] * 50)) < 300
