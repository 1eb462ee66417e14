"""Commits that an author made after the reviewed head, and what in them a finding may be inferred from (seed A 4.1).

A finding that nobody wrote is only as good as the change that suggests it: it is anchored to lines which that change
modified, and quotes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from crb_core.diff_lines import DiffText

__all__ = ["ModifiedFile", "modified_files", "only_words"]


@dataclass(frozen=True, kw_only=True)
class ModifiedFile:
    """One file that a commit modified, by its path before it.

    ``anchors`` are the lines before the commit that it replaced or removed, and the neighbours of lines that it only
    added. ``text`` shows each hunk with those numbers; ``changed`` is the text of all removed and added lines.
    """

    path: str
    anchors: frozenset[int]
    text: str
    changed: str


def modified_files(diff: DiffText) -> tuple[ModifiedFile, ...]:
    """The files that were there before the commit and whose text it changed, in the diff's order."""
    found = []
    for _, file in diff.files:
        if file.old is None or file.binary or not file.parts:
            continue
        anchors: set[int] = set()
        shown: list[str] = []
        changed: list[str] = []
        for hunk in diff.hunks(file):
            shown.append(f"@@ {hunk.heading}".rstrip())
            last_old = 0
            # The line after which the commit only added, while its lines are read.
            inserted_after: int | None = None
            replaces = False
            for line in hunk.lines:
                if line.kind == "note":
                    continue
                mark = {"context": " ", "added": "+", "removed": "-"}[line.kind]
                shown.append(f"{'' if line.old is None else line.old:>6} {mark} {line.text}")
                if line.kind != "context":
                    changed.append(line.text)
                if line.kind == "added":
                    inserted_after = None if replaces else last_old
                    continue
                assert line.old is not None
                replaces = line.kind == "removed"
                if replaces or inserted_after is not None:
                    anchors.add(line.old)
                if inserted_after:
                    anchors.add(inserted_after)
                inserted_after = None
                last_old = line.old
            if inserted_after:
                anchors.add(inserted_after)
        if anchors:
            found.append(
                ModifiedFile(
                    path=file.old, anchors=frozenset(anchors), text="\n".join(shown), changed="\n".join(changed)
                )
            )
    return tuple(found)


def only_words(text: str) -> str:
    """The letters and digits of a text: what copying it keeps, however it treats blanks and hidden characters."""
    return "".join(character for character in text if character.isalnum())
