"""Remarks that were made on some commit of a pull request, placed at its reviewed head (seed A 3.2, 4.1; facts A15)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from crb_core.diff_lines import DiffText
from crb_core.moved_lines import moved_region
from crb_core.proposals import Alignment
from crb_core.pull_request import PullRequest
from crb_worker.git import DIFF_OPTIONS, Git, init_repository
from crb_worker.snapshot_sources import SnapshotSource

__all__ = ["Placed", "Placer", "placer"]


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Lines at head, and how they were found; ``problem`` says why there are none."""

    file: str
    start_line: int
    end_line: int
    alignment: Alignment | None
    problem: str | None = None


class Placer:
    """Places remarks on one pull request. Reads a repository that holds at least its base and head."""

    def __init__(self, git: Git, pull_request: PullRequest) -> None:
        self.git = git
        self._pull_request = pull_request
        self._diffs: dict[tuple[str, str], DiffText] = {}
        self._lines: dict[tuple[str, str], int] = {}

    def place(self, commit: str, file: str, start_line: int, end_line: int, *, on_old_side: bool = False) -> Placed:
        """Where lines of ``file`` at ``commit`` are at head; with ``on_old_side`` they are lines of the merge base."""
        head = self._pull_request.head
        origin = self.merge_base if on_old_side else commit
        if self.missing([origin]):
            return _nowhere(file, start_line, end_line, f"commit {origin} is not in the repository")
        # git reads names line by line here.
        if "\n" in file or self.git.kinds([f"{origin}:{file}"])[0] != "blob":
            return _nowhere(file, start_line, end_line, f"commit {origin} has no such file")
        if end_line > self._line_count(origin, file):
            return _nowhere(file, start_line, end_line, f"commit {origin} has fewer lines in this file")
        if origin == head:
            return Placed(file=file, start_line=start_line, end_line=end_line, alignment=Alignment.ON_HEAD)
        moved = moved_region(self.diff(origin, head), file, start_line, end_line)
        if moved is None:
            return _nowhere(file, start_line, end_line, "the file is not there at head")
        if not moved.file.isascii() and moved.file.encode("utf-8", "ignore").decode() != moved.file:
            return _nowhere(file, start_line, end_line, "the file's name at head is not UTF-8")
        return Placed(
            file=moved.file,
            start_line=moved.start_line,
            end_line=moved.end_line,
            alignment=Alignment.CODE_CHANGED if moved.changed else Alignment.REMAPPED,
        )

    @cached_property
    def merge_base(self) -> str:
        """The commit at which the pull request's branch left its base."""
        return self.git.text("merge-base", self._pull_request.base, self._pull_request.head).splitlines()[0]

    def _line_count(self, commit: str, file: str) -> int:
        if (commit, file) not in self._lines:
            data = self.git.run("cat-file", "blob", f"{commit}:{file}")
            self._lines[commit, file] = data.count(b"\n") + (not data.endswith(b"\n"))
        return self._lines[commit, file]

    def missing(self, commits: Sequence[str]) -> tuple[str, ...]:
        """Those of the commits that the repository does not have."""
        return tuple(name for name, kind in zip(commits, self.git.kinds(commits), strict=True) if kind != "commit")

    def diff(self, old: str, new: str) -> DiffText:
        """The diff between two commits that are there."""
        if (old, new) not in self._diffs:
            data = self.git.run("diff", *DIFF_OPTIONS, old, new, "--")
            self._diffs[old, new] = DiffText(data, f"the diff from {old} to {new}")
        return self._diffs[old, new]


@contextmanager
def placer(source: SnapshotSource, pull_request: PullRequest) -> Iterator[Placer]:
    """A placer over the repository of a source, for as long as the block runs. Raises CrbError where there is none."""
    with tempfile.TemporaryDirectory(prefix="crb-placing-") as folder:
        git = init_repository(Path(folder) / "stage.git")
        source.deposit(git, pull_request)
        yield Placer(git, pull_request)


def _nowhere(file: str, start_line: int, end_line: int, problem: str) -> Placed:
    return Placed(file=file, start_line=start_line, end_line=end_line, alignment=None, problem=problem)
