"""A backup holds every row and blob, is taken while the farm writes, and comes back whole or not at all."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, insert, select, update

from crb_core.agent import Outcome
from crb_core.errors import InputError, StoreError
from crb_core.evidence import FolderEvidence
from crb_core.formats.archive_verify import verify_archive
from crb_core.store import Store, open_store
from crb_core.store.backup import restore_backup, write_backup
from crb_core.store.references import named_digests, stored_rows, stored_tables
from crb_core.store.schema import HEAD, stored_revision, upgrade
from crb_core.store.tables import AttemptRow, CandidateRow, TrialRow, core
from tests.crb_core.store.planned import plan

attempts = core(AttemptRow)


def content(store: Store) -> dict[str, list[list[object]]]:
    with store.read() as connection:
        return {table.name: list(stored_rows(connection, table)) for table in stored_tables(connection)}


def empty(tmp_path: Path, name: str = "restored") -> Store:
    return open_store(f"sqlite:///{tmp_path / name / 'crb.sqlite'}", migrate=False)


def run_one(store: Store, evidence: FolderEvidence) -> str:
    """A sweep with one finished review, one that runs, and awkward values; returns the evidence's digest."""
    planned = plan(store, pull_requests=2)
    done, running = planned.ids()
    step = planned.take(done)
    digest = evidence.put(b"what it printed\n")
    with store.write() as connection:
        connection.execute(
            update(attempts)
            .where(attempts.c.trial_id == step.trial_id)
            .values(
                outcome=Outcome.SUCCEEDED.value,
                detail='‮ text "quoted" \\ \u2028 é 🦀 \n\t',
                review_ms=0.1 + 0.2,
                evidence={"stdout": digest, "stdout_truncated": True},
                usage=None,
            )
        )
        connection.execute(
            insert(core(CandidateRow)).values(
                trial_id=step.trial_id, position=0, message="", producer="agent", file=None, in_diff=False
            )
        )
    planned.take(running)
    return digest


def test_restored_rows_are_the_same(store: Store, tmp_path: Path) -> None:
    """From SQLite and from PostgreSQL into SQLite: every row of every table, and every blob that a row names."""
    evidence = FolderEvidence(tmp_path / "evidence")
    digest = run_one(store, evidence)
    unnamed = evidence.put(b"nobody names this")
    made = write_backup(store, evidence, tmp_path / "b.tar")
    assert made.blobs == 1
    assert made.missing_blobs == ()
    target, blobs = empty(tmp_path), FolderEvidence(tmp_path / "restored-evidence")
    back = restore_backup(tmp_path / "b.tar", target, blobs)
    assert content(target) == content(store)
    assert back.rows == made.rows
    assert back.content_sha256 == made.content_sha256
    assert blobs.get(digest) == b"what it printed\n"
    assert not blobs.has(unnamed)
    target.close()


@pytest.mark.docker
def test_into_postgresql_and_on(tmp_path: Path, postgres_url: str) -> None:
    """SQLite to PostgreSQL and back changes nothing, and PostgreSQL goes on numbering where the rows end."""
    source = open_store(f"sqlite:///{tmp_path / 'a' / 'crb.sqlite'}")
    evidence = FolderEvidence(tmp_path / "evidence")
    run_one(source, evidence)
    write_backup(source, evidence, tmp_path / "a.tar")
    server = open_store(postgres_url, migrate=False)
    restore_backup(tmp_path / "a.tar", server, evidence)
    write_backup(server, evidence, tmp_path / "b.tar")
    target = empty(tmp_path)
    restore_backup(tmp_path / "b.tar", target, evidence)
    assert content(target) == content(source)
    trials = core(TrialRow)
    with server.write() as connection:
        last = connection.execute(select(func.max(trials.c.id))).scalar_one()
        row = connection.execute(select(trials).limit(1)).one()
        new = connection.execute(
            insert(trials)
            .values(sweep_id=row.sweep_id, build_id=row.build_id, pull_request_id=row.pull_request_id, round=99)
            .returning(trials.c.id)
        ).scalar_one()
    assert new == last + 1
    for opened in (source, server, target):
        opened.close()


