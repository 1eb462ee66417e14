"""What is printed leaves the terminal alone and loses nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_cli.output import print_json


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_is_printable_and_means_the_same(value: Any) -> None:
    """Control characters, bidi controls and line separators are escapes; a program reads what was meant."""
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("builtins.print", lambda text: lines.append(text))
        print_json({"value": value, "hostile": "\x1b[2J\x9b1A\x7f\u202e\u2028\U000e0041"})
    assert all(line.isprintable() for line in lines)
    assert json.loads("\n".join(lines))["value"] == value


def test_json_keeps_letters_readable(capsys: pytest.CaptureFixture[str]) -> None:
    """What can be printed is not escaped."""
    print_json({"text": "é 日本 🙂"})
    assert "é 日本 🙂" in capsys.readouterr().out
