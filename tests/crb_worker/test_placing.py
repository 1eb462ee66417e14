"""Remarks are placed at the reviewed head by the repository itself."""

from __future__ import annotations

import pytest

from crb_core.proposals import Alignment
from crb_core.pull_request import PullRequest
from crb_worker.placing import Placer, placer
from crb_worker.snapshot import MirrorSource
from tests.crb_worker.test_snapshot import Upstream

TEXT = "".join(f"{number}\n" for number in range(1, 11))


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    """A branch of two commits, the second one reviewed, and a commit after it."""
    made = Upstream(tmp_path_factory.mktemp("placing") / "up")
    made.git("checkout", "--quiet", "-b", "long", made.root)
    made.fork = made.commit({"x.txt": TEXT, "old name.txt": TEXT, "gone.txt": "g\n"}, "base")  # type: ignore[attr-defined]
    made.first = made.commit({"x.txt": f"0\n{TEXT}"}, "first")  # type: ignore[attr-defined]
    made.git("mv", "old name.txt", "new.txt")
    made.git("rm", "--quiet", "gone.txt")
    made.reviewed = made.commit({"x.txt": f"0\n{TEXT.replace('7', 'seven')}"}, "reviewed")  # type: ignore[attr-defined]
    made.after = made.commit({"x.txt": f"top\n0\n{TEXT}"}, "after")  # type: ignore[attr-defined]
    made.git("update-ref", "refs/pull/8/head", made.after)  # type: ignore[attr-defined]
    return made


def place(upstream: Upstream, commit: str, file: str, start: int, end: int, *, old: bool = False) -> tuple[object, ...]:
    pull_request = PullRequest(
        key="k",
        repo="https://github.com/a/up",
        number=8,
        base=upstream.fork,  # type: ignore[attr-defined]
        head=upstream.reviewed,  # type: ignore[attr-defined]
        title="t",
    )
    with placer(MirrorSource(str(upstream.folder)), pull_request) as made:
        assert isinstance(made, Placer)
        found = made.place(commit, file, start, end, on_old_side=old)
    return found.alignment, found.file, found.start_line, found.end_line, found.problem


def test_where_a_remark_is_at_head(upstream: Upstream) -> None:
    """On head it stays; elsewhere it moves with its lines, through renames, and says where they were changed."""
    first, reviewed, after = (getattr(upstream, name) for name in ("first", "reviewed", "after"))
    assert place(upstream, reviewed, "x.txt", 3, 4) == (Alignment.ON_HEAD, "x.txt", 3, 4, None)
    assert place(upstream, after, "x.txt", 4, 5) == (Alignment.REMAPPED, "x.txt", 3, 4, None)
    assert place(upstream, first, "x.txt", 7, 8) == (Alignment.CODE_CHANGED, "x.txt", 7, 8, None)
    assert place(upstream, first, "old name.txt", 2, 2) == (Alignment.REMAPPED, "new.txt", 2, 2, None)
    # The old side is the fork's, whatever commit was looked at.
    assert place(upstream, after, "x.txt", 2, 3, old=True) == (Alignment.REMAPPED, "x.txt", 3, 4, None)


def test_what_has_no_place(upstream: Upstream) -> None:
    """It says why, and no line is made up."""
    first = upstream.first  # type: ignore[attr-defined]
    for commit, file, problem in (
        ("1" * 40, "x.txt", f"commit {'1' * 40} is not in the repository"),
        (first, "gone.txt", "the file is not there at head"),
        (first, "nowhere.txt", f"commit {first} has no such file"),
        (first, "x.txt\nfoo", f"commit {first} has no such file"),
    ):
        found = place(upstream, commit, file, 1, 1)
        assert (found[0], found[-1]) == (None, problem)
    assert place(upstream, first, "x.txt", 11, 11)[0] is Alignment.REMAPPED
    assert place(upstream, first, "x.txt", 11, 12)[-1] == f"commit {first} has fewer lines in this file"
