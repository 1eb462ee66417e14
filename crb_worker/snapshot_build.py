"""Building one snapshot in a folder that nobody uses yet, and proving that it holds what it must and nothing else."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crb_core.errors import CrbError, InputError, UnavailableError, Where
from crb_core.pull_request import PullRequest
from crb_worker.git import DIFF_OPTIONS, Git, GitError, init_repository
from crb_worker.snapshot_sources import SnapshotSource

__all__ = ["Built", "build"]

#: Largest diff in bytes; nothing that a reviewer reads comes near it (facts A14).
MAX_DIFF_BYTES = 50 * 1024 * 1024
#: Mirrors made with a size limit lack a few big media files. Up to this share of the files may be absent, if none of
#: them is part of the change; a mirror that lacks more is no mirror.
MISSING_SHARE = 0.01
#: Modification time of every checked-out file (seconds since 1970): older than any index, so that git trusts its
#: index without reading the files again, in every copy that keeps times.
CHECKOUT_TIME = 1_577_836_800

# A copy has other inodes and change times, so size and modification time must do for git; and base is held by no ref,
# so nothing may collect it.
_SETTINGS = """[core]
\tlogAllRefUpdates = false
\tcheckStat = minimal
\ttrustctime = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
"""


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build found out. ``missing`` are paths at head whose content the source lacks."""

    merge_base: str
    missing: tuple[str, ...]


def build(folder: Path, source: SnapshotSource, pull_request: PullRequest) -> Built:
    """Build ``repo`` and ``pr`` inside ``folder`` and verify them; CrbError says why it cannot be done."""
    git_dir = folder / "repo" / ".git"
    with tempfile.TemporaryDirectory(prefix=".stage-", dir=folder) as scratch:
        stage = init_repository(Path(scratch) / "stage.git")
        source.deposit(stage, pull_request)
        merge_base = _merge_base(stage, pull_request)
        absent = _absent_blobs(stage, pull_request)
        missing = _check_absent(stage, pull_request, merge_base, absent)
        _write_pr_files(folder / "pr", stage, pull_request, merge_base)
        final = init_repository(git_dir)
        _copy_objects(stage, final, pull_request, may_lack=bool(absent))
        reachable = _reachable(stage, pull_request)
    settings = git_dir / "config"
    settings.write_text(settings.read_text(encoding="ascii").replace("bare = true", "bare = false") + _SETTINGS)
    (git_dir / "HEAD").write_text(f"{pull_request.head}\n", encoding="ascii")
    work = Git(git_dir, work_tree=folder / "repo")
    _check_out(work, pull_request, missing)
    _open_up(folder / "repo")
    _verify(work, pull_request, reachable)
    return Built(merge_base=merge_base, missing=missing)


def _merge_base(git: Git, pull_request: PullRequest) -> str:
    try:
        return git.text("merge-base", pull_request.base, pull_request.head).splitlines()[0]
    except GitError as error:
        if error.status == 1:
            raise InputError(
                f"base {pull_request.base} and head {pull_request.head} of {pull_request.key} have no common history",
                remedy="A three-dot diff needs one; correct the corpus",
            ) from None
        raise _incomplete(pull_request, error) from None


def _absent_blobs(git: Git, pull_request: PullRequest) -> frozenset[str]:
    """Blobs that are reachable from base or head, but not in the source; InputError if commits or trees are absent."""
    commits = (pull_request.base, pull_request.head)
    try:
        bones = git.text("rev-list", "--objects", "--missing=print", "--filter=blob:none", *commits)
        everything = git.text("rev-list", "--objects", "--missing=print", *commits).splitlines()
    except GitError as error:
        raise _incomplete(pull_request, error) from None
    if any(line.startswith("?") for line in bones.splitlines()):
        raise _incomplete(pull_request, None)
    absent = frozenset(line[1:] for line in everything if line.startswith("?"))
    blobs = len(everything) - len(bones.splitlines())
    if len(absent) > MISSING_SHARE * blobs:
        raise _partial(pull_request, f"{len(absent)} of {blobs} file contents in its history are absent")
    return absent


def _check_absent(git: Git, pull_request: PullRequest, merge_base: str, absent: frozenset[str]) -> tuple[str, ...]:
    if not absent:
        return ()
    changed = git.run("diff-tree", "-r", "-z", "--no-renames", merge_base, pull_request.head).split(b"\0")
    for entry in changed[0:-1:2]:
        if absent & set(entry.decode("ascii").split(" ")[2:4]):
            raise _partial(pull_request, "the content of a file that the pull request changes is absent")
    entries = [(kind, path) for kind, path, name in _tree(git, pull_request.head) if name in absent]
    return tuple(os.fsdecode(path) for _, path in entries)


def _tree(git: Git, commit: str) -> Iterator[tuple[str, bytes, str]]:
    """Mode, path and object id of every file of a commit."""
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        if entry:
            head, path = entry.split(b"\t", 1)
            mode, _, name = head.decode("ascii").split(" ")
            yield mode, path, name


def _incomplete(pull_request: PullRequest, error: GitError | None) -> CrbError:
    detail = f": {error.message}" if error else ""
    return UnavailableError(
        f"the repository of {pull_request.key} lacks a part of its history{detail}",
        remedy="Use a complete clone, neither shallow nor partial",
    )


