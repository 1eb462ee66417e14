"""Outside text inside a request: delimited, escaped completely, and named by ids that it cannot guess (facts A14).

An element is ``<name attribute="...">text</name>``. In text and attributes nothing is left that a reader could take
for markup or that a person would not see: markup characters and whatever looks like them or normalises to them,
control, format, private and unassigned characters, and lone surrogates. Every one is written as a character reference,
so nothing is lost and ``html.unescape`` gives the text back.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

__all__ = ["MAX_TEXT", "Ids", "attribute", "element", "escaped", "opening", "shuffled"]

#: Characters of one message that a judge is shown, after escaping. Longer texts are cut in the middle, visibly.
MAX_TEXT = 8000

_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
#: Look-alikes of markup characters that do not normalise to them.
_LOOKALIKES = frozenset("‹›«»〈〉《》⟨⟩⟪⟫❮❯❬❭❰❱⧼⧽⦑⦒ᐸᐳᚲ𖼿˂˃˱˲⋖⋗⋘⋙≪≫⪡⪢⪻⪼≺≻𝈶𝈷＆ꝸꓼ")
_MARKUP = _LOOKALIKES | _NAMED.keys()
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Letters and marks that show nothing although their category says otherwise.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f\u180b\u180c\u180d\u180f")


@lru_cache(maxsize=65536)
def _character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character in "\n\t" or " " <= character <= "~":
        return character
    if (
        character in _BLANK
        or unicodedata.category(character) in _HIDDEN_CATEGORIES
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or not _MARKUP.isdisjoint(unicodedata.normalize("NFKD", character))
    ):
        return f"&#x{ord(character):X};"
    return character


def escaped(text: str, limit: int | None = None) -> str:
    """The text with every such character as a reference; at most about ``limit`` characters, cut in the middle.

    What is cut out is named by an element of ours, which a text cannot contain. A mark at the beginning is one too: it
    would combine with what stands before the text, which is markup of ours.
    """
    if limit is None or len(text) <= limit:
        whole = "".join(map(_character, text))
        if whole[:1] and unicodedata.category(whole[0]).startswith("M"):
            whole = f"&#x{ord(whole[0]):X};{whole[1:]}"
        if limit is None or len(whole) <= limit:
            return whole
    head = _fitting(text, limit * 3 // 4)
    tail = _fitting(text[head:][::-1], limit // 4)
    left_out = len(text) - head - tail
    return escaped(text[:head]) + f'<cut characters="{left_out}"/>' + escaped(text[len(text) - tail :])


def _fitting(text: str, limit: int) -> int:
    """How many leading characters fit into ``limit`` after escaping."""
    used = 0
    for place, character in enumerate(text):
        used += len(_character(character))
        if used > limit:
            return place
    return len(text)


def attribute(value: str, limit: int = 400) -> str:
    """An attribute's value: as text, and without line ends or tabs."""
    kept = escaped(value, limit).replace('<cut characters="', "[cut ").replace('"/>', "]")
    return kept.replace("\n", "&#xA;").replace("\t", "&#x9;")


def opening(name: str, attributes: Mapping[str, str | int | None] | None = None) -> str:
    """``<name a="1">``; attributes that are None are left out."""
    given = [f' {key}="{attribute(str(value))}"' for key, value in (attributes or {}).items() if value is not None]
    return f"<{name}{''.join(given)}>"


def element(
    name: str, text: str, attributes: Mapping[str, str | int | None] | None = None, limit: int | None = MAX_TEXT
) -> str:
    """One element with an outside text as its content, on one line where the text is."""
    inner = escaped(text, limit)
    if "\n" in inner:
        inner = f"\n{inner}\n"
    return f"{opening(name, attributes)}{inner}</{name}>"


class Ids:
    """Names and orders of one judgment: derived with its secret, so that no text can address a finding by guessing.

    The same secret gives the same ids and orders again, which lets a session go on after a restart.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, request_hash: str, kind: str, position: int) -> str:
        """The id of a finding in a request: ``kind-`` and 16 hex digits."""
        return f"{kind}-{self._digest('id', request_hash, kind, str(position))[:16]}"

    def order(self, request_hash: str, kind: str, count: int) -> tuple[int, ...]:
        """The positions 0 to ``count`` - 1, shuffled with a seed of this request."""
        return shuffled(count, self._digest("order", request_hash, kind))

    def _digest(self, *parts: str) -> str:
        return hmac.new(self._secret, "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def shuffled(count: int, seed: str) -> tuple[int, ...]:
    """The positions 0 to ``count`` - 1 in the order of a seed; the same on every machine and Python."""
    positions: Sequence[int] = range(count)
    return tuple(random.Random(seed).sample(positions, count))
