"""A backup of a whole store: every table and all evidence that its rows name, in one file.

The file is a tar as ``crb export sweep`` writes them (crb_core/formats/archive_tar.py): ``backup.json``, one JSON lines
file a table, one file a blob, and a manifest with the SHA-256 of each. It holds rows as JSON, so a backup of SQLite can
be restored into PostgreSQL and back. It is taken in one read transaction, while the farm works.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, Text, bindparam, cast, delete, func, insert, select, text
from sqlalchemy.exc import DataError, IntegrityError, OperationalError, ProgrammingError, StatementError

from crb_core.clock import utc_now
from crb_core.errors import InputError, StoreError, Where
from crb_core.evidence import ChangedEvidenceError, EvidenceStore
from crb_core.formats.archive_tar import (
    MANIFEST,
    ArchiveReader,
    ArchiveWriter,
    content_digest,
    manifest_bytes,
    open_archive,
)
from crb_core.store.archive_rows import freeze
from crb_core.store.references import ROWS_AT_ONCE, digests_in, is_json, request_parts, stored_rows, stored_tables
from crb_core.store.schema import HEAD, stored_revision, upgrade
from crb_core.store.session import Store

__all__ = ["FORMAT", "Backup", "restore_backup", "write_backup"]

FORMAT = "crb.backup/1"
#: What an unfinished backup may be written to for the last time, in seconds ago, before it counts as left behind.
UNFINISHED_SECONDS = 60.0
_ABOUT = "backup.json"
_CHANGES = "content_change"
#: Columns whose digests name blobs that must be there; other digests in rows name other things.
_BLOB_COLUMNS = {("attempt", "evidence"), ("judge_call", "request_digest"), ("judge_call", "answer_digest")}
#: Whose blobs name further blobs: the long texts of a judge's request are stored once for all requests.
_NAMES_FURTHER = ("judge_call", "request_digest")


@dataclass(frozen=True, kw_only=True)
class Backup:
    """What a backup holds: rows by table, blobs, and those that rows name but it does not have.

    ``missing_blobs`` were not in the evidence, ``damaged_blobs`` did not have their digest any more.
    """

    revision: str
    content_sha256: str
    rows: dict[str, int]
    blobs: int
    bytes: int
    missing_blobs: tuple[str, ...] = ()
    damaged_blobs: tuple[str, ...] = ()


def write_backup(store: Store, evidence: EvidenceStore, path: Path) -> Backup:
    """Write a backup to ``path``, which must not exist; nothing is at ``path`` unless it is complete.

    StoreError where the store, the evidence or the disk does not answer; InputError for a path that is taken.
    """
    if path.exists():
        raise InputError("there is a file already", where=Where(file=str(path)), remedy="Name a new file")
    revision = stored_revision(store)
    if revision is None:
        raise StoreError(f"The store {store.url} is empty", remedy="There is nothing to back up yet")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(path)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                # Tells a backup that is being made from what a killed one left.
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                backup = _write(store, evidence, ArchiveWriter(stream), revision)
                stream.flush()
                os.fsync(stream.fileno())
            # A link, unlike a rename, never takes the place of a file that appeared meanwhile.
            os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise InputError("there is a file already", where=Where(file=str(path)), remedy="Name a new file") from None
    except OSError as error:
        raise StoreError(
            f"The backup {path} cannot be written: {error.strerror}", remedy="Name a place with space that is writable"
        ) from error
    return backup


def _remove_unfinished(path: Path) -> None:
    """Remove what backups to this path left that were killed while they wrote."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with contextlib.suppress(OSError), left.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that is younger may have been made a moment ago and not be locked yet.
            if time.time() - left.stat().st_mtime > UNFINISHED_SECONDS:
                left.unlink()


