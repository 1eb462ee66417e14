"""No form of a secret survives the scrubber."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import textwrap
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_core.logs import configure_logs
from crb_core.scrub import MARK, Scrubber, keep_out_of_logs

secrets = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=8, max_size=60).filter(
    lambda text: len(text.strip()) >= 8 and len(set(text)) > 4 and text == text.strip() and len(text.splitlines()) == 1
)
KEY = 'sk-ant-api03-Zq/7+"b\\é~ßx_19=&<T>' + "w5"


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


def _forms(secret: str) -> dict[str, str]:
    raw = secret.encode()
    return {
        "plain": secret,
        "lower case": secret.lower(),
        "upper case": secret.upper(),
        "URL": quote(secret, safe=""),
        "URL, lower-case digits": quote(secret, safe="").lower(),
        "form": quote_plus(secret),
        "every character of a URL": "".join(f"%{byte:02X}" for byte in raw),
        "JSON": json.dumps(secret)[1:-1],
        "JSON in JSON": json.dumps(json.dumps(secret))[1:-1],
        "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps(secret)))[1:-1],
        "every character of JSON": "".join(f"\\u{ord(each):04x}" for each in secret),
        "repr": repr(secret)[1:-1],
        "repr of bytes": repr(raw)[2:-1],
        "every byte of a shell": "".join(f"\\x{byte:02x}" for byte in raw),
        "HTML": html.escape(secret),
        "every character of HTML": "".join(f"&#{ord(each)};" for each in secret),
        "hexadecimal": raw.hex(),
        "upper hexadecimal": raw.hex().upper(),
        "hexadecimal with colons": raw.hex(":"),
        "hexadecimal with blanks": raw.hex(" "),
        "hexadecimal of C": ", ".join(f"0x{byte:02x}" for byte in raw),
        "Base64": base64.b64encode(raw).decode(),
        "Base64 without padding": base64.b64encode(raw).decode().rstrip("="),
        "Base64 of URLs": base64.urlsafe_b64encode(raw).decode(),
        "Base64 one on": base64.b64encode(b"x" + raw + b"y").decode(),
        "Base64 two on": base64.urlsafe_b64encode(b"xx" + raw + b"yy").decode(),
        "Base64 in a URL": quote(base64.b64encode(raw).decode(), safe=""),
        "Base64 in JSON lines": json.dumps(base64.encodebytes(raw).decode())[1:-1],
    }


@pytest.mark.parametrize("name", _forms(KEY))
def test_each_form_is_removed_whole(name: str) -> None:
    """What stands around it stays as it was."""
    form = _forms(KEY)[name]
    scrubbed = Scrubber([KEY]).text(f"before {form} after")
    assert scrubbed.startswith("before ")
    assert scrubbed.endswith(" after")
    assert MARK in scrubbed
    left = scrubbed.removeprefix("before ").removesuffix(" after").replace(MARK, "").replace("\\", "").strip('"')
    # The characters at the ends of Base64 that hold bits of the neighbours, and padding.
    assert len(left) <= 9


def _broken(form: str, width: int) -> list[str]:
    return [form[at : at + width] for at in range(0, len(form), width)]


#: Lines end as on a terminal, in JSON, and in JSON inside JSON. There backslashes of the end and of the form would run
#: together, so that forms with backslashes are broken by terminals only.
ENDS = ("\r\n   ", "\\n", "\\\\r\\\\n")
BROKEN = [
    (name, width, end)
    for name, form in _forms(KEY).items()
    for width in (1, 7, 12, 16)
    for end in (ENDS[:1] if "\\" in form else ENDS)
]


@pytest.mark.parametrize(("name", "width", "end"), BROKEN)
def test_each_form_is_removed_when_it_is_broken_over_lines(name: str, width: int, end: str) -> None:
    """Wherever a terminal or a program breaks it, also inside of an escape, with indentation."""
    scrubbed = Scrubber([KEY]).text(end.join(_broken(_forms(KEY)[name], width)))
    assert MARK in scrubbed
    left = "".join(scrubbed.replace(MARK, "").split())
    assert len(re.sub(r"\\+[rn]?", "", left).strip('"')) <= 9


def test_a_value_broken_over_lines_is_removed() -> None:
    """A wrapped log line hides nothing."""
    assert Scrubber(["sk-ant-0123456789"]).data(b"key sk-ant-01\n   23456789 end") == f"key {MARK} end".encode()


def test_a_value_of_several_lines_is_removed_line_by_line() -> None:
    """A key file printed in part is removed in part."""
    assert Scrubber(["-----BEGIN-----\nabcdefghij\n"]).text("found abcdefghij") == f"found {MARK}"


def test_the_values_of_a_structured_secret_are_removed() -> None:
    """Out of JSON, assignments and .netrc files, an agent prints the one value that it uses."""
    document = json.dumps({"type": "account", "private_key": "-----BEGIN KEY-----\nMIIEvQIBADANBg\n", "id": 7})
    scrubber = Scrubber(
        [document, "API_TOKEN=abcdefghijkl-0\nOTHER=1", "machine h login me\npassword qwertyuiop-98765"]
    )
    assert scrubber.text("using MIIEvQIBADANBg") == f"using {MARK}"
    assert scrubber.text("token abcdefghijkl-0.") == f"token {MARK}."
    assert scrubber.text("login qwertyuiop-98765") == f"login {MARK}"


def test_a_beginning_that_is_cut_inside_a_secret() -> None:
    """Of a log only the end is kept; what is left of a secret at the cut is removed too."""
    key = "0123456789abcdefghijklmnopqrstuvwxyz"
    tail = f"{key[12:]} and more\n".encode()
    assert Scrubber([key]).data(tail, is_cut=True) == f"{MARK} and more\n".encode()
    encoded = base64.b64encode(key.encode())[20:]
    assert encoded[:12] not in Scrubber([key]).data(encoded, is_cut=True)


def test_a_sentence_quotes_no_part_of_a_secret() -> None:
    """Our own messages shorten what they quote, perhaps in the middle of a secret."""
    key = "0123456789abcdefghijklmnopqrstuvwxyz"
    assert Scrubber([key]).sentence(f'the value "{key[:20]}..." is wrong') == f'the value "{MARK}..." is wrong'
    assert Scrubber([key]).text(f'the value "{key[:20]}..." is wrong') == f'the value "{key[:20]}..." is wrong'


def test_json_is_cleaned_however_it_is_escaped() -> None:
    """In texts and keys; a document without a secret keeps its bytes."""
    scrubber = Scrubber(["sk-0123456789"])
    hidden = '{"a": ["' + "".join(f"\\u{ord(each):04X}" for each in "sk-0123456789") + '"], "sk-0123456789": 1.50}'
    assert json.loads(scrubber.json_data(hidden.encode())) == {"a": [MARK], MARK: 1.5}
    untouched = b'{ "a" : 1.50 }\n'
    assert scrubber.json_data(untouched) == untouched
    assert scrubber.json_data(b"{no json sk-0123456789") == f"{{no json {MARK}".encode()
    assert scrubber.json_data(b"[" * 100_000) == b"[" * 100_000


def test_other_text_is_untouched() -> None:
    """Nothing but the secret changes, and without secrets nothing does."""
    assert Scrubber(["0123456789"]).text("é 012345678 x") == "é 012345678 x"
    assert Scrubber([]).data(b"\xff\x00") == b"\xff\x00"
    assert Scrubber(["abc"]).text("abc") == "abc"
    assert Scrubber(["0123456789"]).data(b"%41 \\u0041 &amp;\n  0x41 \xff") == b"%41 \\u0041 &amp;\n  0x41 \xff"


@given(st.text(max_size=200), st.integers(min_value=0, max_value=200))
def test_nothing_around_a_secret_is_lost(text: str, at: int) -> None:
    """Whatever surrounds it: the text before and after is there, byte for byte."""
    secret = "\u00e9t\u00e9-0123456789-key"
    before, after = text[:at], text[at:]
    scrubbed = Scrubber([secret]).text(f"{before}|{secret}|{after}".replace("\x00", "")).split(MARK)
    assert scrubbed == [f"{before}|".replace("\x00", ""), f"|{after}".replace("\x00", "")]


def test_no_log_line_shows_a_secret(tmp_path: Path) -> None:
    """Ours, a library's, and a traceback."""
    secret = "sk-log-0123456789"
    configure_logs("info", file=tmp_path / "log.jsonl", terminal=None)
    keep_out_of_logs([secret])
    logger = logging.getLogger("some.library")
    logger.warning("plain %s", secret)
    logger.warning("encoded %s", base64.b64encode(secret.encode()).decode())
    try:
        raise ValueError(textwrap.indent(secret, "  "))
    except ValueError:
        logger.exception("failed")
    written = (tmp_path / "log.jsonl").read_text()
    assert len(written.splitlines()) == 3
    assert secret not in written
    assert written.count(MARK) >= 3
    assert all(json.loads(line) for line in written.splitlines())


@pytest.mark.parametrize("before", [b"C:\\", b"%", b"\\x4", b"&", b"\\u00", b"\\\\"])
@pytest.mark.parametrize("secret", ["rest-of-a-path-1", "next-of-a-path-2", "41-of-an-escape"])
def test_what_stands_before_a_value_takes_no_letter_from_it(before: bytes, secret: str) -> None:
    """A backslash in front of an r or n is not always a line break."""
    assert Scrubber([secret]).data(before + secret.encode() + b".") == before + f"{MARK}.".encode()