def test_of_an_earlier_schema(tmp_path: Path) -> None:
    """A backup that an earlier version made is restored and brought up to this version's schema."""
    old = open_store(f"sqlite:///{tmp_path / 'old' / 'crb.sqlite'}", migrate=False)
    upgrade(old, "0001")
    engine = create_engine(f"sqlite:///{tmp_path / 'old' / 'crb.sqlite'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO corpus VALUES (1, 'c', 'f', '1', 't', 'reviewbench', 'null', 'x')")
    engine.dispose()
    evidence = FolderEvidence(tmp_path / "evidence")
    assert write_backup(old, evidence, tmp_path / "b.tar").revision == "0001"
    target = empty(tmp_path)
    assert restore_backup(tmp_path / "b.tar", target, evidence).rows["corpus"] == 1
    assert stored_revision(target) == HEAD
    assert content(target)["corpus"] == [[1, "c", "f", "1", "t", "reviewbench", "null", "x"]]


def test_while_the_farm_writes(store: Store, tmp_path: Path) -> None:
    """The backup is one moment of the store: rows that are written together are there together or not at all."""
    planned = plan(store)
    evidence = FolderEvidence(tmp_path / "evidence")
    trial = planned.step(planned.ids()[0]).trial_id
    stop = threading.Event()
    written = []

    def write() -> None:
        for number in range(10_000):
            if stop.is_set():
                return
            with store.write() as connection:
                for position in (2 * number, 2 * number + 1):
                    digest = evidence.put(f"blob {position}".encode())
                    connection.execute(
                        insert(core(CandidateRow)).values(
                            trial_id=trial, position=position, message=digest, producer="agent"
                        )
                    )
            written.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = []
        for number in range(3):
            while len(written) < 5 * (number + 1):
                stop.wait(0.01)
            made.append(write_backup(store, evidence, tmp_path / f"{number}.tar"))
    finally:
        stop.set()
        writer.join()
    assert made[0].rows["candidate_finding"] < len(written) * 2
    for number, backup in enumerate(made):
        assert backup.rows["candidate_finding"] % 2 == 0
        assert backup.blobs == backup.rows["candidate_finding"]
        target = empty(tmp_path, f"t{number}")
        restore_backup(tmp_path / f"{number}.tar", target, FolderEvidence(tmp_path / f"e{number}"))
        target.close()


def test_a_store_in_use_is_left_alone(store: Store, tmp_path: Path) -> None:
    """Nothing is mixed into rows that are there."""
    run_one(store, FolderEvidence(tmp_path / "evidence"))
    write_backup(store, FolderEvidence(tmp_path / "evidence"), tmp_path / "b.tar")
    before = content(store)
    with pytest.raises(StoreError, match="already has rows"):
        restore_backup(tmp_path / "b.tar", store, FolderEvidence(tmp_path / "evidence"))
    assert content(store) == before


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    """A flipped bit anywhere in the file is refused before the store has a row."""
    source = open_store(f"sqlite:///{tmp_path / 'a' / 'crb.sqlite'}")
    evidence = FolderEvidence(tmp_path / "evidence")
    run_one(source, evidence)
    write_backup(source, evidence, tmp_path / "b.tar")
    whole = (tmp_path / "b.tar").read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (tmp_path / "c.tar").write_bytes(damaged)
        target = empty(tmp_path, f"t{place}")
        with pytest.raises(InputError):
            restore_backup(tmp_path / "c.tar", target, FolderEvidence(tmp_path / "e"))
        assert stored_revision(target) is None
        target.close()


def test_cut_off_and_foreign_files(tmp_path: Path) -> None:
    """What is no backup is said to be none."""
    source = open_store(f"sqlite:///{tmp_path / 'a' / 'crb.sqlite'}")
    evidence = FolderEvidence(tmp_path / "evidence")
    run_one(source, evidence)
    write_backup(source, evidence, tmp_path / "b.tar")
    whole = (tmp_path / "b.tar").read_bytes()
    for name, data in (
        ("cut", whole[:-700]),
        ("empty", b""),
        ("text", b"hello\n" * 1000),
        ("gzip", b"\x1f\x8b" + whole),
    ):
        (tmp_path / name).write_bytes(data)
        target = empty(tmp_path, f"t-{name}")
        with pytest.raises(InputError):
            restore_backup(tmp_path / name, target, evidence)
        target.close()
    with pytest.raises(InputError, match="does not exist"):
        restore_backup(tmp_path / "nowhere.tar", empty(tmp_path), evidence)


