"""A diff line by line, as a page shows it: each file's hunks with the numbers of their lines on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from crb_core.diff import DiffFile, DiffIndex

__all__ = ["DiffText", "Hunk", "Line"]

_START = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_KINDS: dict[bytes, Literal["context", "added", "removed", "note"]] = {
    b"+": "added",
    b"-": "removed",
    b"\\": "note",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk. ``old`` and ``new`` are its numbers at base and at head, None where it is not there.

    Bytes that are not UTF-8 stand in ``text`` as ``\\xNN``. A note is git's own, as about a missing line end.
    """

    kind: Literal["context", "added", "removed", "note"]
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk; ``heading`` is what git found above it, as the name of a function."""

    heading: str
    lines: tuple[Line, ...]


class DiffText:
    """A parsed diff with its lines; files come in the diff's order."""

    def __init__(self, data: bytes, name: str = "diff.patch") -> None:
        self.index = DiffIndex.parse(data, name)
        self._lines = data.split(b"\n")

    @cached_property
    def files(self) -> tuple[tuple[str, DiffFile], ...]:
        """Path at head, or at base of a deleted file, with the file; in the order of the diff."""
        every = [*self.index.files.items(), *self.index.deleted.items()]
        # A file without hunks (renamed, binary) has no place of its own: those come last, by path.
        return tuple(
            sorted(every, key=lambda each: (each[1].parts[0][0] if each[1].parts else len(self._lines), each[0]))
        )

    @staticmethod
    def size(file: DiffFile) -> int:
        """How many lines a file's hunks have."""
        return sum(end - start - 1 for start, end in file.parts)

    def hunks(self, file: DiffFile) -> Iterator[Hunk]:
        """The hunks of one of the diff's files."""
        for start, end in file.parts:
            header = _START.match(self._lines[start])
            assert header is not None
            old, new = int(header[1]), int(header[2])
            lines = []
            for raw in self._lines[start + 1 : end]:
                kind = _KINDS.get(raw[:1], "context")
                text = raw[1:].removesuffix(b"\r").decode("utf-8", "backslashreplace")
                lines.append(
                    Line(
                        kind,
                        old if kind in {"context", "removed"} else None,
                        new if kind in {"context", "added"} else None,
                        text,
                    )
                )
                old += kind in {"context", "removed"}
                new += kind in {"context", "added"}
            yield Hunk(header[3].decode("utf-8", "backslashreplace"), tuple(lines))
