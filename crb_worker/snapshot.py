"""Frozen repositories: built once, verified, cached, never changed, given to attempts by copy or overlay.

A snapshot's repository holds what is reachable from base and head and nothing else: no remote, no refs (HEAD is
detached at head), no reflogs, hooks, alternates or later commits.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from crb_core.diff import DiffIndex
from crb_core.errors import UnavailableError, Where
from crb_core.pull_request import PullRequest
from crb_core.snapshot_cache import FORMAT, MARKER, snapshot_name, snapshot_request
from crb_worker.snapshot_build import build
from crb_worker.snapshot_sources import (
    GitUrlSource,
    MirrorSource,
    ShowcaseSource,
    SnapshotSource,
    source_for,
)

__all__ = [
    "CachedSnapshot",
    "GitUrlSource",
    "MirrorSource",
    "ShowcaseSource",
    "Snapshot",
    "SnapshotCache",
    "SnapshotSource",
    "source_for",
]

_LOCKS = ".locks"
_MAX_MARKER_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One frozen pull request on disk. Treat both folders as read-only: they are shared by all attempts.

    ``repo`` is the checkout at head with ``.git``; ``pr_files`` holds ``diff.patch`` (the three-dot diff base...head)
    and ``pr.json`` (the container contract, facts A5). ``missing`` are paths at head that the source lacks.
    """

    pull_request: PullRequest
    folder: Path
    merge_base: str
    missing: tuple[str, ...]

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def pr_files(self) -> Path:
        return self.folder / "pr"

    @cached_property
    def diff(self) -> DiffIndex:
        """The lines that the diff shows, for ``in_diff``."""
        path = self.pr_files / "diff.patch"
        return DiffIndex.parse(path.read_bytes(), str(path))


@dataclass(frozen=True, kw_only=True)
class CachedSnapshot:
    """An entry of the cache: bytes on disk, and when it was last asked for (seconds since the epoch)."""

    name: str
    size: int
    last_used: float


