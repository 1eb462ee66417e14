"""A backup or a restore that is killed leaves the old state or nothing, and can be repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.evidence import FolderEvidence
from crb_core.formats.archive_tar import open_archive
from crb_core.store import Store, open_store
from crb_core.store.backup import restore_backup, write_backup
from crb_core.store.schema import stored_revision
from tests.crb_core.archived import JUNK, edited, make_store, rewrite
from tests.crb_core.store.test_backup import content, empty
from tests.e2e.farm import REPOSITORY, child_environment

#: Points that a plain run tries; the others take as long and show the same.
CENTRAL = {"middle row", "written in part"}


def points(*names: str) -> list[Any]:
    return [pytest.param(name, marks=() if name in CENTRAL else pytest.mark.thorough) for name in names]


def killed(point: str, *arguments: str, home: Path, **more: str) -> str:
    """What crb said before it killed itself."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crb_core.store.killed_at", point, *arguments],
        cwd=REPOSITORY,
        env=child_environment(home, more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    return ran.stderr


@pytest.fixture
def source(tmp_path: Path) -> Store:
    store = make_store(tmp_path / "source")
    write_backup(store, FolderEvidence(tmp_path / "source" / "evidence"), tmp_path / "b.tar")
    return store


@pytest.mark.parametrize("point", points("blob", "first row", "middle row", "before the commit", "after the commit"))
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def test_a_killed_restore(source: Store, tmp_path: Path, request: pytest.FixtureRequest, point: str, kind: str) -> None:
    """The store is empty and takes the same backup again, or has all of it; the last line says what is left."""
    home = tmp_path / "home"
    url = f"sqlite:///{home / 'crb.sqlite'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    said = killed(point, "restore", str(tmp_path / "b.tar"), home=home, CRB_STORE_URL=url)
    assert "until it is done the store stays empty" in said
    target = open_store(url, migrate=False)
    if point != "after the commit":
        rows = content(target) if stored_revision(target) is not None else {}
        assert not any(rows.values())
        restore_backup(tmp_path / "b.tar", target, FolderEvidence(home / "evidence"))
    assert content(target) == content(source)
    target.close()
    source.close()


@pytest.mark.parametrize("point", points("written in part", "before it has its name"))
def test_a_killed_backup(source: Store, tmp_path: Path, point: str) -> None:
    """Nothing has its name; the next one removes what it left, but not what another one is writing."""
    source.close()
    file = tmp_path / "there" / "new.tar"
    killed(point, "backup", str(file), home=tmp_path / "source")
    (left,) = file.parent.iterdir()
    assert left.name.startswith(".new.tar.")
    os.utime(left, (time.time() - 3600,) * 2)
    (fresh := file.parent / ".new.tar.other").write_bytes(b"is being written")
    store = open_store(f"sqlite:///{tmp_path / 'source' / 'crb.sqlite'}")
    made = write_backup(store, FolderEvidence(tmp_path / "source" / "evidence"), file)
    assert sorted(each.name for each in file.parent.iterdir()) == sorted([fresh.name, file.name])
    with open_archive(file) as archive, open_archive(tmp_path / "b.tar") as other:
        assert list(archive.members) == list(other.members)
    assert made.missing_blobs
    store.close()


def test_a_flipped_bit_names_its_file(source: Store, tmp_path: Path) -> None:
    """In every file of a backup: a row, a blob, the manifest; and the member stands in the sentence."""
    source.close()
    whole = (tmp_path / "b.tar").read_bytes()
    with open_archive(tmp_path / "b.tar") as archive:
        members = [member for member in archive.members.values() if member.size]
    for member in members:
        damaged = bytearray(whole)
        damaged[member.offset + member.size // 2] ^= 1
        (tmp_path / "c.tar").write_bytes(damaged)
        target = empty(tmp_path)
        with pytest.raises(InputError) as refused:
            restore_backup(tmp_path / "c.tar", target, FolderEvidence(tmp_path / "e"))
        assert member.path in str(refused.value)
        assert stored_revision(target) is None
        target.close()
    assert {"tables", "evidence"} <= {member.path.split("/")[0] for member in members}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def test_rows_that_no_store_has_written(
    source: Store, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Digests made anew over a changed row: a sentence with the table, and nothing of it is there."""
    source.close()
    evidence = FolderEvidence(tmp_path / "e")
    url = f"sqlite:///{tmp_path / 'forged.sqlite'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with open_archive(tmp_path / "b.tar") as archive:
        rows = archive.read("tables/trial.jsonl")
    forged = [rows + rows.split(b"\n")[0] + b"\n"]
    # In the sweep's id: a key's own value may fit, and its children then miss it.
    forged += [edited(rows, 2, lambda row, junk=junk: row.__setitem__(1, junk)) for junk in (*JUNK, "\ud800", "a\0b")]
    for number, changed in enumerate(forged):
        file = rewrite(tmp_path / "b.tar", tmp_path / f"f{number}.tar", {"tables/trial.jsonl": changed})
        target = open_store(url, migrate=False)
        with pytest.raises(InputError, match=r"tables/trial\.jsonl"):
            restore_backup(file, target, evidence)
        assert not any(content(target).values())
        target.close()
