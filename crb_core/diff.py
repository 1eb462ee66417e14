"""The lines that a unified diff shows, so that a finding can be told to be in it or not."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from crb_core.errors import InputError, Where

__all__ = ["DiffFile", "DiffIndex"]

_HUNK = re.compile(rb"^@@ -(\d{1,10})(?:,(\d{1,10}))? \+(\d{1,10})(?:,(\d{1,10}))? @@")
_ESCAPES = {
    ord("a"): 7,
    ord("b"): 8,
    ord("t"): 9,
    ord("n"): 10,
    ord("v"): 11,
    ord("f"): 12,
    ord("r"): 13,
    ord('"'): 34,
    ord("\\"): 92,
}


@dataclass(frozen=True, kw_only=True)
class DiffFile:
    """One changed file. ``old`` is None for a new file, ``new`` for a deleted one.

    ``hunks`` are the inclusive line ranges at head that the hunks show, context included, ascending;
    ``added`` the lines at head that the change wrote; ``lines_removed`` how many it took away. ``parts`` are the hunks'
    places in the diff: line of the header (from 0) and the line after its last one.
    """

    old: str | None
    new: str | None
    hunks: tuple[tuple[int, int], ...]
    added: tuple[int, ...]
    lines_removed: int
    binary: bool = False
    parts: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class DiffIndex:
    """A whole diff by path at head; deleted files are in ``deleted``."""

    files: Mapping[str, DiffFile]
    deleted: Mapping[str, DiffFile]

    @classmethod
    def parse(cls, data: bytes, name: str = "diff.patch") -> DiffIndex:
        """Read git's unified diff with the prefixes ``a/`` and ``b/``; InputError with the line that breaks the format.

        Bytes of a path that are not UTF-8 become surrogate escapes, as in ``os.fsdecode``.
        """
        files: dict[str, DiffFile] = {}
        deleted: dict[str, DiffFile] = {}
        for file in _Reader(data, name).files():
            if file.new is not None:
                files[file.new] = file
            elif file.old is not None:
                deleted[file.old] = file
        return cls(files, deleted)

    def in_diff(self, file: str, start_line: int, end_line: int) -> bool:
        """Whether any of the lines (at head, from 1, inclusive) is shown in a hunk, context lines included.

        A file that is not changed, only renamed, binary or deleted has no such lines.
        """
        changed = self.files.get(file)
        if changed is None or end_line < start_line:
            return False
        place = bisect_left(changed.hunks, start_line, key=lambda hunk: hunk[1])
        return place < len(changed.hunks) and changed.hunks[place][0] <= end_line

    @property
    def files_changed(self) -> int:
        return len(self.files) + len(self.deleted)

    @property
    def lines_added(self) -> int:
        return sum(len(file.added) for file in self.files.values())

    @property
    def lines_removed(self) -> int:
        return sum(file.lines_removed for file in (*self.files.values(), *self.deleted.values()))


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        lines = data.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        self._lines = lines
        self._name = name
        self._at = 0

    def files(self) -> Iterator[DiffFile]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(b"diff --git "):
                yield self._file()
            elif line.startswith((b"diff --cc ", b"diff --combined ")):
                raise self._error("combined diffs of merges are not supported")
            elif line.startswith((b"@@ ", b"--- ", b"+++ ")):
                raise self._error("a hunk or file header stands outside a 'diff --git' section")
            else:
                self._at += 1

    def _file(self) -> DiffFile:
        old, new = self._names(self._lines[self._at].removeprefix(b"diff --git "))
        is_new = is_deleted = binary = False
        hunks: list[tuple[int, int]] = []
        added: list[int] = []
        parts: list[tuple[int, int]] = []
        removed = 0
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(b"diff --"):
                break
            if line.startswith(b"@@"):
                header = self._at
                removed += self._hunk(hunks, added)
                if self._at < len(self._lines) and self._lines[self._at].startswith(b"\\"):
                    self._at += 1
                parts.append((header, self._at))
                continue
            if line.startswith(b"new file mode "):
                is_new = True
            elif line.startswith(b"deleted file mode "):
                is_deleted = True
            elif line.startswith((b"Binary files ", b"GIT binary patch")):
                binary = True
            elif line.startswith((b"rename from ", b"copy from ")):
                old = self._path(line.split(b" from ", 1)[1], b"")
            elif line.startswith((b"rename to ", b"copy to ")):
                new = self._path(line.split(b" to ", 1)[1], b"")
            elif line.startswith(b"--- ") and not hunks and line != b"--- /dev/null":
                old = self._path(line[4:], b"a/")
            elif line.startswith(b"+++ ") and not hunks and line != b"+++ /dev/null":
                new = self._path(line[4:], b"b/")
            self._at += 1
        if old is None and not is_new:
            raise self._error("the paths of this file cannot be told apart")
        return DiffFile(
            old=None if is_new else old,
            new=None if is_deleted else new,
            hunks=tuple(hunks),
            added=tuple(added),
            lines_removed=removed,
            binary=binary,
            parts=tuple(parts),
        )

    def _hunk(self, hunks: list[tuple[int, int]], added: list[int]) -> int:
        """Read one hunk; the number of removed lines."""
        header = _HUNK.match(self._lines[self._at])
        if header is None:
            raise self._error("the hunk header is malformed")
        old_left = int(header[2]) if header[2] is not None else 1
        new_left = new_count = int(header[4]) if header[4] is not None else 1
        line_number = start = int(header[3])
        if hunks and start <= hunks[-1][1] and new_count:
            raise self._error("hunks overlap or are out of order")
        removed = 0
        self._at += 1
        while old_left > 0 or new_left > 0:
            if self._at >= len(self._lines):
                raise self._error("the hunk ends before its header says")
            kind = self._lines[self._at][:1]
            if kind in {b" ", b""}:
                old_left -= 1
                new_left -= 1
                line_number += 1
            elif kind == b"+":
                added.append(line_number)
                line_number += 1
                new_left -= 1
            elif kind == b"-":
                removed += 1
                old_left -= 1
            elif kind != b"\\":
                raise self._error("a line of the hunk starts with none of blank, +, - and \\")
            if old_left < 0 or new_left < 0:
                raise self._error("the hunk has more lines than its header says")
            self._at += 1
        if new_count:
            hunks.append((start, start + new_count - 1))
        return removed

    def _names(self, text: bytes) -> tuple[str | None, str | None]:
        """Old and new path of a ``diff --git`` line; None where only other header lines can tell."""
        if text.startswith(b'"') or text.endswith(b'"'):
            if text.startswith(b'"'):
                end = re.match(rb'"(?:[^"\\]|\\.)*"', text)
                if end is None:
                    return None, None
                return self._path(end[0], b"a/"), self._path(text[end.end() + 1 :], b"b/")
            start = text.find(b' "')
            return self._path(text[:start], b"a/"), self._path(text[start + 1 :], b"b/")
        # Unquoted blanks are ambiguous unless both names are equal, which they are without a rename.
        half = (len(text) - 1) // 2
        if text[2:half] == text[half + 3 :] and text.startswith(b"a/") and text[half : half + 3] == b" b/":
            path = self._path(text[:half], b"a/")
            return path, path
        if text.count(b" ") == 1:
            old, new = text.split(b" ")
            return self._path(old, b"a/"), self._path(new, b"b/")
        return None, None

    def _path(self, text: bytes, prefix: bytes) -> str:
        text = text.removesuffix(b"\r")
        if text.startswith(b'"'):
            text = self._unquoted(text.rstrip(b"\t"))
        else:
            # git ends a name with blanks in it by a tab.
            text = text.removesuffix(b"\t")
        if not text.startswith(prefix) or len(text) == len(prefix):
            raise self._error(f"a path does not start with {prefix.decode()}")
        return text[len(prefix) :].decode("utf-8", "surrogateescape")

    def _unquoted(self, text: bytes) -> bytes:
        if len(text) < 2 or not text.endswith(b'"'):
            raise self._error("a quoted path does not end")
        result = bytearray()
        body = text[1:-1]
        at = 0
        while at < len(body):
            if body[at] != ord("\\"):
                result.append(body[at])
                at += 1
                continue
            octal = re.compile(rb"[0-3][0-7]{2}").match(body, at + 1)
            if octal:
                result.append(int(octal[0], 8))
                at += 4
            elif at + 1 < len(body) and body[at + 1] in _ESCAPES:
                result.append(_ESCAPES[body[at + 1]])
                at += 2
            else:
                raise self._error("a quoted path holds an unknown escape")
        return bytes(result)

    def _error(self, problem: str) -> InputError:
        return InputError(
            problem,
            where=Where(file=self._name, line=min(self._at, len(self._lines) - 1) + 1),
            remedy="Write the diff with git diff --no-color and the prefixes a/ and b/",
        )