class SnapshotCache:
    """Snapshots under one folder, shared by threads and processes of one machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, source: SnapshotSource, pull_request: PullRequest) -> Snapshot:
        """The snapshot of a pull request, built if the cache has none or a damaged one.

        Raises CrbError where the source cannot give it or the cache cannot hold it.
        """
        found = self.find(pull_request)
        if found is not None:
            return found
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with self._lock(pull_request):
                return self.find(pull_request) or self._build(source, pull_request)
        except OSError as error:
            raise UnavailableError(
                f"the snapshot of {pull_request.key} cannot be written: {error.strerror or error}",
                where=Where(file=str(self.root)),
                remedy="Make room there, or make the folder writable",
            ) from None

    def entries(self) -> list[CachedSnapshot]:
        """What the cache holds, what cut-off builds left included."""
        found = []
        for folder in sorted(self.root.iterdir()) if self.root.is_dir() else []:
            if folder.name == _LOCKS or not folder.is_dir() or folder.is_symlink():
                continue
            lock = self.root / _LOCKS / folder.name
            used = max(path.stat().st_mtime for path in (folder, lock) if path.exists())
            found.append(CachedSnapshot(name=folder.name, size=_disk_bytes(folder), last_used=used))
        return found

    def remove(self, name: str) -> bool:
        """Remove an entry; the next attempt that needs it builds it again. False while it is being built."""
        folder = self.root / name
        (self.root / _LOCKS).mkdir(exist_ok=True)
        # A build's own folder is named after the entry whose lock it holds.
        entry = name.removeprefix(".").rpartition(".")[0] if name.startswith(".") else name
        with (self.root / _LOCKS / entry).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            doomed = self.root / f".{entry}.removed"
            with contextlib.suppress(FileNotFoundError):
                # Renamed first: nobody finds half of it.
                folder.rename(doomed)
            _remove(doomed)
        return not folder.exists()

    def entry_name(self, pull_request: PullRequest) -> str:
        """The name of a pull request's entry."""
        return self._folder(pull_request).name

    def find(self, pull_request: PullRequest) -> Snapshot | None:
        """The cached snapshot if it is there and undamaged: marker, HEAD, and every file's size, mode and time."""
        folder = self._folder(pull_request)
        try:
            marker = _read_marker(folder / MARKER)
            if marker.get("request") != snapshot_request(pull_request) or marker.get("listing") != _listing(folder):
                return None
            if (folder / "repo" / ".git" / "HEAD").read_text(encoding="ascii") != f"{pull_request.head}\n":
                return None
            if hashlib.sha256((folder / "pr" / "diff.patch").read_bytes()).hexdigest() != marker.get("diff_sha256"):
                return None
            self._mark_used(folder.name)
            return Snapshot(
                pull_request=pull_request,
                folder=folder,
                merge_base=marker["merge_base"],
                missing=tuple(marker["missing"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _mark_used(self, name: str) -> None:
        # On the lock's file: the entry itself never changes.
        with contextlib.suppress(OSError):
            os.utime(self.root / _LOCKS / name)

    def _folder(self, pull_request: PullRequest) -> Path:
        return self.root / snapshot_name(pull_request)

    def _build(self, source: SnapshotSource, pull_request: PullRequest) -> Snapshot:
        folder = self._folder(pull_request)
        # The lock is held, so what an earlier builder left behind belongs to nobody.
        for stale in self.root.glob(f".{folder.name}.*"):
            _remove(stale)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=self.root))
        try:
            built = build(temporary, source, pull_request)
            temporary.chmod(0o755)
            (temporary / "pr").chmod(0o755)
            for path in (temporary / "pr").iterdir():
                path.chmod(0o644)
            marker = {
                "format": FORMAT,
                "key": pull_request.key,
                "request": snapshot_request(pull_request),
                "merge_base": built.merge_base,
                "missing": list(built.missing),
                "diff_sha256": hashlib.sha256((temporary / "pr" / "diff.patch").read_bytes()).hexdigest(),
                "listing": _listing(temporary),
            }
            with (temporary / MARKER).open("w", encoding="utf-8") as file:
                json.dump(marker, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            _sync(temporary)
            if folder.exists() or folder.is_symlink():
                folder.rename(self.root / f".{folder.name}.damaged")
            temporary.rename(folder)
            _sync_folder(self.root)
        except BaseException:
            _remove(temporary)
            raise
        _remove(self.root / f".{folder.name}.damaged")
        return Snapshot(pull_request=pull_request, folder=folder, merge_base=built.merge_base, missing=built.missing)

    @contextlib.contextmanager
    def _lock(self, pull_request: PullRequest) -> Iterator[None]:
        """One builder an entry, over threads and processes; the kernel lets go of it when a builder dies."""
        locks = self.root / _LOCKS
        locks.mkdir(exist_ok=True)
        with (locks / self._folder(pull_request).name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _read_marker(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        data = json.loads(file.read(_MAX_MARKER_BYTES))
    if not isinstance(data, dict):
        raise ValueError("the marker is no object")
    return data


def _listing(folder: Path) -> str:
    """SHA-256 over path, kind, mode, size and modification time of everything but the marker: cheap, and enough to

    notice what is lost, cut off, replaced or edited.
    """
    digest = hashlib.sha256()
    for name in ("pr", "repo"):
        for line in sorted(_lines(os.fsencode(folder / name), name.encode())):
            digest.update(line)
    return digest.hexdigest()


def _lines(folder: bytes, name: bytes) -> Iterator[bytes]:
    yield name + b"\0/%o\n" % stat.S_IMODE(os.lstat(folder).st_mode)
    with os.scandir(folder) as entries:
        for entry in entries:
            path = name + b"/" + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _lines(entry.path, path)
                continue
            status = entry.stat(follow_symlinks=False)
            yield path + b"\0%o %d %d\n" % (status.st_mode, status.st_size, status.st_mtime_ns)


def _sync(folder: Path) -> None:
    """Flush what git does not flush itself. A work file that a crash truncates is noticed by its size."""
    for path in (folder / "repo" / ".git").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    for path in (folder / "repo" / ".git" / "objects" / "pack", folder / "repo" / ".git", folder / "repo", folder):
        _sync_folder(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _disk_bytes(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118
    return total


def _remove(path: Path) -> None:
    """Remove a folder of the cache, also if something in it was made read-only."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