def _write(store: Store, evidence: EvidenceStore, writer: ArchiveWriter, revision: str) -> Backup:
    rows: dict[str, int] = {}
    named: set[str] = set()
    required: set[str] = set()
    with store.read() as connection:
        freeze(connection)
        tables = stored_tables(connection)
        writer.add_json(
            _ABOUT,
            {
                "format": FORMAT,
                "schema": revision,
                "made_at": utc_now(),
                "store": store.engine.dialect.name,
                "tables": {table.name: [column.name for column in table.columns] for table in tables},
            },
        )
        for table in tables:
            with writer.lines(f"tables/{table.name}.jsonl") as sink:
                for row in stored_rows(connection, table):
                    sink.add(row)
                    for column, value in zip(table.columns, row, strict=True):
                        if isinstance(value, str):
                            digests = digests_in(value)
                            named.update(digests)
                            if (table.name, column.name) in _BLOB_COLUMNS:
                                required.update(digests)
                            if (table.name, column.name) == _NAMES_FURTHER:
                                named.update(
                                    each for digest in digests for each in request_parts(evidence, digest) or ()
                                )
            rows[table.name] = sink.lines
    # A blob is stored before the row that names it, so what the rows name was there when they were read.
    blobs = 0
    damaged = []
    for digest in sorted(named):
        if not evidence.has(digest):
            continue
        required.discard(digest)
        try:
            data = evidence.get(digest)
        except ChangedEvidenceError:
            damaged.append(digest)
            continue
        writer.add(f"evidence/{digest}", data)
        blobs += 1
    content = writer.finish()
    return Backup(
        revision=revision,
        content_sha256=content,
        rows=rows,
        blobs=blobs,
        bytes=sum(size for size, _ in writer.files.values()),
        missing_blobs=tuple(sorted(required)),
        damaged_blobs=tuple(damaged),
    )


def restore_backup(path: Path, store: Store, evidence: EvidenceStore) -> Backup:
    """Restore a backup into a store that has no rows yet; all of it or nothing.

    Every byte is checked against the manifest first. Steps that ran when the backup was taken are given back by the
    reconciler, as after a crash. InputError for a damaged or foreign file, StoreError for a store that is in use.
    """
    with open_archive(path) as reader:
        about, files, content = _verified(reader)
        _require_target(store, about["schema"])
        upgrade(store, about["schema"])
        blobs = [name for name in files if name.startswith("evidence/")]
        # Blob before row, as always.
        for name in blobs:
            if evidence.put(reader.read(name)) != name.removeprefix("evidence/"):
                raise InputError("the blob does not have the SHA-256 that it is named by", where=reader.at(name))
        with store.write() as connection:
            tables = stored_tables(connection)
            _require_same_tables(about, tables, reader)
            _require_no_rows(store, connection, tables)
            # Last: triggers note every row that is inserted, and the log is to be that of the backup.
            tables.sort(key=lambda table: table.name == _CHANGES)
            rows = {table.name: _insert(connection, table, reader) for table in tables}
            _advance_sequences(connection, tables)
            required = _required_digests(connection, tables)
    upgrade(store)
    return Backup(
        revision=about["schema"],
        content_sha256=content,
        rows=rows,
        blobs=len(blobs),
        bytes=sum(size for size, _ in files.values()),
        missing_blobs=tuple(sorted(digest for digest in required if not evidence.has(digest))),
    )


def _verified(reader: ArchiveReader) -> tuple[dict[str, Any], dict[str, tuple[int, str]], str]:
    """What the backup says of itself, and its files, after every byte was compared with the manifest."""
    remedy = "Take another copy of the backup, or another backup"
    if _ABOUT not in reader.members or MANIFEST not in reader.members:
        raise InputError(
            "this is no backup of crb", where=Where(file=reader.name), remedy="Name a file that `crb backup` wrote"
        )
    files = {name: (member.size, reader.digest(name)) for name, member in reader.members.items() if name != MANIFEST}
    stated = reader.read(MANIFEST)
    if stated != manifest_bytes(files):
        changed = _changed_file(stated, {name: digest for name, (_, digest) in files.items()})
        raise InputError("the backup was changed or damaged", where=reader.at(changed), remedy=remedy)
    try:
        about = json.loads(reader.read(_ABOUT))
        if about["format"] != FORMAT:
            raise ValueError(about["format"])
        tables = about["tables"]
        wanted = {f"tables/{table}.jsonl" for table in tables}
    except (ValueError, KeyError, TypeError):
        raise InputError(f"this is no {FORMAT}", where=reader.at(_ABOUT), remedy=remedy) from None
    found = {name for name in files if name.startswith("tables/")}
    if found != wanted or not isinstance(about.get("schema"), str):
        raise InputError("the tables are not those that the backup names", where=reader.at(_ABOUT), remedy=remedy)
    return about, files, json.loads(stated)["content_sha256"]


def _changed_file(stated: bytes, digests: dict[str, str]) -> str:
    """The first file that is not what the manifest states; the manifest where all of them are what it was made for."""
    try:
        manifest = json.loads(stated)
        listed = {entry["path"]: entry["sha256"] for entry in manifest["files"]}
        whole = manifest["content_sha256"]
    except (ValueError, KeyError, TypeError):
        return MANIFEST
    if whole == content_digest(digests):
        return MANIFEST
    return next((name for name, digest in digests.items() if listed.get(name) != digest), MANIFEST)


