"""Evidence is found, listed and removed alike in a folder and in an object store."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.errors import StoreError
from crb_core.evidence import EvidenceStore, FolderEvidence, MissingEvidenceError, open_evidence
from crb_core.settings import Settings


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


@pytest.mark.parametrize("name", ["my farm", "Prüfstand", "100% #1", "what?"])
def test_a_folder_of_any_name_is_the_one_that_is_meant(tmp_path: Path, name: str) -> None:
    """A URL escapes blanks and letters; the folder is the one beside the store, not one of the escaped name."""
    home = tmp_path / name
    home.mkdir()
    digest = open_evidence(Settings(home=home).resolved_evidence_url).put(b"one")
    assert [path.name for path in home.glob("evidence/*/*")] == [digest]
    assert list(tmp_path.iterdir()) == [home]
    assert open_evidence(str(home / "evidence")).get(digest) == b"one"


def test_what_lies_under_an_escaped_name_is_still_found(tmp_path: Path) -> None:
    """Earlier versions took the escapes of the URL for the folder's name."""
    old = FolderEvidence(tmp_path / "my%20farm")
    digest = old.put(b"one")
    assert open_evidence((tmp_path / "my farm").as_uri()).get(digest) == b"one"


def test_a_blob_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    """Putting the same content mends what a failing disk left; nobody would have to restore it."""
    evidence = FolderEvidence(tmp_path)
    digest = evidence.put(b"everything")
    path = tmp_path / digest[:2] / digest
    path.chmod(0o644)
    path.write_bytes(b"every")
    with pytest.raises(StoreError, match="does not have that SHA-256"):
        evidence.get(digest)
    assert evidence.put(b"everything") == digest
    assert evidence.get(digest) == b"everything"


def test_what_cannot_be_read_is_not_missing(tmp_path: Path) -> None:
    """A blob that is there must not be reported as gone: an export would leave it out."""
    evidence = FolderEvidence(tmp_path)
    digest = evidence.put(b"one")
    with pytest.raises(MissingEvidenceError, match="is missing from"):
        evidence.get("0" * 64)
    path = tmp_path / digest[:2] / digest
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match="is there, but cannot be read: Is a directory") as caught:
        evidence.get(digest)
    assert not isinstance(caught.value, MissingEvidenceError)


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
