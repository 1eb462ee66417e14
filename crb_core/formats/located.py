"""Findings with a place, as tools' file formats give them: paths made repository-relative, lines checked (rule 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crb_core.finding import CandidateFinding
from crb_core.formats.imported import ImportedCandidate, JsonFile, shown
from crb_core.formats.paths import path_problem

__all__ = ["MAX_LINE", "Places"]

MAX_LINE = 2**31 - 1
_CONTAINER_REPO = "/work/repo/"


@dataclass(frozen=True, kw_only=True)
class Places:
    """How one file's findings become candidates of one agent.

    ``root`` is a prefix that paths begin with, ``login`` the agent's account; ``document`` collects what the file says
    of the review as a whole.
    """

    file: JsonFile
    agent: str
    root: str | None = None
    login: str | None = None
    document: dict[str, Any] = field(default_factory=dict)

    def candidate(
        self,
        message: str | None,
        path: str | None,
        start: int | None,
        end: int | None,
        *,
        at: tuple[str | int, ...],
        path_at: tuple[str | int, ...],
        source: dict[str, Any] | None = None,
    ) -> ImportedCandidate | None:
        """The candidate, or None after noting why it is none. Without ``path`` it has no place, which is reported."""
        if message is None:
            return None
        if path is None:
            unplaced = "it names no file, so it matches no golden finding where the protocol compares files"
            self.file.odd("finding without a place", unplaced, *at)
            start = end = None
        else:
            relative = self.relative(path)
            problem = path_problem(relative)
            if problem is not None:
                self.file.wrong(
                    problem,
                    *path_at,
                    remedy="Make the paths relative to the repository, or give --root with the folder they begin with",
                )
                return None
            path = relative
            if start is None:
                self.file.odd("finding without lines", "it names a file, but no line", *at)
        if start is not None and end is not None and end < start:
            self.file.wrong(f"the last line {end} is before the first line {start}", *at)
            return None
        return ImportedCandidate(
            finding=CandidateFinding(file=path, start_line=start, end_line=end, message=message, producer=self.agent),
            source=source or None,
        )

    def relative(self, path: str) -> str:
        """The path without the root, the container's repository folder or a leading ``./``."""
        prefixes = (_CONTAINER_REPO,) if self.root is None else (self.root.rstrip("/") + "/", _CONTAINER_REPO)
        for prefix in prefixes:
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        return path.removeprefix("./")

    def line(self, value: Any, *parts: str | int) -> int | None:
        """A line number from 1, or None after noting that it is none."""
        return self.file.integer(value, *parts, low=1, high=MAX_LINE)

    def name(self, value: Any) -> str:
        """A value from the file as it may stand in a sentence."""
        return shown(value)
