"""Evidence: immutable blobs named by their SHA-256 (seed B, content-addressed evidence)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from crb_core.errors import StoreError

__all__ = [
    "YOUNG_SECONDS",
    "Blob",
    "ChangedEvidenceError",
    "EvidenceStore",
    "FolderEvidence",
    "MissingEvidenceError",
    "ObjectEvidence",
    "evidence_folder",
    "open_evidence",
]

_DIGEST = re.compile(r"^[0-9a-f]{64}$")
_UNFINISHED = ".new-"
#: A blob younger than this may be about to be named by a row, and is never removed.
YOUNG_SECONDS = 3600.0


class ChangedEvidenceError(StoreError):
    """A blob whose content is not what its name says."""


class MissingEvidenceError(StoreError):
    """There is no blob of that name."""


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A stored blob. ``stored_at`` is seconds since the epoch, None where the file system does not say.

    ``digest`` is None for what a write that was cut off left behind.
    """

    path: str
    digest: str | None
    size: int
    stored_at: float | None


class EvidenceStore(Protocol):
    """Puts and gets blobs. A blob is stored before any row that names it, and is verified when it is read."""

    def put(self, data: bytes) -> str:
        """Store a blob and return its SHA-256 (hex)."""

    def get(self, digest: str) -> bytes:
        """The blob; StoreError when it is missing or does not have that digest."""

    def has(self, digest: str) -> bool:
        """Whether there is a blob of that name; its content is not looked at."""

    def stored_at(self, digest: str) -> float | None:
        """When a blob was put last (seconds since the epoch); None where it is gone or nobody knows."""

    def blobs(self) -> Iterator[Blob]:
        """Every blob, in no order."""

    def remove(self, blob: Blob) -> None:
        """Remove one; nothing happens where it is gone."""


def open_evidence(url: str) -> EvidenceStore:
    """A folder for ``file:`` URLs, otherwise any file system that fsspec knows (S3 with its own extra)."""
    folder = evidence_folder(url)
    return ObjectEvidence(url) if folder is None else FolderEvidence(folder)


def evidence_folder(url: str) -> Path | None:
    """The local folder that a ``file:`` URL or a plain path names; None for any other URL."""
    scheme = urlparse(url).scheme
    if not scheme:
        return Path(url)
    if scheme != "file":
        return None
    written = urlparse(url).path
    folder = Path(unquote(written))
    # Earlier versions took the URL's escapes for the name; what they stored is still there.
    return Path(written) if Path(written).is_dir() and not folder.is_dir() else folder


def _checked(digest: str, data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != digest:
        raise ChangedEvidenceError(
            f"Evidence {digest} does not have that SHA-256 any more",
            remedy="Restore the blob from a backup; results that name it cannot be audited",
        )
    return data


def _unreadable(digest: str, error: OSError) -> StoreError:
    return StoreError(
        f"Evidence {digest} is there, but cannot be read: {error.strerror or type(error).__name__}",
        remedy="Make it readable to this user, or mend the store behind CRB_EVIDENCE_URL",
    )


def _require_digest(digest: str) -> None:
    if not _DIGEST.match(digest):
        raise StoreError(f"{digest!r} is not a SHA-256 in lower-case hex", remedy="Name evidence by its digest")


def _stored_at(facts: dict[str, Any]) -> float | None:
    # S3 calls it LastModified, others modified, mtime or created.
    when = facts.get("LastModified") or facts.get("modified") or facts.get("mtime") or facts.get("created")
    return when.timestamp() if isinstance(when, datetime) else when


class FolderEvidence:
    """Blobs in a local folder, two levels deep. Written to a temporary file, flushed to disk, then renamed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        target = self._path(digest)
        # A blob that is named once more is young again, so that `crb gc` leaves it alone until its row is there.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            os.utime(target)
        # One that was cut short, as by a full or failing disk, is written again.
        with contextlib.suppress(OSError):
            if target.stat().st_size == len(data):
                return digest
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=_UNFINISHED)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                Path(name).chmod(0o444)
                Path(name).rename(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StoreError(
                f"Evidence cannot be written to {self.root}: {error.strerror}",
                remedy="Free space there or set CRB_EVIDENCE_URL to a place that can be written",
            ) from error
        return digest

    def get(self, digest: str) -> bytes:
        _require_digest(digest)
        try:
            return _checked(digest, self._path(digest).read_bytes())
        except FileNotFoundError as error:
            raise MissingEvidenceError(
                f"Evidence {digest} is missing from {self.root}", remedy="Restore the blob from a backup"
            ) from error
        except OSError as error:
            raise _unreadable(digest, error) from error

    def has(self, digest: str) -> bool:
        _require_digest(digest)
        return self._path(digest).is_file()

    def stored_at(self, digest: str) -> float | None:
        _require_digest(digest)
        try:
            return self._path(digest).stat().st_mtime
        except FileNotFoundError:
            return None

    def blobs(self) -> Iterator[Blob]:
        for path in sorted(self.root.glob("[0-9a-f][0-9a-f]/*")):
            named = bool(_DIGEST.match(path.name))
            if not named and not path.name.startswith(_UNFINISHED):
                continue
            # One that goes meanwhile is none.
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                yield Blob(
                    path=str(path),
                    digest=path.name if named else None,
                    size=status.st_size,
                    stored_at=status.st_mtime,
                )

    def remove(self, blob: Blob) -> None:
        try:
            Path(blob.path).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"Evidence {blob.path} cannot be removed: {error.strerror}", remedy="Run as the user who owns it"
            ) from error

    def _path(self, digest: str) -> Path:
        return self.root / digest[:2] / digest


class ObjectEvidence:
    """Blobs in an object store through fsspec."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self._files, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StoreError(
                f"The evidence URL {url} cannot be used: {error}",
                remedy="Set CRB_EVIDENCE_URL to a file: or s3: URL and install the library that it needs",
            ) from error
        self._root = str(root).rstrip("/")

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        path = f"{self._root}/{digest[:2]}/{digest}"
        if not self._is_young(path):
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._files.pipe_file(path, data)
        return digest

    def _is_young(self, path: str) -> bool:
        """Whether it is there and `crb gc` leaves it alone until a row names it; an older one is written again."""
        stored_at = self._stored_at(path)
        return stored_at is not None and time.time() - stored_at < YOUNG_SECONDS / 2

    def get(self, digest: str) -> bytes:
        _require_digest(digest)
        try:
            return _checked(digest, bytes(self._files.cat_file(f"{self._root}/{digest[:2]}/{digest}")))
        except FileNotFoundError as error:
            raise MissingEvidenceError(
                f"Evidence {digest} is missing", remedy="Restore the blob from a backup"
            ) from error
        except OSError as error:
            raise _unreadable(digest, error) from error

    def stored_at(self, digest: str) -> float | None:
        _require_digest(digest)
        return self._stored_at(f"{self._root}/{digest[:2]}/{digest}")

    def _stored_at(self, path: str) -> float | None:
        try:
            return _stored_at(self._files.info(path))
        except FileNotFoundError:
            return None

    def has(self, digest: str) -> bool:
        _require_digest(digest)
        return bool(self._files.isfile(f"{self._root}/{digest[:2]}/{digest}"))

    def blobs(self) -> Iterator[Blob]:
        for path, facts in self._files.find(self._root, detail=True).items():
            name = str(path).rsplit("/", 1)[-1]
            if _DIGEST.match(name):
                yield Blob(path=str(path), digest=name, size=int(facts["size"]), stored_at=_stored_at(facts))

    def remove(self, blob: Blob) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(blob.path)
