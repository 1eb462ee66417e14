"""The folder of one attempt: made before the agent, measured while it runs, removed after it.

Only the farm's user enters it (mode 0700); the folders inside are open to every user, since an image may run as any.
Its name is made from the farm's name and the attempt id, so that a reaper needs nothing but the folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from crb_core.errors import InputError
from crb_worker.sandbox.contract import AttemptRequest

__all__ = [
    "AttemptFolder",
    "TooDeepError",
    "attempt_folders",
    "copy_pr_files",
    "copy_tree",
    "disk_usage",
    "remove_tree",
    "require_snapshot",
]

#: Deeper nesting than this is not measured: it hides what is in it from every tool that works with paths.
_MAX_DEPTH = 1000
#: Bytes that an entry costs beside its blocks: disks have an inode for every few KiB, and empty files use them up.
_ENTRY_BYTES = 4096
#: Opens a folder and nothing that took its place.
_FOLDER_ITSELF = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _prefix(farm: str) -> str:
    return hashlib.sha256(farm.encode()).hexdigest()[:12] + "."


class TooDeepError(Exception):
    """Folders are nested so deep that paths into them cannot be used."""


class AttemptFolder:
    """``out`` and ``pr`` always; ``upper`` and ``layer`` for an overlay, or ``repo`` for a copy; ``secrets`` if there

    are any.
    """

    def __init__(self, request: AttemptRequest) -> None:
        self.path = request.workspace / (_prefix(request.farm) + request.attempt_id)
        self.out = self.path / "out"
        self.upper = self.path / "upper"
        self.layer = self.path / "layer"
        self.repo = self.path / "repo"
        self.pr = self.path / "pr"
        self.secrets = self.path / "secrets"

    def create(self) -> None:
        """Make the folder and ``out``. FileExistsError if an earlier attempt of this id left one."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700)
        self.open_folder(self.out)

    def open_folder(self, path: Path) -> Path:
        """A folder inside that every user may write to, whatever the umask is."""
        path.mkdir()
        path.chmod(0o777)
        return path


def require_snapshot(request: AttemptRequest) -> None:
    """InputError if the snapshot that the request names is not whole."""
    for needed in (request.repo, request.pr_files / "diff.patch", request.pr_files / "pr.json"):
        if not needed.exists():
            raise InputError(
                f"the snapshot of {request.pull_request.key} is incomplete: {needed.name} is missing",
                remedy="Build it again: crb corpus snapshot",
            )


def attempt_folders(workspace: Path, farm: str) -> Iterator[tuple[str, Path]]:
    """(attempt id, folder) of every attempt of ``farm`` in ``workspace``."""
    prefix = _prefix(farm)
    if workspace.is_dir():
        for path in sorted(workspace.iterdir()):
            if path.name.startswith(prefix):
                yield path.name.removeprefix(prefix), path


def copy_tree(source: Path, target: Path) -> None:
    """Copy a checkout with its modes and links, sharing blocks where the file system can, never by hard links."""
    flags = ["-c", "-R", "-p"] if sys.platform == "darwin" else ["-a", "--reflink=auto"]
    done = subprocess.run(["cp", *flags, f"{source}/.", str(target)], capture_output=True, check=False)
    if done.returncode != 0:
        problem = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"the checkout cannot be copied: {problem[-1] if problem else 'cp failed'}")


def copy_pr_files(source: Path, target: Path) -> None:
    """Copy ``diff.patch`` and ``pr.json`` into the new folder ``target``, readable by every user.

    Each attempt has its own: with a lease on a shared file, an agent that runs as its owner would make everybody else
    who opens it wait, the farm included.
    """
    target.mkdir()
    for name in ("diff.patch", "pr.json"):
        shutil.copyfile(source / name, target / name)
        (target / name).chmod(0o444)
    target.chmod(0o755)


def disk_usage(*roots: Path, limit: int) -> int:
    """Bytes that the trees use on disk; measuring ends soon after ``limit`` is passed.

    Sparse files count what they occupy, hard links once. Folders that may not be read count nothing, and neither does
    what took a folder's place since it was listed, such as a link out of the tree. TooDeepError for folders that are
    nested too deep to be measured.
    """
    total = 0
    linked: set[tuple[int, int]] = set()
    pending: list[tuple[str, int, tuple[int, int] | None]] = [(str(root), 0, None) for root in roots]
    while pending:
        path, depth, expected = pending.pop()
        if depth > _MAX_DEPTH:
            raise TooDeepError
        try:
            folder = os.open(path, _FOLDER_ITSELF)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise TooDeepError from None
            continue
        try:
            itself = os.fstat(folder)
            if expected is None:
                total += itself.st_blocks * 512
            elif expected != (itself.st_dev, itself.st_ino):
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    identity = (status.st_dev, status.st_ino)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append((f"{path}/{entry.name}", depth + 1, identity))
                    elif status.st_nlink > 1:
                        if identity in linked:
                            continue
                        linked.add(identity)
                    total += status.st_blocks * 512 + _ENTRY_BYTES
                    if total > limit:
                        return total
        finally:
            os.close(folder)
    return total


def remove_tree(path: Path) -> bool:
    """Remove a folder with everything in it, however deep. False where something is left that only root may remove."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        # Somebody else removes it as well: what vanished may have been anywhere in it.
        if os.path.lexists(path):
            _rm(path)
    except PermissionError:
        # A folder that its owner locked: no more than a change of mode for its owner.
        subprocess.run(["chmod", "-R", "u+rwx", "--", str(path)], capture_output=True, check=False)
        _rm(path)
    except (OSError, RecursionError):
        _rm(path)
    return not os.path.lexists(path)


def _rm(path: Path) -> None:
    # It walks relative to folders, so that neither path length nor depth stops it.
    subprocess.run(["rm", "-rf", "--", str(path)], capture_output=True, check=False)
