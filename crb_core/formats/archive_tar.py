"""The container of ``crb.archive/1``: a plain tar whose every byte is decided by its content.

Regular files only, in a fixed order, mode 0644, no owner, time 0, names of at most 100 ASCII characters, two zero
blocks at the end and nothing after them. It is not compressed: compressors of other versions give other bytes, and a
damaged byte of a plain tar stays inside one file, which can then be named. Whoever wants it smaller compresses it as a
whole.

The reader takes nothing on trust. It rebuilds every header from name and size and compares all 512 bytes, so links,
devices, climbing names, sparse files and every changed byte are refused before anything is read, and nothing is ever
extracted.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from crb_core.corpus import canonical_json
from crb_core.errors import InputError, StoreError, Where

__all__ = [
    "FORMAT",
    "MANIFEST",
    "MAX_JSON_BYTES",
    "MAX_LINE_BYTES",
    "ArchiveReader",
    "ArchiveWriter",
    "LineSink",
    "Member",
    "content_digest",
    "manifest_bytes",
    "open_archive",
]

FORMAT = "crb.archive/1"
#: The last member: path, size and SHA-256 of every other one.
MANIFEST = "manifest.json"
#: Largest member that is parsed as one JSON document, in bytes.
MAX_JSON_BYTES = 256 * 1024 * 1024
#: Largest line of a JSON lines member, in bytes: one pull request with everything that one agent said of it.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: Most members; a full sweep of 20 builds has about 60,000 with its logs.
MAX_MEMBERS = 2_000_000

_BLOCK = 512
_CHUNK = 1024 * 1024
_MAX_MEMBER_BYTES = 8**11 - 1
_SPOOL_BYTES = 8 * 1024 * 1024
_NAME = re.compile(r"(?=.{1,100}\Z)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
}
_KINDS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a folder"}


@dataclass(frozen=True, kw_only=True)
class Member:
    """One file of an archive: where its content begins, and how many bytes it has."""

    path: str
    offset: int
    size: int


def content_digest(digests: Mapping[str, str]) -> str:
    """What names an archive: SHA-256 over ``path NUL sha256 LF`` of every file but the manifest, by path."""
    lines = "".join(f"{path}\0{digests[path]}\n" for path in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def manifest_bytes(files: Mapping[str, tuple[int, str]]) -> bytes:
    """The manifest of files, by path in archive order to (bytes, SHA-256)."""
    document = {
        "format": FORMAT,
        "content_sha256": content_digest({path: digest for path, (_, digest) in files.items()}),
        "files": [{"path": path, "bytes": size, "sha256": digest} for path, (size, digest) in files.items()],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _header(path: str, size: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.size = size
    return info.tobuf(format=tarfile.USTAR_FORMAT)


class LineSink:
    """A JSON lines member while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.lines = 0

    def add(self, value: Any) -> None:
        """One line of canonical JSON."""
        self._stream.write(canonical_json(value).encode() + b"\n")
        self.lines += 1


class ArchiveWriter:
    """Writes members one after the other; holds none of them in memory. ``finish`` writes the manifest and the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.files: dict[str, tuple[int, str]] = {}

    def add(self, path: str, data: bytes) -> None:
        """A member from bytes."""
        self._begin(path, len(data))
        self._stream.write(data)
        self._end(path, len(data), hashlib.sha256(data).hexdigest())

    def add_json(self, path: str, value: Any) -> None:
        """A member of one JSON document, indented for people, keys sorted."""
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
        self.add(path, text.encode() + b"\n")

    @contextmanager
    def lines(self, path: str) -> Iterator[LineSink]:
        """A member of JSON lines, kept in a temporary file until its size is known."""
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
            yield LineSink(spool)
            size = spool.tell()
            spool.seek(0)
            self._begin(path, size)
            digest = hashlib.sha256()
            while chunk := spool.read(_CHUNK):
                digest.update(chunk)
                self._stream.write(chunk)
            self._end(path, size, digest.hexdigest())

    def finish(self) -> str:
        """Write the manifest and the end; returns the archive's content digest."""
        data = manifest_bytes(self.files)
        self._stream.write(_header(MANIFEST, len(data)))
        self._stream.write(data)
        self._stream.write(bytes(-len(data) % _BLOCK) + bytes(2 * _BLOCK))
        return content_digest({path: digest for path, (_, digest) in self.files.items()})

    def _begin(self, path: str, size: int) -> None:
        if not _NAME.fullmatch(path) or path in self.files or path == MANIFEST:
            raise ValueError(f"{path!r} cannot be a member, or is one already")
        if size > _MAX_MEMBER_BYTES:
            raise StoreError(
                f"{path} would have {size} bytes, and a file of an archive has at most {_MAX_MEMBER_BYTES}",
                remedy="Export a smaller sweep",
            )
        self._stream.write(_header(path, size))

    def _end(self, path: str, size: int, digest: str) -> None:
        self._stream.write(bytes(-size % _BLOCK))
        self.files[path] = (size, digest)


