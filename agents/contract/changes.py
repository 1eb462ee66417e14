"""What a pull request changed: a unified diff as ``git diff`` writes it, read line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Change", "read_changes"]

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_QUOTED_PART = re.compile(r'\\([abtnvfr"\\]|[0-7]{3})')


@dataclass
class Change:
    """One file of the diff.

    ``path`` is its name at head, or at base where the pull request deletes it. ``added`` holds the numbers (from 1)
    of its new lines at head. ``text`` is its part of the diff.
    """

    path: str
    is_deleted: bool = False
    is_binary: bool = False
    #: A symbolic link or a submodule: there is no text to review.
    is_special: bool = False
    added: set[int] = field(default_factory=set)
    removed_count: int = 0
    text: str = ""


def read_changes(diff: bytes) -> list[Change]:
    """The changed files in the diff's order. Bytes that are no UTF-8 become lone surrogates in a path.

    Raises ValueError for a text that ``git diff`` would not write.
    """
    return [_read_file(section) for section in _sections(diff)]


def _sections(diff: bytes) -> list[list[bytes]]:
    """The lines of each file. Only a line outside all hunks starts a file: a hunk may quote a diff."""
    sections: list[list[bytes]] = []
    old_left = new_left = 0
    for line in diff.split(b"\n"):
        if old_left or new_left:
            kind = line[:1]
            if kind == b"\\":
                pass
            elif kind == b"+":
                new_left -= 1
            elif kind == b"-":
                old_left -= 1
            else:
                old_left -= 1
                new_left -= 1
            if old_left < 0 or new_left < 0:
                raise ValueError(f"a hunk of {_show(sections[-1][0])} is longer than its header says")
        elif line.startswith(b"diff --git "):
            sections.append([])
        elif sections and (hunk := _HUNK.match(line)):
            old_left = int(hunk[2]) if hunk[2] is not None else 1
            new_left = int(hunk[4]) if hunk[4] is not None else 1
        if sections:
            sections[-1].append(line)
        elif line.strip():
            raise ValueError(f"the diff starts with {_show(line)}, not with a 'diff --git' line")
    if old_left or new_left:
        raise ValueError(f"the diff ends inside a hunk of {_show(sections[-1][0])}")
    return sections


def _read_file(lines: list[bytes]) -> Change:
    old_name = new_name = None
    change = Change(path="", text=b"\n".join(lines).decode("utf-8", "replace"))
    position = 0
    left = 0
    for line in lines[1:]:
        if left and line[:1] in {b"+", b" ", b"-", b""}:
            if line[:1] == b"+":
                change.added.add(position)
            if line[:1] == b"-":
                change.removed_count += 1
            else:
                position += 1
            # The header counts old and new lines; a context line is both.
            left -= 2 if line[:1] in {b" ", b""} else 1
        elif hunk := _HUNK.match(line):
            position = int(hunk[3])
            left = sum(int(count) if count is not None else 1 for count in (hunk[2], hunk[4]))
        elif line.startswith(b"--- "):
            old_name = _name(line[4:], b"a/")
        elif line.startswith(b"+++ "):
            new_name = _name(line[4:], b"b/")
        elif line.startswith((b"rename to ", b"copy to ")):
            new_name = _name(line.split(b" to ", 1)[1], b"")
        elif line.startswith(b"deleted file mode "):
            change.is_deleted = True
        elif line.startswith((b"Binary files ", b"GIT binary patch")):
            change.is_binary = True
        mode = re.match(rb"(?:new file mode|deleted file mode|new mode|index [0-9a-f.]+) (1[26]0000)$", line)
        if mode and not left:
            change.is_special = True
    path = (old_name if change.is_deleted else new_name) or _name_of_header(lines[0])
    if path is None:
        raise ValueError(f"no file name can be read from {_show(lines[0])}")
    change.path = path
    return change


def _name_of_header(line: bytes) -> str | None:
    """The name in ``diff --git a/x b/x``, the only place of it where nothing but a mode or binary content changed."""
    names = line.removeprefix(b"diff --git ")
    if names.startswith(b'"'):
        both = re.match(rb'("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")$', names)
        return _name(both[2], b"b/") if both else None
    # Both halves are equal but for the prefix, so the middle blank is the one that separates them.
    half = len(names) // 2
    if names[half : half + 1] == b" " and names[:half][2:] == names[half + 1 :][2:]:
        return _name(names[half + 1 :], b"b/")
    return None


def _name(raw: bytes, prefix: bytes) -> str | None:
    # git ends a name that holds a blank with a tab.
    text = raw.rstrip(b"\t").decode("utf-8", "surrogateescape")
    if text == "/dev/null":
        return None
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        text = _unquote(text[1:-1])
    return text.removeprefix(prefix.decode())


def _unquote(text: str) -> str:
    result = bytearray()
    end = 0
    for part in _QUOTED_PART.finditer(text):
        result += text[end : part.start()].encode("utf-8", "surrogateescape")
        result.append(int(part[1], 8) & 255 if part[1].isdigit() else _ESCAPES[part[1]])
        end = part.end()
    result += text[end:].encode("utf-8", "surrogateescape")
    return result.decode("utf-8", "surrogateescape")


def _show(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