def test_a_backup_is_no_archive_of_a_sweep(store: Store, tmp_path: Path) -> None:
    """Who verifies a backup is told what it is; who restores what is neither is told what is."""
    evidence = FolderEvidence(tmp_path / "evidence")
    plan(store)
    write_backup(store, evidence, tmp_path / "b.tar")
    (difference,) = verify_archive(tmp_path / "b.tar").differences
    assert "this is a backup of a store" in difference.problem
    assert "crb restore" in difference.problem
    (tmp_path / "text").write_text("hello " * 300)
    with pytest.raises(InputError, match="no crb archive") as refused:
        restore_backup(tmp_path / "text", empty(tmp_path), evidence)
    assert "crb backup" in (refused.value.remedy or "")


def test_a_missing_blob_is_named(store: Store, tmp_path: Path) -> None:
    """A backup of a store that lacks evidence says which, as does its restoring; the rest is there."""
    evidence = FolderEvidence(tmp_path / "evidence")
    digest = run_one(store, evidence)
    (blob,) = evidence.blobs()
    evidence.remove(blob)
    made = write_backup(store, evidence, tmp_path / "b.tar")
    assert (made.missing_blobs, made.damaged_blobs) == ((digest,), ())
    target = empty(tmp_path)
    back = restore_backup(tmp_path / "b.tar", target, evidence)
    assert back.missing_blobs == (digest,)
    assert content(target) == content(store)
    target.close()


def test_a_damaged_blob_is_left_out_and_named(store: Store, tmp_path: Path) -> None:
    """A blob that does not have its digest any more is not passed on, and does not keep the rest from being saved."""
    evidence = FolderEvidence(tmp_path / "evidence")
    digest = run_one(store, evidence)
    (blob,) = evidence.blobs()
    Path(blob.path).chmod(0o644)
    Path(blob.path).write_bytes(b"something else")
    made = write_backup(store, evidence, tmp_path / "b.tar")
    assert (made.missing_blobs, made.damaged_blobs, made.blobs) == ((), (digest,), 0)
    target = empty(tmp_path)
    back = restore_backup(tmp_path / "b.tar", target, FolderEvidence(tmp_path / "new"))
    assert back.missing_blobs == (digest,)
    target.close()


def test_a_file_that_is_there_stays(store: Store, tmp_path: Path) -> None:
    """A backup never takes the place of another file."""
    plan(store)
    (tmp_path / "b.tar").write_text("precious")
    with pytest.raises(InputError, match="already"):
        write_backup(store, FolderEvidence(tmp_path / "evidence"), tmp_path / "b.tar")
    assert (tmp_path / "b.tar").read_text() == "precious"


def test_digests_are_found_in_every_kind_of_column(store: Store, tmp_path: Path) -> None:
    """In text, inside JSON, among other words; not inside a longer hexadecimal text."""
    evidence = FolderEvidence(tmp_path / "evidence")
    digest = run_one(store, evidence)
    in_text, inside = hashlib.sha256(b"t").hexdigest(), hashlib.sha256(b"i").hexdigest()
    with store.write() as connection:
        connection.execute(update(attempts).values(detail=f"see {in_text}, not {inside}0"))
    with store.read() as connection:
        named = named_digests(connection)
    assert {digest, in_text} <= named
    assert inside not in named


def test_a_newer_backup_is_refused(tmp_path: Path) -> None:
    """It names the version that wrote it instead of guessing."""
    source = open_store(f"sqlite:///{tmp_path / 'a' / 'crb.sqlite'}")
    plan(source)
    with source.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    write_backup(source, FolderEvidence(tmp_path / "e"), tmp_path / "b.tar")
    with pytest.raises(InputError, match="newer version"):
        restore_backup(tmp_path / "b.tar", empty(tmp_path), FolderEvidence(tmp_path / "e"))


def test_the_file_can_be_read_without_crb(tmp_path: Path) -> None:
    """A plain tar of JSON lines, with the columns' names in it."""
    import tarfile

    source = open_store(f"sqlite:///{tmp_path / 'a' / 'crb.sqlite'}")
    plan(source)
    write_backup(source, FolderEvidence(tmp_path / "e"), tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        about = json.load(tar.extractfile("backup.json"))  # type: ignore[arg-type]
        line = tar.extractfile("tables/sweep.jsonl").readline()  # type: ignore[union-attr]
    assert dict(zip(about["tables"]["sweep"], json.loads(line), strict=True))["rounds"] == 1
