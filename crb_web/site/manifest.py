"""``crb.site/1``: the manifest of an exported site, and the check of a folder against it.

``manifest.json`` names every other file with its size and SHA-256, by path. Files under ``assets/``, ``data/`` and
``evidence/`` are named by the SHA-256 of their own content as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crb_core.errors import InputError, Where
from crb_core.formats.archive_report import Difference
from crb_core.formats.archive_tar import content_digest
from crb_core.formats.strict_json import load_json

__all__ = ["FORMAT", "MANIFEST", "CheckedSite", "manifest_bytes", "verify_site"]

FORMAT = "crb.site/1"
MANIFEST = "manifest.json"
#: Folders whose files are named by their content.
NAMED_BY_CONTENT = ("assets/", "data/", "evidence/")

_CHUNK = 1024 * 1024
_MAX_MANIFEST = 256 * 1024 * 1024
_PATH = re.compile(r"(?=.{1,200}\Z)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,3}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CheckedSite:
    """What a check found: files and bytes that are as the manifest says, and every difference."""

    content_sha256: str | None
    files: int
    bytes: int
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "crb.site-verification/1",
            "ok": self.ok,
            "content_sha256": self.content_sha256,
            "files": self.files,
            "bytes": self.bytes,
            "differences": [each.to_json() for each in self.differences],
        }


def manifest_bytes(files: Mapping[str, tuple[int, str]]) -> bytes:
    """The manifest of files, by path to (bytes, SHA-256); sorted."""
    document = {
        "format": FORMAT,
        "content_sha256": content_digest({path: digest for path, (_, digest) in files.items()}),
        "files": [{"path": path, "bytes": files[path][0], "sha256": files[path][1]} for path in sorted(files)],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def verify_site(folder: Path) -> CheckedSite:
    """Check every file of an exported site. InputError where the folder or its manifest cannot be read as one."""
    data = _manifest_of(folder)
    files = _listed(data)
    differences: list[Difference] = []
    digest = content_digest({path: each for path, (_, each) in files.items()})
    if manifest_bytes(files) != data:
        raise _wrong("the manifest was changed: it does not agree with its own digest")
    present = dict(_walk(folder))
    present.pop(MANIFEST, None)
    for path in sorted(present.keys() - files.keys()):
        differences.append(Difference(file=path, problem="the folder holds this file, but the manifest does not"))
    sound = size_in_all = 0
    for path, (size, expected) in files.items():
        mode = present.get(path)
        if mode is None:
            problem = "the manifest lists this file, but the folder lacks it"
        elif not stat.S_ISREG(mode):
            problem = "this is no regular file"
        else:
            found_size, found = _digest(folder / path)
            problem = "" if (found_size, found) == (size, expected) else f"the content has SHA-256 {found}"
            if not problem and path.startswith(NAMED_BY_CONTENT) and Path(path).name.split(".")[0] != found:
                problem = "the file is not named by its content"
        if problem:
            differences.append(Difference(file=path, problem=problem))
        else:
            sound += 1
            size_in_all += size
    return CheckedSite(digest, sound, size_in_all, tuple(differences))


def _manifest_of(folder: Path) -> bytes:
    path = folder / MANIFEST
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > _MAX_MANIFEST:
            raise _wrong("this is no manifest of a site")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            "the folder has no manifest.json",
            where=Where(file=str(folder)),
            remedy="Name a folder that `crb export site` wrote, or an archive of `crb export sweep`",
        ) from None
    except OSError as error:
        raise _wrong(f"the manifest cannot be read: {error.strerror}") from None


def _listed(data: bytes) -> dict[str, tuple[int, str]]:
    """By path the size and SHA-256 that the manifest names; every name is one that the export can have written."""
    document = load_json(data, MANIFEST, max_bytes=_MAX_MANIFEST)
    if (
        not isinstance(document, dict)
        or document.get("format") != FORMAT
        or not isinstance(document.get("files"), list)
    ):
        raise _wrong(f"this is no manifest of the format {FORMAT}")
    files: dict[str, tuple[int, str]] = {}
    for each in document["files"]:
        path, size, digest = (
            (each.get("path"), each.get("bytes"), each.get("sha256")) if isinstance(each, dict) else (None, None, None)
        )
        if not (
            isinstance(path, str)
            and _PATH.fullmatch(path)
            and path != MANIFEST
            and isinstance(size, int)
            and not isinstance(size, bool)
            and size >= 0
            and isinstance(digest, str)
            and _SHA256.fullmatch(digest)
        ):
            raise _wrong(f"an entry is no file of a site: {json.dumps(each)[:200]}")
        files[path] = (size, digest)
    return files


def _walk(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and mode of everything below that is no folder; links are never followed."""

    def failed(error: OSError) -> None:
        raise InputError(f"the folder cannot be read: {error.strerror}", where=Where(file=str(error.filename)))

    for at, folders, names in os.walk(folder, onerror=failed):
        # A link to a folder is listed among the folders, and not entered.
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(at) / name
            yield path.relative_to(folder).as_posix(), path.lstat().st_mode


def _digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=Where(file=str(path))) from None
    return size, digest.hexdigest()


def _wrong(problem: str) -> InputError:
    return InputError(problem, where=Where(file=MANIFEST), remedy="Export the site again")
