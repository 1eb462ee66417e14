"""How values become text on a page: nothing from outside may look like something that it is not."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from crb_core.unlabelled import why_unlabelled

__all__ = [
    "CLIP",
    "clipped",
    "clipped_line",
    "clipped_title",
    "exact",
    "number",
    "plain",
    "reason_of",
    "seconds",
    "signed",
    "visible",
    "why_unranked",
]

#: Characters of one outside text that a page shows; agents may report 100 kB lines.
CLIP = 4000
#: Characters of one line of code; generated files have lines of megabytes.
LINE_CLIP = 1000
#: Characters of a title; one that is longer than a screen would hide the page below it.
TITLE_CLIP = 300

#: Shown as they are although Unicode counts them among the controls.
_KEPT = "\n\t"
#: Format characters that change nothing about the order or identity of text: soft hyphen is not among them.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
#: Letters that show nothing: Hangul fillers, Khmer inherent vowels, Braille blank, variation selectors.
_BLANK = {0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


def visible(value: Any) -> Markup:
    """Text with markup escaped, and controls, bidi and zero-width characters as their code points: ``U+202E``."""
    text = str(value)
    # Code is full of tabs, which isprintable does not count as printable.
    if text.isascii() and text.replace("\t", "").isprintable():
        return escape(text)
    parts: list[Markup] = []
    start = 0
    for place, character in enumerate(text):
        if character in _KEPT or not _is_hidden(character):
            continue
        parts.append(escape(text[start:place]))
        parts.append(Markup('<span class="code-point">U+{:04X}</span>').format(ord(character)))
        start = place + 1
    parts.append(escape(text[start:]))
    return Markup("").join(parts)


def plain(value: Any) -> str:
    """``visible`` where no element can stand, in titles: code points as text, not yet escaped."""
    return "".join(f"[U+{ord(each):04X}]" if _is_hidden(each) else each for each in str(value))


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN or ord(character) in _BLANK


def clipped(value: Any) -> Markup:
    """``visible`` of the first ``CLIP`` characters, and how many more there are."""
    return _clipped(value, CLIP, "in the API")


def clipped_line(value: Any) -> Markup:
    """``visible`` of the first ``LINE_CLIP`` characters of a line of code, and how many more there are."""
    return _clipped(value, LINE_CLIP, "in the diff itself")


def clipped_title(value: Any) -> Markup:
    """``visible`` of the first ``TITLE_CLIP`` characters of a heading, and how many more there are."""
    return _clipped(value, TITLE_CLIP, "in the API")


def _clipped(value: Any, most: int, where: str) -> Markup:
    text = str(value)
    if len(text) <= most:
        return visible(text)
    rest = Markup(' <span class="note">… and {} characters more, {}</span>').format(f"{len(text) - most:,}", where)
    return visible(text[:most]) + rest


def number(value: float | None, digits: int = 2) -> str:
    """A fixed number of decimals; a dash for undefined."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and float(text) == 0 else text


def exact(value: float) -> str:
    """A number that a form sends back, or that a reader types again: as short as it goes without another value."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def signed(value: float | None, digits: int = 3) -> str:
    """A difference with its sign; a dash for undefined."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def seconds(milliseconds: float | None) -> str:
    """Milliseconds as seconds."""
    return "–" if milliseconds is None else f"{milliseconds / 1000:,.2f}"


def why_unranked(row: Mapping[str, Any], board: Mapping[str, Any]) -> str:
    """Why a row has no rank, for people."""
    marks = [mark for mark in row["marks"] if mark.startswith("unranked")]
    if marks:
        return f"Not ranked: {marks[0].removeprefix('unranked: ')}."
    if row["macro"][board["sort"]]["mean"] is None:
        return f"Not ranked: its {board['sort'].replace('_', ' ')} is undefined."
    return "Not ranked: this metric has a denominator of each agent's own."


def reason_of(row: Mapping[str, Any], metric: str, judge: Mapping[str, Any], subset: Mapping[str, Any]) -> str:
    """Why a metric of a row is undefined, for people."""
    reason = row["macro"][metric]["reason"] or "it has no value"
    unlabelled = row["counts"].get("unclassified_count", 0)
    if metric.startswith(("augmented", "novel")):
        if subset.get("producer"):
            return "Undefined: golden findings are filtered by producer, and candidates have no such producer."
        if unlabelled:
            why = why_unlabelled(classifies=judge["classifies"], is_council=bool(judge["council"]))
            return f"Undefined, not 0: the judge {why} {unlabelled} unmatched findings."
    return f"Undefined, not 0: {reason}."