def _partial(pull_request: PullRequest, detail: str) -> CrbError:
    return UnavailableError(
        f"the repository of {pull_request.key} is a partial clone: {detail}",
        remedy="Use a complete clone, made without --filter",
    )


def _write_pr_files(folder: Path, git: Git, pull_request: PullRequest, merge_base: str) -> None:
    folder.mkdir()
    with (folder / "diff.patch").open("wb") as file:
        try:
            git.run("diff", *DIFF_OPTIONS, merge_base, pull_request.head, output=file)
        except GitError as error:
            raise _incomplete(pull_request, error) from None
        size = os.fstat(file.fileno()).st_size
        if size > MAX_DIFF_BYTES:
            raise InputError(f"the diff of {pull_request.key} is {size} bytes, more than {MAX_DIFF_BYTES}")
        os.fsync(file.fileno())
    description = {
        "repo": pull_request.repo,
        "pr_number": pull_request.number,
        "base": pull_request.base,
        "head": pull_request.head,
        "nwo": pull_request.nwo,
        "title": pull_request.title,
        "body": pull_request.body,
    }
    with (folder / "pr.json").open("w", encoding="utf-8") as file_:
        json.dump(description, file_, ensure_ascii=False, indent=2)
        file_.write("\n")
        file_.flush()
        os.fsync(file_.fileno())


def _copy_objects(stage: Git, final: Git, pull_request: PullRequest, *, may_lack: bool) -> None:
    """Copy what base and head reach, and only that, as one pack."""
    wanted = f"{pull_request.base}\n{pull_request.head}\n".encode()
    options = ["--missing=allow-any"] if may_lack else []
    with tempfile.TemporaryFile(dir=final.git_dir) as pack:
        stage.run(
            "pack-objects", "--quiet", "--revs", "--stdout", "--delta-base-offset", *options, stdin=wanted, output=pack
        )
        pack.seek(0)
        final.run("index-pack", "--stdin", stdin=pack)


def _reachable(git: Git, pull_request: PullRequest) -> frozenset[str]:
    lines = git.text(
        "rev-list", "--objects", "--missing=allow-any", "--no-object-names", pull_request.base, pull_request.head
    )
    return frozenset(lines.splitlines())


def _check_out(work: Git, pull_request: PullRequest, missing: tuple[str, ...]) -> None:
    absent = {os.fsencode(path) for path in missing}
    work.run("read-tree", pull_request.head)
    if absent:
        work.run(
            "update-index", "-z", "--skip-worktree", "--stdin", stdin=b"".join(path + b"\0" for path in sorted(absent))
        )
    paths = b"".join(path + b"\0" for _, path, _ in _tree(work, pull_request.head) if path not in absent)
    try:
        work.run("checkout-index", "--index", "--quiet", "-z", "--stdin", stdin=paths)
    except GitError as error:
        raise InputError(
            f"head {pull_request.head} of {pull_request.key} cannot be checked out here: {error.message}",
            remedy="A path in it may not be allowed on this system",
        ) from None


def _open_up(repo: Path) -> None:
    """Let every user read and write (a+rwX), so that a container may run as anyone; and give files one age."""
    git_dir = repo / ".git"
    for folder, names, files in os.walk(repo):
        if Path(folder) == repo:
            names.remove(".git")
        for name in files + names:
            path = Path(folder) / name
            if path.is_symlink() or name in files:
                os.utime(path, (CHECKOUT_TIME, CHECKOUT_TIME), follow_symlinks=False)
    work = Git(git_dir, work_tree=repo)
    # Files that repository attributes normalise count as changed until their content is compared; 1 says so.
    work.run("update-index", "-q", "--really-refresh", allowed=(0, 1))
    for folder, names, files in os.walk(repo):
        for path in (Path(folder), *(Path(folder) / name for name in files + names)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                continue
            executable = stat.S_ISDIR(mode) or mode & 0o111
            path.chmod(stat.S_IMODE(mode) | (0o777 if executable else 0o666))


def _verify(work: Git, pull_request: PullRequest, reachable: frozenset[str]) -> None:
    """Raise unless the repository holds exactly the reachable objects, no ref, and a clean checkout of head."""
    names = work.text("cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered")
    held = frozenset(names.split())
    faults = []
    if held != reachable:
        faults.append(f"{len(held - reachable)} objects too many and {len(reachable - held)} too few")
    if work.text("for-each-ref"):
        faults.append("refs")
    if work.text("rev-parse", "HEAD") != pull_request.head:
        faults.append("another commit as HEAD")
    if work.run("status", "--porcelain", "-z", "--untracked-files=all", "--ignored", "--no-renames"):
        faults.append("a checkout that differs from head")
    for name in ("objects/info/alternates", "logs", "hooks", "FETCH_HEAD", "packed-refs", "shallow"):
        if (work.git_dir / name).exists():
            faults.append(name)
    if faults:
        raise UnavailableError(
            f"the snapshot of {pull_request.key} came out wrong: it holds {', '.join(faults)}",
            where=Where(file=str(work.git_dir)),
            remedy="Report this with the output of git --version",
        )
