"""Where the commits of a pull request come from: a text corpus, a folder of local mirrors, or git URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from crb_core.errors import CrbError, InputError, UnavailableError, Where
from crb_core.formats.checked import Problems
from crb_core.formats.showcase import read_pull_request_text
from crb_core.pull_request import PullRequest
from crb_worker.git import Git, GitError
from crb_worker.text_repository import check_commits, write_commits

__all__ = ["GitUrlSource", "MirrorSource", "ShowcaseSource", "SnapshotSource", "source_for"]

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_URL = re.compile(r"^(?:(?:file|https?|ssh|git)://)[^\s]+$")


class SnapshotSource(Protocol):
    """Gives commits to a repository that is being built."""

    def deposit(self, git: Git, pull_request: PullRequest) -> None:
        """Make base and head readable in the empty bare repository ``git``, with all that they reach.

        More objects than those may become readable. Raises CrbError where a commit cannot be had.
        """
        ...


@dataclass(frozen=True)
class ShowcaseSource:
    """The folder of a text corpus (crb_core.formats.showcase)."""

    folder: Path

    def deposit(self, git: Git, pull_request: PullRequest) -> None:
        """Build the commits from the text and check that they are the pull request's."""
        problems = Problems()
        text = read_pull_request_text(self.folder / "pull_requests" / pull_request.key, problems)
        problems.raise_first()
        if text is None:
            raise InputError(f"the pull request {pull_request.key} cannot be read", where=Where(file=str(self.folder)))
        base, head = write_commits(git, text)
        check_commits(text, base, head)
        if (base, head) != (pull_request.base, pull_request.head):
            raise InputError(
                f"the text of {pull_request.key} has changed since the corpus was imported",
                where=Where(file=str(text.folder)),
                remedy="Import the corpus again",
            )


@dataclass(frozen=True)
class MirrorSource:
    """Local repositories, bare or not, found by a template with ``{owner}``, ``{repo}`` and ``{number}``.

    A mirror is only read, and none of its settings: its objects are made readable through alternates.
    """

    template: str

    def deposit(self, git: Git, pull_request: PullRequest) -> None:
        """Link the mirror's objects; UnavailableError where mirror or commit is missing."""
        folder = Path(_filled(self.template, pull_request)).expanduser().absolute()
        git_dir = _git_dir(folder)
        if git_dir is None:
            raise UnavailableError(
                f"there is no local mirror of {pull_request.nwo}",
                where=Where(file=str(folder)),
                remedy="Clone it there with git clone --mirror, or correct the template",
            )
        objects = (git_dir / "objects").resolve()
        if "\n" in str(objects):
            raise InputError("the path of a mirror holds a line break", where=Where(file=repr(str(objects))))
        (git.git_dir / "objects" / "info").mkdir(exist_ok=True)
        (git.git_dir / "objects" / "info" / "alternates").write_text(f"{objects}\n", encoding="utf-8")
        for name, commit in (("base", pull_request.base), ("head", pull_request.head)):
            kind = git.kinds([commit])[0]
            if kind != "commit":
                raise UnavailableError(
                    f"the {name} commit {commit} of {pull_request.key} is "
                    + ("not in the mirror" if kind == "missing" else f"a {kind}, not a commit"),
                    where=Where(file=str(folder), field=name),
                    remedy=f"Fetch refs/pull/{pull_request.number}/head and all branches into it"
                    if kind == "missing"
                    else "Correct the corpus",
                )
        shallow = git_dir / "shallow"
        if shallow.is_file() and shallow.stat().st_size:
            raise UnavailableError(
                "the mirror is a shallow clone, whose history ends too early",
                where=Where(file=str(folder)),
                remedy="Complete it with git fetch --unshallow",
            )


@dataclass(frozen=True)
class GitUrlSource:
    """Repositories by URL, found by a template with ``{owner}``, ``{repo}`` and ``{number}``.

    The two commits are asked for by id; where a server refuses that, the pull request's ref and all branches are.
    """

    template: str

    def deposit(self, git: Git, pull_request: PullRequest) -> None:
        """Fetch the commits; UnavailableError where the server or a commit does not answer."""
        url = _filled(self.template, pull_request)
        if not _URL.match(url):
            raise InputError(
                f"{url!r} is no git URL of the kinds file, https, http, ssh and git",
                remedy="Correct the corpus's source template",
            )
        number = pull_request.number
        attempts = (
            [pull_request.base, pull_request.head],
            [f"+refs/pull/{number}/head:refs/crb/head"],
            [f"+refs/merge-requests/{number}/head:refs/crb/head"],
            ["+refs/heads/*:refs/crb/heads/*"],
        )
        reason: CrbError | None = None
        for wanted in attempts:
            try:
                git.run("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", url, *wanted, transfer=True)
            except GitError as error:
                # Each later attempt fails less informatively: the ref is simply not there.
                reason = reason or error
            if set(git.kinds([pull_request.base, pull_request.head])) == {"commit"}:
                return
        missing = [
            commit
            for commit, kind in zip(
                (pull_request.base, pull_request.head),
                git.kinds([pull_request.base, pull_request.head]),
                strict=True,
            )
            if kind != "commit"
        ]
        detail = f": {reason.problem}" if reason else ""
        raise UnavailableError(
            f"commit {' and '.join(missing)} of {pull_request.key} cannot be fetched from {_shown(url)}{detail}",
            remedy="Check the URL and that the repository still has the pull request",
        )


def source_for(kind: Literal["showcase", "mirror", "git", "none"], template: str | None) -> SnapshotSource:
    """The source that a corpus names by ``source`` and ``source_template``; InputError if it names none."""
    if kind == "none" or not template:
        raise InputError(
            "the corpus does not say where its repositories are",
            remedy="Import it again with a mirror folder or a git URL template",
        )
    if kind == "showcase":
        return ShowcaseSource(Path(template))
    return MirrorSource(template) if kind == "mirror" else GitUrlSource(template)


def _filled(template: str, pull_request: PullRequest) -> str:
    values = {"owner": pull_request.owner, "repo": pull_request.name, "number": str(pull_request.number)}

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise InputError(
                f"the source template {template!r} holds {match[0]}",
                remedy="Use {owner}, {repo} and {number} only",
            )
        return values[match[1]]

    return _PLACEHOLDER.sub(value, template)


def _git_dir(folder: Path) -> Path | None:
    """The git directory of a bare or ordinary repository or of a linked work tree's common directory."""
    dot_git = folder / ".git"
    if dot_git.is_file():
        linked = folder / dot_git.read_text(encoding="utf-8", errors="surrogateescape").removeprefix("gitdir:").strip()
        common = linked / "commondir"
        dot_git = linked / common.read_text(encoding="utf-8").strip() if common.is_file() else linked
    for candidate in (dot_git, folder):
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate
    return None


def _shown(url: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]+@", "", url)
