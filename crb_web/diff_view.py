"""A pull request's diff with findings at their lines, cut so that a big one stays a page.

Files with findings come whole while there is room, then only the lines around their findings; other files are listed
and have pages of their own. Every finding is shown, wherever it points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from crb_core.diff import DiffFile
from crb_core.diff_lines import DiffText, Line

__all__ = ["Card", "FileView", "Piece", "PlacedLine", "file_view", "file_views"]

#: Lines of one page, and lines kept around a finding where a file is cut.
PAGE_LINES = 3000
AROUND = 6


@dataclass(frozen=True, kw_only=True)
class Card:
    """One finding on the page: golden, or a candidate of ``trial``."""

    finding: Mapping[str, Any]
    trial: Mapping[str, Any] | None = None

    @property
    def file(self) -> str | None:
        found: str | None = self.finding["file"]
        return found


@dataclass(frozen=True, kw_only=True)
class PlacedLine:
    """A line of the diff, and the findings that end there."""

    line: Line
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A run of lines under their hunk's heading; ``skipped`` lines of the diff were left out before it."""

    heading: str
    lines: tuple[PlacedLine, ...]
    skipped: int = 0


@dataclass(frozen=True, kw_only=True)
class FileView:
    """A file on the page. ``outside`` are findings without a shown line of the diff.

    ``size`` are the lines of its diff, ``left_out`` those that are not on this page. ``kind`` says what it is where it
    has no lines: ``not in the diff``, ``binary``, ``renamed``.
    """

    path: str
    anchor: str
    kind: str = "changed"
    old: str | None = None
    added: int = 0
    removed: int = 0
    size: int = 0
    pieces: tuple[Piece, ...] = ()
    outside: tuple[Card, ...] = ()
    left_out: int = 0
    after: int = field(default=0)

    @property
    def cards(self) -> list[Card]:
        """All findings of the file, in the order of the page."""
        placed = [card for piece in self.pieces for line in piece.lines for card in line.cards]
        return [*placed, *self.outside]


def file_views(diff: DiffText | None, cards: Sequence[Card]) -> tuple[list[FileView], list[Card]]:
    """The files of a page in the order of the diff, then files that it does not touch; and findings without a file."""
    by_file: dict[str, list[Card]] = defaultdict(list)
    for card in cards:
        if card.file is not None:
            by_file[card.file].append(card)
    nowhere = [card for card in cards if card.file is None]
    files = diff.files if diff is not None else ()
    room = PAGE_LINES
    how: dict[str, str] = {}
    for wanted in (True, False):
        for path, file in files:
            if (path in by_file) is not wanted:
                continue
            size = DiffText.size(file)
            how[path] = "whole" if size <= room else "cut" if wanted else "listed"
            if how[path] == "whole":
                room -= size
    views = []
    for number, (path, file) in enumerate(files):
        assert diff is not None
        views.append(_view(diff, path, file, f"file-{number}", by_file.pop(path, []), how[path]))
    for number, (path, mine) in enumerate(sorted(by_file.items()), start=len(views)):
        kind = "not in the diff" if diff is not None else "no diff at hand"
        views.append(FileView(path=path, anchor=f"file-{number}", kind=kind, outside=tuple(_ordered(mine))))
    return views, nowhere


def file_view(diff: DiffText, path: str, cards: Sequence[Card], start: int) -> FileView | None:
    """One file of the diff, ``PAGE_LINES`` from line ``start`` (from 0) of its diff; None where the diff has it not."""
    for number, (name, file) in enumerate(diff.files):
        if name == path:
            mine = [card for card in cards if card.file == path]
            return _view(diff, path, file, f"file-{number}", mine, "page", start)
    return None


def _view(
    diff: DiffText, path: str, file: DiffFile, anchor: str, cards: Sequence[Card], how: str, start: int = 0
) -> FileView:
    size = DiffText.size(file)
    at: dict[int, list[Card]] = defaultdict(list)
    outside = []
    for card in _ordered(cards):
        line = _anchor_line(file, card.finding)
        if line is None:
            outside.append(card)
        else:
            at[line].append(card)
    kind = "changed" if file.parts else "binary" if file.binary else "renamed" if file.old != file.new else "no lines"
    pieces: list[Piece] = []
    shown = 0
    after = 0
    if how != "listed":
        pieces, shown, after = _pieces(diff, file, at, how, start)
        on_page = {id(card) for piece in pieces for line in piece.lines for card in line.cards}
        outside += [card for of_line in at.values() for card in of_line if id(card) not in on_page]
    else:
        outside = list(_ordered(cards))
    return FileView(
        path=path,
        anchor=anchor,
        kind=kind,
        old=file.old if file.old != file.new else None,
        added=len(file.added),
        removed=file.lines_removed,
        size=size,
        pieces=tuple(pieces),
        outside=tuple(outside),
        left_out=size - shown,
        after=after,
    )


def _pieces(
    diff: DiffText, file: DiffFile, at: Mapping[int, Sequence[Card]], how: str, start: int
) -> tuple[list[Piece], int, int]:
    """The pieces, how many lines they have, and the first line after them (from 0, of the file's diff; 0 for none)."""
    flat = [(number, line) for number, hunk in enumerate(diff.hunks(file)) for line in hunk.lines]
    headings = [hunk.heading for hunk in diff.hunks(file)]
    if how == "page":
        kept = range(start, min(start + PAGE_LINES, len(flat)))
    elif how == "cut":
        near: set[int] = set()
        for place, (_, line) in enumerate(flat):
            if line.new is not None and line.new in at:
                near.update(range(max(0, place - AROUND), min(len(flat), place + AROUND + 1)))
        # So many findings that the lines around them are too many: the rest of the file has its own pages.
        kept = sorted(near)[:PAGE_LINES]  # type: ignore[assignment]
    else:
        kept = range(len(flat))
    pieces = []
    last = -1
    # Neighbours differ from their place in the list by the same number, so a gap starts another piece.
    for _, run in groupby(enumerate(kept), key=lambda each: (each[1] - each[0], flat[each[1]][0])):
        places = [place for _, place in run]
        pieces.append(
            Piece(
                heading=headings[flat[places[0]][0]],
                skipped=places[0] - last - 1,
                lines=tuple(
                    PlacedLine(line=flat[place][1], cards=tuple(at.get(flat[place][1].new or 0, ())))
                    for place in places
                ),
            )
        )
        last = places[-1]
    after = last + 1 if how == "page" and last + 1 < len(flat) else 0
    return pieces, len(kept), after


def _anchor_line(file: DiffFile, finding: Mapping[str, Any]) -> int | None:
    """The last line at head that the diff shows of a finding's lines; None where it shows none."""
    start, end = finding["start_line"], finding["end_line"]
    if file.new is None or start is None or end is None:
        return None
    for first, last in reversed(file.hunks):
        if first <= end and last >= start:
            return int(min(last, end))
    return None


def _ordered(cards: Sequence[Card]) -> list[Card]:
    """Golden findings first, then candidates by line and trial."""
    return sorted(
        cards,
        key=lambda card: (
            card.trial is not None,
            card.finding["end_line"] or 0,
            -1 if card.trial is None else card.trial["trial"],
            card.finding["position"],
        ),
    )
