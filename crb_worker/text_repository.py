"""git commits from a pull request's text: the same ids on every machine and with every version of git."""

from __future__ import annotations

import tempfile
from pathlib import Path

from crb_core.errors import InputError, Where
from crb_core.formats.showcase import SEAL, PullRequestText
from crb_worker.git import Git, GitError

__all__ = ["check_commits", "write_commits"]

#: Who, and when in seconds since 1970 (UTC): part of every commit id, so never to be changed.
_IDENTITY = "crb showcase <showcase@crb.invalid>"
_BASE_TIME = 1_767_225_600
_HEAD_TIME = _BASE_TIME + 86_400


def write_commits(git: Git, text: PullRequestText) -> tuple[str, str]:
    """Write base and head commit into a repository and return their ids.

    Blobs are the files' bytes as they are, modes come from the text's list of executables, and the commits are written
    byte by byte. Raises InputError where the patch does not apply or leads to something that is no text.
    """
    # Inside the repository that is being built, which the next builder removes if this one is killed.
    with tempfile.TemporaryDirectory(prefix="index-", dir=git.git_dir) as scratch:
        index = Path(scratch) / "index"
        base_tree = _base_tree(git, text, index)
        base = _commit(git, base_tree, None, f"Before: {text.title}", _BASE_TIME)
        try:
            git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=text.patch, index=index)
        except GitError as error:
            raise InputError(
                f"the patch does not apply to the base tree: {error.message}",
                where=Where(file=str(text.patch_file)),
                remedy="Write it again with git diff from the base tree",
            ) from None
        _check_modes(git, text, index)
        head_tree = git.text("write-tree", index=index)
    if head_tree == base_tree:
        raise InputError("the patch changes nothing", where=Where(file=str(text.patch_file)))
    return base, _commit(git, head_tree, base, text.title, _HEAD_TIME)


def check_commits(text: PullRequestText, base: str, head: str) -> None:
    """Raise InputError unless the ids are the ones that the pull request's file states."""
    for field, stated, built in (("base", text.base, base), ("head", text.head, head)):
        if stated != built:
            problem = (
                "the commit id is missing"
                if stated is None
                else f"the commit id is {stated}, but the text gives {built}"
            )
            raise InputError(problem, where=Where(file=str(text.settings_file), field=field), remedy=SEAL)


def _base_tree(git: Git, text: PullRequestText, index: Path) -> str:
    names = "".join(f"{source.absolute()}\n" for _, source in text.files)
    blobs = git.text("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names.encode()).splitlines()
    entries = b"".join(
        f"{'100755' if path in text.executable else '100644'} {blob}\t{path}\0".encode()
        for (path, _), blob in zip(text.files, blobs, strict=True)
    )
    git.run("update-index", "-z", "--index-info", stdin=entries, index=index)
    return git.text("write-tree", index=index)


def _check_modes(git: Git, text: PullRequestText, index: Path) -> None:
    for entry in git.run("ls-files", "--stage", "-z", index=index).split(b"\0"):
        if entry and entry[:6] not in {b"100644", b"100755"}:
            name = entry.split(b"\t", 1)[1].decode("utf-8", "replace")
            raise InputError(
                f"the patch makes {name!r} a link or a submodule; a text corpus holds regular files only",
                where=Where(file=str(text.patch_file)),
            )


def _commit(git: Git, tree: str, parent: str | None, message: str, seconds: int) -> str:
    lines = [f"tree {tree}"]
    if parent:
        lines.append(f"parent {parent}")
    lines += [f"author {_IDENTITY} {seconds} +0000", f"committer {_IDENTITY} {seconds} +0000", "", message, ""]
    return git.text("hash-object", "-t", "commit", "-w", "--stdin", stdin="\n".join(lines).encode())
