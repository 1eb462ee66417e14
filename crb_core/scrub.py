"""Taking secrets out of text and bytes before they are stored, hashed or shown (design.md, "Configuration")."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from typing import Any

__all__ = ["MARK", "MIN_LENGTH", "Scrubber", "keep_out_of_logs", "scrub_log_line"]

#: What stands where a secret stood.
MARK = "[secret removed]"
#: Shorter values would take ordinary words out of every log.
MIN_LENGTH = 6
#: Part of a secret that is taken for it where a text may have been cut inside it.
PART_LENGTH = 10
#: A part of a structured secret (one of its values) counts as a secret of its own from this length.
_LEAF_LENGTH = 12
#: A terminal or an agent may break a line, with its white space, anywhere inside a value or an escape. In JSON a line
#: break is an escape itself.
_BREAKS = re.compile(rb"(?:(?:\r?\n|\\+[rn])[ \t]*)+")
#: Any number of backslashes is one: each time that a text is put into another they double.
_ESCAPES = re.compile(
    rb"%[0-9A-Fa-f]{2}"
    rb"|\\+(?:u[dD][89abAB][0-9A-Fa-f]{2}\\+u[dD][c-fC-F][0-9A-Fa-f]{2}"
    rb"|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[\"'/bft])?"
    rb"|&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
)
#: What is printed between the digits of two bytes.
_BETWEEN_HEX = re.compile(rb"(?<=[0-9A-Fa-f])(?:[ :,\r\n\t-]|0[xX]|\\x)+")
_NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
_SHORT = {b"b": b"\b", b"f": b"\f", b"t": b"\t"}
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")


class Scrubber:
    """Replaces secret values in the ways in which a program may print them, also when broken over lines.

    These are: plain, in upper or lower case, Base64 (any alignment, both alphabets, padded or not), hexadecimal, and
    any mixture of plain with URL-encoded, JSON-, HTML- and backslash-escaped characters. A secret of several lines, or
    one that is JSON, is also removed line by line and value by value. What an agent does beyond that (reversed,
    compressed, encrypted, in pieces with text between) cannot be recognised. Values under six characters are left
    alone: they cannot be told from ordinary text.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted({part for value in values for part in _parts(value)})
        self._plain: set[bytes] = set()
        self._base64: set[bytes] = set()
        self._hexadecimal: set[bytes] = set()
        for value in self._values:
            raw = value.encode("utf-8", "surrogatepass")
            for case in (value, value.lower(), value.upper()):
                for text in (case, case.replace(" ", "+")):
                    form = _BREAKS.sub(b"", text.encode("utf-8", "surrogatepass"))
                    self._plain |= {form.lower(), _ESCAPES.sub(_decoded, form).lower()}
            self._base64 |= {form.translate(_TO_STANDARD) for form in _base64_forms(raw)}
            self._hexadecimal.add(raw.hex().encode())
        self._plain = {form for form in self._plain if len(form) >= MIN_LENGTH}

    def data(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """The bytes without any secret. ``is_cut``: their beginning is lost, perhaps in the middle of a secret."""
        if not self._values:
            return data
        if is_cut:
            longest = 8 * max(len(value.encode("utf-8", "surrogatepass")) for value in self._values)
            data = self._without_parts(data[:longest]) + data[longest:]
        return _without(data, _spans(data, _BREAKS, self._in_unbroken))

    def _in_unbroken(self, view: bytes) -> list[tuple[int, int]]:
        found = self._in_text(view)
        found += _spans(view, _BETWEEN_HEX, lambda digits: _find(digits.lower(), self._hexadecimal))
        if any(byte in view for byte in (b"%", b"\\", b"&")):
            found += _spans(view, _ESCAPES, self._in_text)
        return found

    def _in_text(self, view: bytes) -> list[tuple[int, int]]:
        return _find(view.lower(), self._plain) + _find(view.translate(_TO_STANDARD), self._base64)

    def text(self, text: str) -> str:
        """The text without any secret."""
        if not self._values:
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def sentence(self, text: str) -> str:
        """A sentence of our own that may quote a piece of what an agent wrote: also without parts of secrets."""
        if not self._values:
            return text
        scrubbed = self.text(text).encode("utf-8", "surrogatepass")
        return self._without_parts(scrubbed).decode("utf-8", "surrogatepass")

    def json(self, value: Any) -> Any:
        """Parsed JSON without any secret in its texts and keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.json(each) for key, each in value.items()}
        return value

    def json_data(self, data: bytes) -> bytes:
        """The bytes of a JSON document without any secret, however its texts are escaped.

        Bytes that are no JSON are scrubbed as they are. A document is written anew only where it held a secret.
        """
        scrubbed = self.data(data)
        try:
            document = json.loads(scrubbed)
            clean = self.json(document)
            return scrubbed if clean == document else json.dumps(clean, ensure_ascii=False).encode("utf-8", "replace")
        except (ValueError, RecursionError):
            return scrubbed

    @cached_property
    def _windows(self) -> frozenset[bytes]:
        return frozenset(
            form[at : at + PART_LENGTH]
            for value in self._values
            for form in _whole_forms(value)
            for at in range(len(form) - PART_LENGTH + 1)
        )

    def _without_parts(self, data: bytes) -> bytes:
        """``data`` without PART_LENGTH bytes or more in a row of any secret."""
        places = range(len(data) - PART_LENGTH + 1)
        spans = [(at, at + PART_LENGTH) for at in places if data[at : at + PART_LENGTH] in self._windows]
        return _without(data, spans)


def _find(view: bytes, needles: Iterable[bytes]) -> list[tuple[int, int]]:
    """Where the needles are: (start, end), those of one needle without overlaps."""
    spans = []
    for needle in needles:
        start = end = -1
        at = view.find(needle)
        while at >= 0:
            if at > end:
                if end > 0:
                    spans.append((start, end))
                start = at
            end = at + len(needle)
            at = view.find(needle, at + 1)
        if end > 0:
            spans.append((start, end))
    return spans


def _spans(
    data: bytes, tokens: re.Pattern[bytes], find: Callable[[bytes], list[tuple[int, int]]]
) -> list[tuple[int, int]]:
    """Where in ``data`` is what ``find`` finds once every token is decoded: (start, end)."""
    found = find(tokens.sub(_decoded if tokens is _ESCAPES else b"", data))
    if not found:
        return []
    wanted = sorted({place for span in found for place in span})
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    place = in_view = in_data = 0
    for token in chain(tokens.finditer(data), [None]):
        stop = len(data) if token is None else token.start()
        until = in_view + stop - in_data
        decoded = len(_decoded(token)) if token is not None and tokens is _ESCAPES else 0
        for number in range(place, len(wanted)):
            if wanted[number] > until:
                break
            in_text = in_data + wanted[number] - in_view
            ends.setdefault(wanted[number], in_text)
            begins[wanted[number]] = in_text
            # What begins where a token of no bytes is begins behind it.
            if wanted[number] < until or decoded or token is None:
                place = number + 1
        if token is None or place == len(wanted):
            break
        in_view, in_data = until + decoded, token.end()
        while place < len(wanted) and wanted[place] < in_view:
            begins[wanted[place]], ends[wanted[place]] = token.start(), token.end()
            place += 1
    return [(begins[start], ends[end]) for start, end in found]


def _without(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """``data`` with a mark in place of each span; spans that touch are one."""
    kept, done, marked = bytearray(), 0, False
    for start, end in sorted(spans):
        if not marked or start > done:
            kept += data[done:start] + MARK.encode()
        done, marked = max(done, end), True
    return bytes(kept) + data[done:]


def _decoded(token: re.Match[bytes]) -> bytes:
    """The bytes that an escape stands for; none for a backslash alone."""
    text = token[0]
    if text[:1] == b"%":
        return bytes([int(text[1:], 16)])
    if text[:1] == b"&":
        name = text[1:-1]
        if name in _NAMED:
            return _NAMED[name]
        return _utf8(int(name[2:], 16) if name[1:2] in b"xX" else int(name[1:]))
    code = text.lstrip(b"\\")
    if len(code) > 5 and code[:1] == b"u":
        high, _, low = code[1:].rpartition(b"u")
        return _utf8(0x10000 + ((int(high.rstrip(b"\\"), 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    if code[:1] in b"uU" and len(code) > 1:
        return _utf8(int(code[1:], 16))
    return _SHORT.get(code, code)


def _utf8(code: int) -> bytes:
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else b""


def _parts(value: str) -> set[str]:
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


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _base64_forms(raw: bytes) -> set[bytes]:
    forms = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            # Inside a longer Base64 text the value starts at one of three bit positions; the characters that it
            # shares with its neighbours are left out.
            encoded = encode(b"\0" * shift + raw).rstrip(b"=")
            inner = encoded[(0, 2, 3)[shift] :]
            whole = len(raw) + shift
            inner = inner if whole % 3 == 0 else inner[:-1]
            if len(inner) >= MIN_LENGTH:
                forms.add(inner)
    return forms


def _whole_forms(value: str) -> set[bytes]:
    """The forms whose parts are looked for."""
    raw = value.encode("utf-8", "surrogatepass")
    return {raw, raw.lower(), raw.upper(), raw.hex().encode()} | _base64_forms(raw)


class _LogSecrets:
    """The secrets that this process was given so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self.scrubber = Scrubber(())

    def add(self, values: Iterable[str]) -> None:
        with self._lock:
            more = self._values | set(values)
            if more != self._values:
                self._values = more
                self.scrubber = Scrubber(more)


_log_secrets = _LogSecrets()


def keep_out_of_logs(values: Iterable[str]) -> None:
    """From now on no log line of this process shows ``values``."""
    _log_secrets.add(values)


def scrub_log_line(line: str) -> str:
    """A log line without the secrets that this process was given."""
    return _log_secrets.scrubber.sentence(line)
