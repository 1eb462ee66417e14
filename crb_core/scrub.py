"""Taking secrets out of text and bytes before they are stored, hashed or shown (design.md, "Configuration")."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

__all__ = ["MARK", "Scrubber"]

#: What stands where a secret stood.
MARK = "[secret removed]"
#: Shorter values would take ordinary words out of every log.
MIN_LENGTH = 6


class Scrubber:
    """Replaces secret values, also as Base64, URL-encoded, hexadecimal or JSON-escaped text, and broken over lines.

    Values under six characters are left alone: they cannot be told from ordinary text.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[bytes] = set()
        for value in values:
            for part in {value, value.strip(), *value.splitlines()}:
                if len(part) >= MIN_LENGTH:
                    forms |= _forms(part)
        # The longest first, so that no form is cut by a shorter one inside it.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        # A terminal or an agent may break a line, with its white space, anywhere inside a value.
        patterns = [rb"(?:\r?\n[ \t]*)?".join(re.escape(bytes([byte])) for byte in form) for form in ordered]
        self._pattern = re.compile(b"|".join(patterns)) if patterns else None

    def data(self, data: bytes) -> bytes:
        """The bytes without any secret."""
        return data if self._pattern is None else self._pattern.sub(MARK.encode(), data)

    def text(self, text: str) -> str:
        """The text without any secret."""
        if self._pattern is None:
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _forms(value: str) -> set[bytes]:
    raw = value.encode("utf-8", "surrogatepass")
    forms = {
        raw,
        quote(value, safe="", errors="replace").encode(),
        quote_plus(value, errors="replace").encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        json.dumps(value)[1:-1].encode(),
        json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass"),
    }
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
