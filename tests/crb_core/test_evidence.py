"""Evidence is found, listed and removed alike in a folder and in an object store."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.errors import StoreError
from crb_core.evidence import EvidenceStore, FolderEvidence, open_evidence


@pytest.fixture(params=["folder", "object"])
def evidence(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EvidenceStore]:
    if request.param == "folder":
        yield open_evidence((tmp_path / "evidence").as_uri())
    else:
        yield open_evidence(f"memory://{uuid.uuid4().hex}")


def test_blobs_are_listed_with_digest_and_size(evidence: EvidenceStore) -> None:
    """Each blob once, however often it was put."""
    first, second = evidence.put(b"one"), evidence.put(b"three")
    evidence.put(b"one")
    assert sorted((blob.digest, blob.size) for blob in evidence.blobs()) == sorted([(first, 3), (second, 5)])
    assert all(blob.stored_at is not None and abs(time.time() - blob.stored_at) < 600 for blob in evidence.blobs())


def test_a_removed_blob_is_gone(evidence: EvidenceStore) -> None:
    """Removing twice is no error; reading it says that it is missing."""
    digest = evidence.put(b"one")
    (blob,) = evidence.blobs()
    assert evidence.has(digest)
    evidence.remove(blob)
    evidence.remove(blob)
    assert not evidence.has(digest)
    assert evidence.stored_at(digest) is None
    with pytest.raises(StoreError, match="missing"):
        evidence.get(digest)


def test_an_empty_store_lists_nothing(evidence: EvidenceStore) -> None:
    """No folder yet is no error."""
    assert list(evidence.blobs()) == []


def test_a_name_that_is_no_digest(evidence: EvidenceStore) -> None:
    """No path leads out of the evidence."""
    with pytest.raises(StoreError, match="not a SHA-256"):
        evidence.has("../../etc/passwd")


def test_putting_again_makes_young(tmp_path: Path) -> None:
    """A blob that a new row is about to name must not look old to `crb gc`."""
    evidence = FolderEvidence(tmp_path)
    digest = evidence.put(b"one")
    (path,) = tmp_path.glob("*/*")
    os.utime(path, (1000, 1000))
    assert evidence.stored_at(digest) == 1000
    evidence.put(b"one")
    assert time.time() - (evidence.stored_at(digest) or 0) < 600


def test_a_cut_off_write_is_listed_without_a_digest(tmp_path: Path) -> None:
    """What a killed writer left is found, so that it can be removed; other files are none of ours."""
    evidence = FolderEvidence(tmp_path)
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / ".new-xyz").write_bytes(b"half")
    (tmp_path / "ab" / "notes.txt").write_bytes(b"somebody's")
    (blob,) = evidence.blobs()
    assert (blob.digest, blob.size) == (None, 4)
    evidence.remove(blob)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["notes.txt"]