def _require_target(store: Store, revision: str) -> None:
    if revision > HEAD:
        raise InputError(
            f"the backup was written by a newer version of crb (schema {revision}, this one knows {HEAD})",
            where=Where(file=_ABOUT),
            remedy="Install that version to restore it",
        )
    current = stored_revision(store)
    if current not in {None, revision}:
        raise StoreError(
            f"The store {store.url} has schema {current}, and the backup has {revision}",
            remedy="Restore into an empty place: set CRB_HOME, or CRB_STORE_URL, to one",
        )


def _require_no_rows(store: Store, connection: Connection, tables: Iterable[Table]) -> None:
    for table in tables:
        if connection.execute(select(func.count()).select_from(table)).scalar_one():
            raise StoreError(
                f"The store {store.url} already has rows ({table.name})",
                remedy="Restore into an empty place: set CRB_HOME, or CRB_STORE_URL, to one",
            )


def _require_same_tables(about: dict[str, Any], tables: Sequence[Table], reader: ArchiveReader) -> None:
    for table in tables:
        if set(about["tables"].get(table.name, ())) != {column.name for column in table.columns}:
            raise InputError(
                f"the backup's table {table.name} is not that of schema {about['schema']}", where=reader.at(_ABOUT)
            )
    if len(about["tables"]) != len(tables):
        raise InputError(f"the backup has other tables than schema {about['schema']}", where=reader.at(_ABOUT))


def _required_digests(connection: Connection, tables: Iterable[Table]) -> set[str]:
    """The blobs that rows say they have."""
    columns = [column for table in tables for column in table.columns if (table.name, column.name) in _BLOB_COLUMNS]
    return {
        digest
        for column in columns
        for value in connection.execute(select(cast(column, Text)).where(column.is_not(None))).scalars()
        for digest in digests_in(value or "")
    }


def _insert(connection: Connection, table: Table, reader: ArchiveReader) -> int:
    member = f"tables/{table.name}.jsonl"
    names = json.loads(reader.read(_ABOUT))["tables"][table.name]
    values: dict[str, Any] = {}
    for column in table.columns:
        if not is_json(column):
            values[column.name] = bindparam(column.name, type_=column.type)
        elif connection.dialect.name == "sqlite":
            # SQLite keeps JSON as text; a cast to JSON would make a number of it.
            values[column.name] = bindparam(column.name, type_=Text)
        else:
            values[column.name] = cast(bindparam(column.name, type_=Text), column.type)
    if table.name == _CHANGES:
        connection.execute(delete(table))
    statement = insert(table).values(values)
    count = 0
    batch: list[dict[str, Any]] = []
    for number, line in reader.lines(member):
        row = _row(line, names)
        if row is None:
            raise InputError("this is no row of the table", where=reader.at(member, number))
        batch.append(row)
        if len(batch) >= ROWS_AT_ONCE:
            count += _insert_batch(connection, statement, batch, reader.at(member))
            batch = []
    if batch:
        count += _insert_batch(connection, statement, batch, reader.at(member))
    return count


def _insert_batch(connection: Connection, statement: Any, batch: list[dict[str, Any]], where: Where) -> int:
    try:
        connection.execute(statement, batch)
    except (IntegrityError, DataError, ProgrammingError, StatementError, UnicodeEncodeError, OverflowError) as error:
        if isinstance(error, OperationalError):
            raise
        raise InputError(
            f"the database takes no such rows: {str(getattr(error, 'orig', None) or error).splitlines()[0]}",
            where=where,
            remedy="Take another copy of the backup, or another backup; nothing was restored",
        ) from None
    return len(batch)


def _row(line: bytes, names: Sequence[str]) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, list) or len(row) != len(names) or any(isinstance(value, list | dict) for value in row):
        return None
    return dict(zip(names, row, strict=True))


def _advance_sequences(connection: Connection, tables: Iterable[Table]) -> None:
    """PostgreSQL numbers rows from a sequence that does not notice rows that bring their number along."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        for column in table.primary_key.columns:
            name = connection.execute(
                text("SELECT pg_get_serial_sequence(:table, :column)"),
                {"table": f'"{table.name}"', "column": column.name},
            ).scalar_one()
            last = connection.execute(select(func.max(column))).scalar_one()
            if name is not None and last is not None:
                connection.execute(text("SELECT setval(:name, :last)"), {"name": name, "last": last})
