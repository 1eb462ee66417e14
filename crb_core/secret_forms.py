"""The ways in which a program may print a secret value, as byte strings to look for."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["BREAKS", "ESCAPES", "MIN_LENGTH", "TO_STANDARD", "SecretForms", "decoded", "forms_of", "parts_of"]

#: Shorter values would take ordinary words out of every log.
MIN_LENGTH = 6
#: A part of a structured secret (one of its values) counts as a secret of its own from this length.
_LEAF_LENGTH = 12
#: Read backwards, shorter values are ordinary words too often.
_REVERSED_LENGTH = 10
#: A terminal or an agent may break a line, with its white space, anywhere inside a value or an escape. In JSON a line
#: break is an escape itself. A run of backslashes is looked at from its beginning only.
BREAKS = re.compile(rb"(?:(?:\r?\n|(?<!\\)\\++[rn])[ \t]*+)++")
#: Any number of backslashes is one: each time that a text is put into another they double.
ESCAPES = re.compile(
    rb"%[0-9A-Fa-f]{2}"
    rb"|\\++(?:u[dD][89abAB][0-9A-Fa-f]{2}\\++u[dD][c-fC-F][0-9A-Fa-f]{2}"
    rb"|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|[\"'/bft])?"
    rb"|&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
)
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
_SHORT = {b"b": b"\b", b"f": b"\f", b"t": b"\t"}
#: From the alphabet of URLs to that of RFC 4648, section 4.
TO_STANDARD = bytes.maketrans(b"-_", b"+/")
#: Characters of a line of MIME and of the ``base64`` command.
_BASE64_LINE = 76


@dataclass(frozen=True)
class SecretForms:
    """``folded`` are in lower case, ``exact`` in the standard Base64 alphabet, ``digits`` in lower hexadecimal.

    None holds a line break or a zero byte: those are taken out of the text before it is searched.
    """

    folded: frozenset[bytes]
    exact: frozenset[bytes]
    digits: frozenset[bytes]


def forms_of(values: Iterable[str]) -> SecretForms:
    """All forms of all values."""
    folded: set[bytes] = set()
    exact: set[bytes] = set()
    digits: set[bytes] = set()
    for value in values:
        folded |= set(_plain_forms(value)) | _base32_forms(_utf8(value))
        for raw in (_utf8(value), *_utf16(value)):
            exact |= set(_base64_forms(raw))
            digits.add(raw.hex().encode())
        exact |= set(_double_base64_forms(_utf8(value)))
    return SecretForms(
        frozenset(form for form in folded if len(form) >= MIN_LENGTH),
        frozenset(form.translate(TO_STANDARD) for form in exact if len(form) >= MIN_LENGTH),
        frozenset(digits),
    )


def parts_of(value: str) -> set[str]:
    """The value, and the parts of it that are secret on their own."""
    parts = {value, value.strip()}
    lines = value.splitlines()
    if len(lines) > 1:
        parts |= {line.strip() for line in lines}
    if len(lines) > 1 or value.lstrip()[:1] in {"{", "["}:
        # Values of assignments, and what stands between blanks or quotes, as in a .env or .netrc file.
        parts |= {word for word in re.split(r"[\s\"'=,{}\[\]]+", value) if len(word) >= _LEAF_LENGTH}
        with contextlib.suppress(ValueError, RecursionError):
            parts |= {leaf for leaf in _leaves(json.loads(value)) if len(leaf) >= _LEAF_LENGTH}
    parts |= {line.strip() for part in tuple(parts) for line in part.splitlines()}
    return {part for part in parts if len(part) >= MIN_LENGTH}


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def decoded(token: re.Match[bytes]) -> bytes:
    """The bytes that a token of ESCAPES stands for; none for a backslash alone."""
    text = token[0]
    if text[:1] == b"%":
        return bytes([int(text[1:], 16)])
    if text[:1] == b"&":
        name = text[1:-1]
        if name in _NAMED:
            return _NAMED[name]
        return _character(int(name[2:], 16) if name[1:2] in b"xX" else int(name[1:]))
    code = text.lstrip(b"\\")
    if len(code) > 5 and code[:1] == b"u":
        high, _, low = code[1:].rpartition(b"u")
        return _character(0x10000 + ((int(high.rstrip(b"\\"), 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    if code[:1] in b"uU" and len(code) > 1:
        return _character(int(code[1:], 16))
    if code[:1].isdigit():
        return bytes([int(code, 8)])
    return _SHORT.get(code, code)


def _character(code: int) -> bytes:
    return _utf8(chr(code)) if code <= 0x10FFFF else b""


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _utf16(text: str) -> tuple[bytes, bytes]:
    return text.encode("utf-16-le", "surrogatepass"), text.encode("utf-16-be", "surrogatepass")


def _plain_forms(value: str) -> Iterator[bytes]:
    """In any case, blanks as URLs write them, as every step of decoding leaves it, in UTF-8 and UTF-16, backwards."""
    for case in (value, value.lower(), value.upper()):
        for text in {case, case.replace(" ", "+")}:
            # Of UTF-16 the zero bytes are gone before the search, which leaves Latin letters as Latin-1 has them.
            for raw in {_utf8(text), *(each.replace(b"\0", b"") for each in _utf16(text))}:
                for form in {raw, BREAKS.sub(b"", raw)}:
                    once = ESCAPES.sub(decoded, form)
                    yield from (each.lower() for each in (form, once, ESCAPES.sub(decoded, once)))
    if len(value) >= _REVERSED_LENGTH:
        yield _utf8(value[::-1]).lower()


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """Inside a longer Base64 text a value starts at one of three bit positions; the characters that it shares with its
    neighbours are left out."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            encoded = encode(b"\0" * shift + raw).rstrip(b"=")
            inner = encoded[(0, 2, 3)[shift] :]
            yield inner if (len(raw) + shift) % 3 == 0 else inner[:-1]


def _double_base64_forms(raw: bytes) -> Iterator[bytes]:
    for inner in set(_base64_forms(raw)):
        yield from _base64_forms(inner)
        if len(inner) > _BASE64_LINE:
            # The inner one was wrapped, and began with the value.
            yield from _base64_forms(
                b"\n".join(inner[at : at + _BASE64_LINE] for at in range(0, len(inner), _BASE64_LINE))
            )


def _base32_forms(raw: bytes) -> set[bytes]:
    """As Base64, at one of five bit positions, in both alphabets of RFC 4648 and any case."""
    forms = set()
    for encode in (base64.b32encode, base64.b32hexencode):
        for shift in range(5):
            encoded = encode(b"\0" * shift + raw)
            first, end = -(-8 * shift // 5), 8 * (shift + len(raw)) // 5
            forms.add(encoded[first:end].lower())
    return forms
