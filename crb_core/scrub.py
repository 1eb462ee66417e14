"""Taking secrets out of text and bytes before they are stored, hashed or shown (design.md, "Configuration")."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

from crb_core.needles import Needles
from crb_core.secret_forms import BREAKS, ESCAPES, MIN_LENGTH, TO_STANDARD, SecretForms, decoded, forms_of, parts_of

__all__ = ["MARK", "MIN_LENGTH", "Scrubber", "keep_out_of_logs", "scrub_log_line"]

#: What stands where a secret stood.
MARK = "[secret removed]"
#: Part of a secret that is taken for it where a text may have been cut inside it.
PART_LENGTH = 10
#: Bytes that a form may need for one byte of the value: UTF-16 of ``\\u0041``.
_LONGEST_FORM = 12
#: What is printed between the digits of two bytes.
_BETWEEN_HEX = re.compile(rb"(?<=[0-9A-Fa-f])(?:[ :,\r\n\t-]|0[xX]|\\x)++")
#: Every other byte of Latin text in UTF-16; some tools print them between words.
_ZEROS = re.compile(rb"\0++")
#: Where a line break that is written out could as well be two characters of a value.
_WRITTEN_BREAK = re.compile(rb"\\[rn]")

Places = list[tuple[int, int]]


class Scrubber:
    """Replaces secret values in the ways in which a program may print them, also when broken over lines.

    These are: plain, in upper or lower case, in UTF-16, backwards, Base64 (any alignment, both alphabets, padded or
    not), Base64 of UTF-16 or of Base64, Base32 (any alignment, both alphabets), hexadecimal, and any mixture of plain
    with URL-encoded, JSON-, HTML- and backslash-escaped characters, escaped once or twice. A secret of several lines,
    or one that is JSON, is also removed line by line and value by value. What an agent does beyond that (compressed,
    encrypted, in pieces with text between) cannot be recognised. Values under six characters are left alone: they
    cannot be told from ordinary text. The time grows with the length of the text, whatever is in it.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted({part for value in values for part in parts_of(value)})
        self._forms = forms_of(self._values)
        self._whole = _Whole(self._forms)

    def data(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """The bytes without any secret. ``is_cut``: their beginning is lost, perhaps in the middle of a secret."""
        if not self._values:
            return data
        if is_cut:
            longest = _LONGEST_FORM * max(len(value.encode("utf-8", "surrogatepass")) for value in self._values)
            data = self._without_parts(data[:longest]) + data[longest:]
        return _without(data, _everywhere(data, self._whole))

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
        if not self._values:
            return data
        scrubbed = self.data(data)
        try:
            document = json.loads(scrubbed)
            clean = self.json(document)
            return scrubbed if clean == document else json.dumps(clean, ensure_ascii=False).encode("utf-8", "replace")
        except (ValueError, RecursionError):
            return scrubbed

    @cached_property
    def _parts(self) -> _Parts:
        return _Parts(self._forms)

    def _without_parts(self, data: bytes) -> bytes:
        """``data`` without PART_LENGTH bytes or more in a row of any form of a secret."""
        return _without(data, _everywhere(data, self._parts))


class _Finder(Protocol):
    def in_text(self, view: bytes) -> Places: ...

    def in_digits(self, view: bytes) -> Places: ...


class _Whole:
    """Finds whole forms."""

    def __init__(self, forms: SecretForms) -> None:
        self._folded, self._exact, self._digits = map(Needles, (forms.folded, forms.exact, forms.digits))

    def in_text(self, view: bytes) -> Places:
        return self._folded.find(view.lower()) + self._exact.find(view.translate(TO_STANDARD))

    def in_digits(self, view: bytes) -> Places:
        return self._digits.find(view.lower())


class _Parts:
    """Finds PART_LENGTH bytes of a form."""

    def __init__(self, forms: SecretForms) -> None:
        self._folded, self._exact, self._digits = map(_pieces, (forms.folded, forms.exact, forms.digits))

    def in_text(self, view: bytes) -> Places:
        return _places(view.lower(), self._folded) + _places(view.translate(TO_STANDARD), self._exact)

    def in_digits(self, view: bytes) -> Places:
        return _places(view.lower(), self._digits)


def _pieces(forms: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(form[at : at + PART_LENGTH] for form in forms for at in range(len(form) - PART_LENGTH + 1))


def _places(view: bytes, pieces: frozenset[bytes]) -> Places:
    starts = range(len(view) - PART_LENGTH + 1)
    return [(at, at + PART_LENGTH) for at in starts if view[at : at + PART_LENGTH] in pieces]


def _everywhere(data: bytes, finder: _Finder) -> Places:
    """Where ``finder`` finds something in ``data``, as it is and once what may lie between is taken out."""
    if b"\0" not in data:
        return _in_lines(data, finder)
    return finder.in_text(data) + _spans(data, _ZEROS, lambda view: _in_lines(view, finder))


def _in_lines(view: bytes, finder: _Finder) -> Places:
    if BREAKS.search(view) is None:
        return _in_line(view, finder)
    found = _spans(view, BREAKS, lambda unbroken: _in_line(unbroken, finder))
    if _WRITTEN_BREAK.search(view):
        found += finder.in_text(view)
    return found


def _in_line(view: bytes, finder: _Finder) -> Places:
    found = finder.in_text(view) + _spans(view, _BETWEEN_HEX, finder.in_digits)
    if _has_escapes(view):
        found += _spans(view, ESCAPES, lambda once: _in_escaped(once, finder))
    return found


def _in_escaped(view: bytes, finder: _Finder) -> Places:
    """Escapes may stand for line breaks, and for the beginnings of other escapes."""
    found = finder.in_text(view)
    if BREAKS.search(view):
        found += _spans(view, BREAKS, finder.in_text)
    if _has_escapes(view):
        found += _spans(view, ESCAPES, finder.in_text)
    return found


def _has_escapes(view: bytes) -> bool:
    return any(byte in view for byte in (b"%", b"\\", b"&"))


def _spans(data: bytes, tokens: re.Pattern[bytes], find: Callable[[bytes], Places]) -> Places:
    """Where in ``data`` is what ``find`` finds once every token is decoded: (start, end)."""
    found = find(tokens.sub(decoded if tokens is ESCAPES else b"", data))
    if not found:
        return []
    wanted = sorted({place for span in found for place in span})
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    place = in_view = in_data = 0
    for token in chain(tokens.finditer(data), [None]):
        stop = len(data) if token is None else token.start()
        until = in_view + stop - in_data
        length = len(decoded(token)) if token is not None and tokens is ESCAPES else 0
        for number in range(place, len(wanted)):
            if wanted[number] > until:
                break
            in_text = in_data + wanted[number] - in_view
            ends.setdefault(wanted[number], in_text)
            begins[wanted[number]] = in_text
            # What begins where a token of no bytes is begins behind it.
            if wanted[number] < until or length or token is None:
                place = number + 1
        if token is None or place == len(wanted):
            break
        in_view, in_data = until + length, token.end()
        while place < len(wanted) and wanted[place] < in_view:
            begins[wanted[place]], ends[wanted[place]] = token.start(), token.end()
            place += 1
    return [(begins[start], ends[end]) for start, end in found]


def _without(data: bytes, spans: Places) -> bytes:
    """``data`` with a mark in place of each span; spans that touch are one."""
    kept, done, marked = bytearray(), 0, False
    for start, end in sorted(spans):
        if not marked or start > done:
            kept += data[done:start] + MARK.encode()
        done, marked = max(done, end), True
    return bytes(kept) + data[done:]


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
