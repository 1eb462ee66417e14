"""Where lines of a file are after a change: how a remark made on one commit is placed at another (seed A 4.1).

A region that no hunk touches keeps its text and moves by what was added and removed above it. A touched one is placed
at what took its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crb_core.diff_lines import DiffText, Line

__all__ = ["MovedRegion", "moved_region"]


@dataclass(frozen=True, kw_only=True)
class MovedRegion:
    """Lines (from 1, inclusive) of a file after a change; ``changed`` says whether their text is another one now."""

    file: str
    start_line: int
    end_line: int
    changed: bool


@dataclass(frozen=True)
class _Block:
    """A run of changed lines: old lines ``[old, old_end)`` became new lines ``[new, new_end)``."""

    old: int
    old_end: int
    new: int
    new_end: int


def moved_region(diff: DiffText, file: str, start_line: int, end_line: int) -> MovedRegion | None:
    """Lines of ``file`` before the change, as they are after it; None where the change deletes the file.

    ``diff`` is git's unified diff with three lines of context and with renames. A file that it does not name is as it
    was.
    """
    if file in diff.index.deleted:
        return None
    changed = next((each for each in diff.index.files.values() if each.old == file), None)
    if changed is None or changed.new is None:
        return MovedRegion(file=file, start_line=start_line, end_line=end_line, changed=False)
    blocks = [block for hunk in diff.hunks(changed) for block in _blocks(hunk.lines)]
    first, _ = _image(blocks, start_line)
    _, last = _image(blocks, end_line)
    return MovedRegion(
        file=changed.new,
        start_line=first,
        end_line=max(first, last),
        changed=changed.binary or any(_touches(block, start_line, end_line) for block in blocks),
    )


def _blocks(lines: Sequence[Line]) -> list[_Block]:
    found: list[_Block] = []
    # Three lines of context: only a hunk at the top of a file begins with a changed line.
    old = new = 1
    begin: tuple[int, int] | None = None
    for line in lines:
        if line.kind == "note":
            continue
        if line.kind == "context":
            if begin is not None:
                found.append(_Block(begin[0], old, begin[1], new))
                begin = None
            assert line.old is not None
            assert line.new is not None
            old, new = line.old + 1, line.new + 1
            continue
        if begin is None:
            begin = (old, new)
        if line.old is not None:
            old = line.old + 1
        if line.new is not None:
            new = line.new + 1
    if begin is not None:
        found.append(_Block(begin[0], old, begin[1], new))
    return found


def _image(blocks: Sequence[_Block], line: int) -> tuple[int, int]:
    """First and last line that stand where ``line`` stood."""
    shift = 0
    for block in blocks:
        if line < block.old:
            break
        if line < block.old_end:
            if block.new < block.new_end:
                return block.new, block.new_end - 1
            # Removed without a replacement: the line above it is what is left of the place.
            return (max(1, block.new - 1),) * 2
        shift = block.new_end - block.old_end
    return (line + shift,) * 2


def _touches(block: _Block, start_line: int, end_line: int) -> bool:
    if block.old < block.old_end:
        return block.old <= end_line and start_line < block.old_end
    # Lines that were only added change a region where they stand inside of it.
    return start_line < block.old <= end_line
