"""No form of a secret survives the scrubber."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from crb_core.scrub import MARK, Scrubber

secrets = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=8, max_size=60).filter(
    lambda text: len(text.strip()) >= 8 and len(set(text)) > 4 and text == text.strip() and len(text.splitlines()) == 1
)


@given(secrets, st.binary(max_size=20), st.binary(max_size=20))
def test_plain_and_encoded_values_are_removed(secret: str, before: bytes, after: bytes) -> None:
    """Plain, Base64 in any surrounding, URL-encoded, hexadecimal and JSON text: none is left."""
    raw = secret.encode()
    scrubber = Scrubber([secret])
    for form in (raw, quote(secret, safe="").encode(), raw.hex().encode(), json.dumps(secret)[1:-1].encode()):
        assert form not in scrubber.data(before + form + after).replace(MARK.encode(), b"\0")
    encoded = base64.b64encode(before + raw + after)
    scrubbed = scrubber.data(encoded)
    assert scrubbed != encoded
    left = scrubbed.replace(MARK.encode(), b"").rstrip(b"=")
    assert raw not in base64.b64decode(left[: len(left) // 4 * 4])


def test_a_value_broken_over_lines_is_removed() -> None:
    """A wrapped log line hides nothing."""
    assert Scrubber(["sk-ant-0123456789"]).data(b"key sk-ant-01\n   23456789 end") == f"key {MARK} end".encode()


def test_a_value_of_several_lines_is_removed_line_by_line() -> None:
    """A key file printed in part is removed in part."""
    assert Scrubber(["-----BEGIN-----\nabcdefghij\n"]).text("found abcdefghij") == f"found {MARK}"


def test_other_text_is_untouched() -> None:
    """Nothing but the secret changes, and without secrets nothing does."""
    assert Scrubber(["0123456789"]).text("é 012345678 x") == "é 012345678 x"
    assert Scrubber([]).data(b"\xff\x00") == b"\xff\x00"
    assert Scrubber(["abc"]).text("abc") == "abc"
