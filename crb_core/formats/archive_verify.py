"""Verifying ``crb.archive/1``: every digest, every identity and every number, from the archive alone.

Two passes. First the container: headers, manifest, the SHA-256 of every file; a damaged file is named and nothing is
made of it. Then the content (``archive_content``): ids and fingerprints are taken again over what they are said to
cover, findings are compared with the evidence that the agent left, and claims, metrics, rounds, rows and durations are
made anew.
"""

from __future__ import annotations

from pathlib import Path

from crb_core.errors import InputError, Where
from crb_core.formats.archive_content import Content
from crb_core.formats.archive_records import ManifestRecord, read_document
from crb_core.formats.archive_report import Difference, Verification
from crb_core.formats.archive_tar import MANIFEST, ArchiveReader, content_digest, manifest_bytes, open_archive

__all__ = ["verify_archive"]

#: Is in every backup (crb_core/store/backup.py) and in no archive.
_BACKUP = "backup.json"


def verify_archive(path: Path) -> Verification:
    """Check an archive. Never raises for what is in the file: whatever is wrong with it is a difference."""
    verification = Verification(archive=path.name)
    with verification.noted(path.name), open_archive(path) as archive:
        _check_container(archive, verification)
        if _BACKUP in archive.members:
            raise InputError(
                "this is a backup of a store, not an archive of a sweep",
                where=Where(file=path.name),
                remedy="`crb restore` checks it and restores it",
            )
        if verification.ok:
            Content(archive, verification).check()
    return verification


def _check_container(archive: ArchiveReader, verification: Verification) -> None:
    """The manifest against the members: names, order, sizes and digests."""
    manifest = read_document(archive, MANIFEST, ManifestRecord)
    files = {each.path: (each.bytes, each.sha256) for each in manifest.files}
    digests = {name: digest for name, (_, digest) in files.items()}
    if (
        len(files) != len(manifest.files)
        or manifest.content_sha256 != content_digest(digests)
        or archive.read(MANIFEST) != manifest_bytes(files)
    ):
        raise InputError("the manifest was changed: it does not agree with its own digest", where=Where(file=MANIFEST))
    verification.content_sha256 = manifest.content_sha256
    members = [name for name in archive.members if name != MANIFEST]
    for name in files:
        if name not in archive.members:
            verification.add(Difference(file=name, problem="the manifest lists this file, but the archive lacks it"))
    for name in members:
        if name not in files:
            verification.add(Difference(file=name, problem="the archive holds this file, but the manifest does not"))
    if verification.ok and (members != list(files) or list(archive.members)[-1] != MANIFEST):
        raise InputError("the files are not in the manifest's order", where=Where(file=MANIFEST))
    for name, (size, digest) in files.items():
        if name not in archive.members:
            continue
        if archive.members[name].size != size:
            verification.differs(name, "the size is not the manifest's", size, archive.members[name].size)
        elif (found := archive.digest(name)) != digest:
            verification.differs(name, "the content is not what the manifest's SHA-256 says", digest, found)
        verification.files += 1
        verification.bytes += size
