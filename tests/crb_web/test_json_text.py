"""The quick way to write JSON gives what the plain one gives, or takes it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_web.json_text import json_bytes, quick_json_bytes

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), values, max_size=4))
def test_both_are_read_as_the_same(document):
    """Every value, to the last digit, in the same order; also half of a surrogate pair."""
    assert repr(json.loads(quick_json_bytes(document))) == repr(json.loads(json_bytes(document)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value):
    """It never becomes null."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        quick_json_bytes({"mean": [value]})


def test_text_may_hold_the_words():
    """They are text."""
    assert json.loads(quick_json_bytes({"NaN": "Infinity"})) == {"NaN": "Infinity"}
