"""Evidence: immutable blobs named by their SHA-256 (seed B, content-addressed evidence)."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Protocol
from urllib.parse import urlparse

from crb_core.errors import StoreError

__all__ = ["EvidenceStore", "FolderEvidence", "ObjectEvidence", "open_evidence"]

_DIGEST = re.compile(r"^[0-9a-f]{64}$")


class EvidenceStore(Protocol):
    """Puts and gets blobs. A blob is stored before any row that names it, and is verified when it is read."""

    def put(self, data: bytes) -> str:
        """Store a blob and return its SHA-256 (hex)."""

    def get(self, digest: str) -> bytes:
        """The blob; StoreError when it is missing or does not have that digest."""


def open_evidence(url: str) -> EvidenceStore:
    """A folder for ``file:`` URLs, otherwise any file system that fsspec knows (S3 with its own extra)."""
    parsed = urlparse(url)
    if parsed.scheme in {"", "file"}:
        return FolderEvidence(Path(parsed.path))
    return ObjectEvidence(url)


def _checked(digest: str, data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(
            f"Evidence {digest} does not have that SHA-256 any more",
            remedy="Restore the blob from a backup; results that name it cannot be audited",
        )
    return data


def _require_digest(digest: str) -> None:
    if not _DIGEST.match(digest):
        raise StoreError(f"{digest!r} is not a SHA-256 in lower-case hex", remedy="Name evidence by its digest")


class FolderEvidence:
    """Blobs in a local folder, two levels deep. Written to a temporary file, flushed to disk, then renamed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        target = self._path(digest)
        if target.exists():
            return digest
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")
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
        except OSError as error:
            raise StoreError(
                f"Evidence {digest} is missing from {self.root}", remedy="Restore the blob from a backup"
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
        if not self._files.exists(path):
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._files.pipe_file(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        _require_digest(digest)
        try:
            return _checked(digest, bytes(self._files.cat_file(f"{self._root}/{digest[:2]}/{digest}")))
        except FileNotFoundError as error:
            raise StoreError(f"Evidence {digest} is missing", remedy="Restore the blob from a backup") from error
