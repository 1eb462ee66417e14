"""A remark on one commit is placed at another: kept lines move, changed ones are flagged, deleted files have none."""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence

import pytest

from crb_core.diff_lines import DiffText
from crb_core.moved_lines import MovedRegion, moved_region

FILE = "a.py"


def diff_of(old: Sequence[str], new: Sequence[str]) -> DiffText:
    """A diff with three lines of context, by the standard library and not by git."""
    body = "".join(difflib.unified_diff([f"{line}\n" for line in old], [f"{line}\n" for line in new], "a/x", "b/x"))
    if not body:
        return DiffText(b"")
    hunks = body.split("\n", 2)[2]
    return DiffText(f"diff --git a/{FILE} b/{FILE}\n--- a/{FILE}\n+++ b/{FILE}\n{hunks}".encode())


def moved(old: Sequence[str], new: Sequence[str], start: int, end: int) -> tuple[int, int, bool]:
    found = moved_region(diff_of(old, new), FILE, start, end)
    assert found is not None
    return found.start_line, found.end_line, found.changed


LINES = [f"line {number}" for number in range(1, 13)]


@pytest.mark.parametrize(
    ("new", "region", "expected"),
    [
        (LINES, (3, 5), (3, 5, False)),
        (["new", *LINES], (3, 5), (4, 6, False)),
        (LINES[1:], (3, 5), (2, 4, False)),
        ([*LINES[:7], "new", *LINES[7:]], (3, 5), (3, 5, False)),
        # Lines added directly above or below leave the region as it was; inside of it they do not.
        ([*LINES[:2], "new", *LINES[2:]], (3, 5), (4, 6, False)),
        ([*LINES[:5], "new", *LINES[5:]], (3, 5), (3, 5, False)),
        ([*LINES[:3], "new", *LINES[3:]], (3, 5), (3, 6, True)),
        ([*LINES[:3], "other", *LINES[4:]], (3, 5), (3, 5, True)),
        # One line became three.
        ([*LINES[:3], "x", "y", "z", *LINES[4:]], (4, 4), (4, 6, True)),
        # Gone without a replacement: the line above is what is left.
        ([*LINES[:3], *LINES[4:]], (4, 4), (3, 3, True)),
        (LINES[1:], (1, 1), (1, 1, True)),
        (LINES[:-1], (12, 12), (11, 11, True)),
        (["all", "other"], (3, 5), (1, 2, True)),
    ],
)
def test_regions(new: list[str], region: tuple[int, int], expected: tuple[int, int, bool]) -> None:
    """Each kind of change above, below, beside and inside a region."""
    assert moved(LINES, new, *region) == expected


def test_every_kept_line_keeps_its_text() -> None:
    """For random edits: a region that is called unchanged has the same text at its new place, and a touched one not."""
    random_ = random.Random(7)
    for _ in range(150):
        old = [f"l{number}" for number in range(random_.randint(1, 30))]
        new: list[str] = []
        for line in old:
            new += [f"n{random_.random()}" for _ in range(random_.choice((0, 0, 0, 1, 2)))]
            if random_.random() > 0.15:
                new.append(line)
        if not new:
            continue
        start = random_.randint(1, len(old))
        end = random_.randint(start, len(old))
        first, last, changed = moved(old, new, start, end)
        assert 1 <= first <= last <= len(new)
        text = old[start - 1 : end]
        assert (new[first - 1 : last] == text) != changed
        assert changed != any(text == new[at : at + len(text)] for at in range(len(new)))


def test_renamed_deleted_and_other_files() -> None:
    """A rename is followed, a deleted file has no place, and one that the diff does not name is as it was."""
    diff = DiffText(
        b"diff --git a/a.py b/b.py\nsimilarity index 90%\nrename from a.py\nrename to b.py\n"
        b"--- a/a.py\n+++ b/b.py\n@@ -1,3 +1,4 @@\n+new\n one\n two\n three\n"
        b"diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    assert moved_region(diff, "a.py", 2, 3) == MovedRegion(file="b.py", start_line=3, end_line=4, changed=False)
    assert moved_region(diff, "gone.py", 1, 1) is None
    assert moved_region(diff, "c.py", 9, 9) == MovedRegion(file="c.py", start_line=9, end_line=9, changed=False)
