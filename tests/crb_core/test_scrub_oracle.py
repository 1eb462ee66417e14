"""The scrubber against a slow reader that decodes every piece of a text in every way that docs/security.md lists."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crb_core.needles import Needles
from crb_core.scrub import MARK, Scrubber

#: No part of one is in another, none can come about by accident, and each has characters that some encoding changes.
SECRETS = ('sk-Zq/7+"b~x_19=&<T>w5', "plainword0123456789", "k\u00e9y-\u0141\u00f3d\u017a-24680-tail")
SCRUBBER = Scrubber(SECRETS)


def _reads(data: bytes, secret: str) -> bool:
    """Whether somebody who tries everything finds ``secret`` in ``data``."""
    views = [data, data.replace(b"\0", b"")]
    views += [_unbroken(view) for view in views]
    views += [_unescaped(view) for view in tuple(views)]
    views += [_unescaped(view) for view in tuple(views[4:])]
    wanted = {_fold(secret.encode()), _fold(secret.encode("latin-1", "ignore"))}
    wanted |= {_fold(secret.encode(f"utf-16-{end}").replace(b"\0", b"")) for end in ("le", "be")}
    wanted |= {_fold(secret[::-1].encode())}
    return any(form in _fold(view) for view in views for form in wanted) or any(
        secret.encode(code) in text
        for view in (*views[:4], *map(_undigited, views[:4]))
        for text in _decodings(view)
        for code in ("utf-8", "utf-16-le", "utf-16-be")
    )


def _fold(data: bytes) -> bytes:
    return data.lower()


def _unbroken(data: bytes) -> bytes:
    return re.sub(rb"(\r?\n|\\+[rn])[ \t]*", b"", data)


def _undigited(data: bytes) -> bytes:
    return re.sub(rb"0[xX]|\\x|[ :,\t-]", b"", data)


def _unescaped(data: bytes) -> bytes:
    text = re.sub(
        rb"\\+(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|.?)",
        lambda token: _backslashed(token[1]),
        data,
        flags=re.DOTALL,
    )
    text = unquote_to_bytes(text)
    return html.unescape(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _backslashed(code: bytes) -> bytes:
    if code[:1] == b"u" and len(code) == 5:
        return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    if len(code) == 3:
        return bytes([int(code, 8)])
    return code


def _decodings(data: bytes) -> Iterator[bytes]:
    """Hexadecimal, Base32 and Base64 of every run of their characters from each of its first places; Base64 twice."""
    for run in re.findall(rb"[0-9a-fA-F]{12,}", data):
        for start in range(2):
            digits = run[start:]
            yield binascii.unhexlify(digits[: len(digits) // 2 * 2])
    for run in re.findall(rb"[0-9A-Za-z]{10,}", data):
        for digits in (run.upper().translate(_TO_BASE_32), run):
            for start in range(8):
                yield from _base32(digits[start:])
    yield from _base64(data, depth=2)


#: From the alphabet of RFC 4648, section 6, to that of section 7, which Python's integers have.
_TO_BASE_32 = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHIJKLMNOPQRSTUV")


def _base32(digits: bytes) -> Iterator[bytes]:
    for part in re.findall(rb"[0-9A-Va-v]+", digits):
        bits = 5 * len(part)
        yield (int(part, 32) << -bits % 8).to_bytes((bits + 7) // 8, "big")


def _base64(data: bytes, depth: int) -> Iterator[bytes]:
    for run in re.findall(rb"[A-Za-z0-9+/_-]{8,}", data):
        for start in range(4):
            digits = run[start:].replace(b"-", b"+").replace(b"_", b"/")
            digits = digits[: len(digits) // 4 * 4] + (digits[len(digits) // 4 * 4 :] + b"AA")[:4]
            text = base64.b64decode(digits[: len(digits) // 4 * 4])
            yield text
            if depth > 1:
                yield from _base64(text.replace(b"\n", b""), depth - 1)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "upper case": bytes.upper,
    "backwards": lambda raw: raw.decode()[::-1].encode(),
    "UTF-16 of Windows": lambda raw: raw.decode().encode("utf-16-le"),
    "UTF-16 of networks": lambda raw: raw.decode().encode("utf-16-be"),
    "UTF-16 with a mark": lambda raw: raw.decode().encode("utf-16"),
    "UTF-32": lambda raw: raw.decode().encode("utf-32-le"),
    "zeros between": lambda raw: b"\0".join(raw[at : at + 3] for at in range(0, len(raw), 3)),
    "URL": lambda raw: quote(raw, safe="").encode(),
    "URL twice": lambda raw: quote(quote(raw, safe=""), safe="").encode(),
    "JSON": lambda raw: json.dumps(raw.decode()).encode(),
    "JSON twice": lambda raw: json.dumps(json.dumps(raw.decode())).encode(),
    "JSON of UTF-16": lambda raw: json.dumps(raw.decode()).encode("utf-16-le"),
    "every character of JSON": lambda raw: "".join(f"\\u{ord(each):04X}" for each in raw.decode()).encode(),
    "HTML": lambda raw: html.escape(raw.decode()).encode(),
    "HTML twice": lambda raw: html.escape(html.escape(raw.decode())).encode(),
    "every character of HTML": lambda raw: "".join(f"&#x{ord(each):X};" for each in raw.decode()).encode(),
    "octal": lambda raw: b"".join(b"\\%03o" % byte for byte in raw),
    "hexadecimal": lambda raw: raw.hex().encode(),
    "hexadecimal in upper case": lambda raw: raw.hex(" ").upper().encode(),
    "hexadecimal of UTF-16": lambda raw: raw.decode().encode("utf-16-le").hex().encode(),
    "Base32": base64.b32encode,
    "Base32 in lower case": lambda raw: base64.b32encode(raw).lower(),
    "Base32 of the other alphabet": base64.b32hexencode,
    "Base64": base64.b64encode,
    "Base64 of URLs": base64.urlsafe_b64encode,
    "Base64 in UTF-16": lambda raw: base64.b64encode(raw).decode().encode("utf-16-be"),
    "Base64 of UTF-16": lambda raw: base64.b64encode(raw.decode().encode("utf-16-le")),
    "Base64 twice": lambda raw: base64.b64encode(base64.b64encode(raw)),
    "Base64 of URLs twice": lambda raw: base64.urlsafe_b64encode(base64.urlsafe_b64encode(raw)),
}
#: Encodings of groups of bytes: the value may stand at any place in what is encoded.
GROUPED = [name for name in FORMS if "Base" in name and "UTF-16" not in name]

secrets = st.sampled_from(SECRETS)
#: Text that is full of what the scrubber looks at.
PIECES = [
    b"%41", b"%", b"%25", b"\\", b"\\\\", b"\\n", b"\\r", b"\\u0041", b"\\x41", b"\\101", b"&amp;", b"&", b"&#65;",
    b"\n", b"\r\n  ", b" ", b"\0", b"=", b"aGVsbG8", b"QUJD", b"0x", b"4a:", b"deadbeef", b"plain", b"word", b"0123",
    b"sk-", b"\xff", b"\xc3", b"MFRGG", b"text", b"-tail",
]  # fmt: skip
noise = st.lists(st.sampled_from(PIECES) | st.binary(min_size=1, max_size=3), max_size=12).map(b"".join)


def test_the_slow_reader_reads_every_form() -> None:
    """Else the properties below would hold for nothing."""
    for name, encode in FORMS.items():
        for secret in SECRETS:
            assert _reads(b"x. " + encode(secret.encode()) + b" .y", secret), (name, secret)
            assert not _reads(b"x. " + encode(b"something else 0123456789") + b" .y", secret)


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=25)
@given(secret=secrets, before=noise, after=noise)
def test_nothing_is_left_to_read(name: str, secret: str, before: bytes, after: bytes) -> None:
    """Whatever stands around the value, also what looks like the end or the beginning of an escape."""
    text = before + b" " + FORMS[name](secret.encode()) + b" " + after
    scrubbed = SCRUBBER.data(text)
    assert MARK.encode() in scrubbed
    assert not _reads(scrubbed.replace(MARK.encode(), b" "), secret)


@pytest.mark.parametrize("name", GROUPED)
@settings(max_examples=25)
@given(secret=secrets, before=st.binary(max_size=9), after=st.binary(max_size=9), width=st.integers(1, 80))
def test_nothing_is_left_at_any_place_of_a_group(
    name: str, secret: str, before: bytes, after: bytes, width: int
) -> None:
    """Bytes that were encoded together with the value, and the lines that the result was broken into, hide nothing."""
    encode = FORMS["plain"]
    encode = {
        "Base32": base64.b32encode,
        "Base32 in lower case": lambda raw: base64.b32encode(raw).lower(),
        "Base32 of the other alphabet": base64.b32hexencode,
    }.get(name, base64.b64encode if "URLs" not in name else base64.urlsafe_b64encode)
    text = encode(before + secret.encode() + after)
    if "twice" in name:
        text = encode(text)
    broken = b"\r\n ".join(text[at : at + width] for at in range(0, len(text), width))
    scrubbed = SCRUBBER.data(broken)
    assert MARK.encode() in scrubbed
    assert not _reads(scrubbed.replace(MARK.encode(), b" "), secret)


@settings(max_examples=300)
@given(noise)
def test_what_hides_nothing_keeps_every_byte(text: bytes) -> None:
    """A change needs a reason that the slow reader sees as well."""
    assume(not any(_reads(text, secret) for secret in SECRETS))
    assert SCRUBBER.data(text) == text
    assert SCRUBBER.data(text, is_cut=True)[12 * 40 :] == text[12 * 40 :]


@settings(max_examples=100)
@given(secret=secrets, before=noise, after=noise, name=st.sampled_from(sorted(FORMS)))
def test_only_what_reads_as_the_value_is_replaced(secret: str, before: bytes, after: bytes, name: str) -> None:
    """Between blanks, the text around it is there byte for byte."""
    assume(not any(_reads(before + b" | " + after, each) for each in SECRETS))
    scrubbed = SCRUBBER.data(before + b"| " + FORMS[name](secret.encode()) + b" |" + after)
    assert scrubbed.startswith(before + b"|")
    assert scrubbed.endswith(b"|" + after)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8), st.lists(st.integers(0, 7), max_size=8))
def test_needles_are_found_where_a_plain_search_finds_them(needles: list[bytes], order: list[int]) -> None:
    """Long or short, alone or overlapping."""
    text = b"..".join(needles[number % len(needles)][::1] for number in order) + b"#"
    covered = {at for start, end in Needles(needles).find(text) for at in range(start, end)}
    expected = {
        at + place
        for needle in needles
        for at in range(len(text))
        if text.startswith(needle, at)
        for place in range(len(needle))
    }
    assert covered == expected


HEAVY = {
    "backslashes": b"\\", "line breaks": b"\n", "zeros": b"\0", "half a pair": b"\\ud83d", "percents": b"%",
    "ampersands": b"&#", "digits": b"0x", "blank lines": b"\r\n \t", "the value's letters": b"pla",
    "almost the value": b"plainword012345678", "almost its Base64": base64.b64encode(b"plainword01234567"),
    "escaped backslashes": b"\\\\u005c", "nested escapes": b"%25",
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.timeout(60)
def test_the_work_grows_with_the_text_only(name: str) -> None:
    """With the square of it, half a megabyte would take hours."""
    text = HEAVY[name] * (500_000 // len(HEAVY[name]))
    assert SCRUBBER.data(text) == text