class ArchiveReader:
    """Reads members of a scanned archive. ``members`` are in archive order, the manifest last."""

    def __init__(self, stream: IO[bytes], name: str, members: Mapping[str, Member]) -> None:
        self._stream = stream
        self.name = name
        self.members = members

    def digest(self, path: str) -> str:
        """SHA-256 (hex) of a member."""
        digest = hashlib.sha256()
        for chunk in self._chunks(self.members[path]):
            digest.update(chunk)
        return digest.hexdigest()

    def read(self, path: str, max_bytes: int = MAX_JSON_BYTES) -> bytes:
        """The bytes of a member; InputError where it is missing or larger than ``max_bytes``."""
        member = self._member(path)
        if member.size > max_bytes:
            raise InputError(f"the file has {member.size} bytes, more than {max_bytes}", where=self.at(path))
        return b"".join(self._chunks(member))

    def lines(self, path: str, max_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, bytes]]:
        """Line number (from 1) and bytes of every line, without its end. The last line has an end too."""
        rest = b""
        number = 0
        for chunk in self._chunks(self._member(path)):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                number += 1
                yield number, line
            if len(rest) > max_bytes:
                raise InputError(f"the line is longer than {max_bytes} bytes", where=self.at(path, number + 1))
        if rest:
            raise InputError("the last line is cut off", where=self.at(path, number + 1))

    def at(self, path: str, line: int | None = None, field: str | None = None) -> Where:
        """A place inside the archive, for errors."""
        return Where(file=path, line=line, field=field)

    def _member(self, path: str) -> Member:
        if path not in self.members:
            raise InputError("the archive lacks this file", where=self.at(path), remedy="Export the sweep again")
        return self.members[path]

    def _chunks(self, member: Member) -> Iterator[bytes]:
        self._stream.seek(member.offset)
        left = member.size
        while left:
            chunk = self._stream.read(min(_CHUNK, left))
            if not chunk:
                raise InputError("the archive became shorter while it was read", where=self.at(member.path))
            left -= len(chunk)
            yield chunk


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """Open an archive and scan its headers, names and paddings; contents are not read yet.

    InputError for a file that is no such tar: the message names the member, or the byte where it must begin.
    """
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            kind = "a folder" if path.is_dir() else "no regular file"
            raise InputError(f"this is {kind}, not an archive", where=Where(file=str(path)))
        with path.open("rb") as stream:
            yield ArchiveReader(stream, str(path), _scan(stream, str(path), path.stat().st_size))
    except FileNotFoundError:
        raise InputError("the file does not exist", where=Where(file=str(path)), remedy="Check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the file cannot be read: {reason}", where=Where(file=str(path))) from None


def _scan(stream: IO[bytes], name: str, total: int) -> dict[str, Member]:
    members: dict[str, Member] = {}
    _refuse_other_formats(stream, name)
    offset = 0
    while True:
        stream.seek(offset)
        block = stream.read(_BLOCK)
        if block == bytes(_BLOCK):
            break
        if len(block) < _BLOCK:
            raise _broken(name, offset, members, "the archive is cut off", "Copy it again")
        path, size = _read_header(block, name, offset, members)
        content = offset + _BLOCK
        end = content + size + -size % _BLOCK
        if end > total:
            raise _broken(
                name,
                offset,
                members,
                f"{path} says that it has {size} bytes, but the archive ends before",
                "Copy it again",
            )
        stream.seek(content + size)
        if any(stream.read(end - content - size)):
            raise InputError("bytes after the end of the file are not 0", where=Where(file=path), remedy=_REMEDY)
        members[path] = Member(path=path, offset=content, size=size)
        if len(members) > MAX_MEMBERS:
            raise _broken(name, offset, members, f"there are more than {MAX_MEMBERS} files", None)
        offset = end
    stream.seek(offset)
    tail = stream.read(2 * _BLOCK + 1)
    if tail != bytes(2 * _BLOCK):
        problem = "the archive is cut off" if len(tail) < 2 * _BLOCK else "the archive goes on after its end"
        raise _broken(name, offset, members, problem, _REMEDY)
    return members


_REMEDY = "The archive was changed or damaged after it was written; copy or export it again"


def _refuse_other_formats(stream: IO[bytes], name: str) -> None:
    start = stream.read(_BLOCK)
    if not start:
        raise InputError("the file is empty", where=Where(file=name))
    for magic, kind in _COMPRESSED.items():
        if start.startswith(magic):
            raise InputError(f"the file is compressed ({kind})", where=Where(file=name), remedy="Decompress it first")


def _read_header(block: bytes, name: str, offset: int, members: Mapping[str, Member]) -> tuple[str, int]:
    """Path and size of a header that is exactly what the writer writes."""
    path = block[:100].rstrip(b"\0").decode("ascii", "replace")
    shown = repr(path[:100])
    checksum = block[148:156]
    if not members and block[257:263] != b"ustar\0":
        raise _broken(name, offset, members, "this is no crb archive", _OURS)
    if checksum != b"%06o\0 " % (256 + sum(block[:148]) + sum(block[156:])):
        raise _broken(
            path if _NAME.fullmatch(path) else name, offset, members, f"the header of {shown} is damaged", _REMEDY
        )
    kind = block[156:157]
    if kind != b"0":
        raise _broken(name, offset, members, f"{shown} is {_KINDS.get(kind, 'no regular file')}", _FOREIGN)
    if not _NAME.fullmatch(path) or ".." in path:
        raise _broken(name, offset, members, f"{shown} is no name that a file of an archive can have", _FOREIGN)
    if path in members:
        raise _broken(name, offset, members, f"{shown} is there twice", _FOREIGN)
    size = block[124:136]
    if not re.fullmatch(rb"[0-7]{11}\0", size):
        raise _broken(name, offset, members, f"the size of {shown} cannot be read", _FOREIGN)
    if block != _header(path, int(size[:11], 8)):
        raise _broken(path, offset, members, f"the header of {shown} is not as crb writes it", _FOREIGN)
    return path, int(size[:11], 8)


_OURS = "Name a file that `crb export sweep` or `crb backup` wrote"
_FOREIGN = f"{_OURS}, unchanged"


def _broken(name: str, offset: int, members: Mapping[str, Member], problem: str, remedy: str | None) -> InputError:
    after = f", after {list(members)[-1]}" if members else ""
    return InputError(f"{problem} (byte {offset}{after})", where=Where(file=name), remedy=remedy)
