"""Where a site is written, and what a check of it finds."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crb_core.errors import InputError
from crb_web.site.folder import site_folder
from crb_web.site.manifest import MANIFEST, manifest_bytes, verify_site
from tests.crb_web.site.conftest import export


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder as the export writes it, with two files."""
    with site_folder(tmp_path / "small") as folder:
        folder.add("index.html", b"<!doctype html>\n")
        folder.add_by_content("evidence", "txt", b"blob\n")
        assert folder.add_by_content("evidence", "txt", b"blob\n").startswith("evidence/")
    return tmp_path / "small"


def test_a_whole_site_is_sound(site: Path) -> None:
    """``crb verify DIR`` exits with 0 and says how much it checked."""
    import typer

    from crb_cli.verify import verify

    app = typer.Typer()
    app.command()(verify)
    done = CliRunner().invoke(app, [str(site), "--json"])
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert result["ok"] is True
    assert result["files"] == len(json.loads((site / MANIFEST).read_text())["files"])


def _rename_blob(site: Path) -> None:
    blob = next((site / "evidence").rglob("*.txt"))
    other = blob.with_name("0" * 64 + ".txt")
    blob.rename(other)
    files = {
        each.relative_to(site).as_posix(): (
            each.stat().st_size,
            hashlib.sha256(each.read_bytes()).hexdigest(),
        )
        for each in site.rglob("*")
        if each.is_file() and each.name != MANIFEST
    }
    (site / MANIFEST).write_bytes(manifest_bytes(files))


def _link(site: Path) -> None:
    shutil.copy(site / "index.html", site.parent / "outside.html")
    (site / "index.html").unlink()
    (site / "index.html").symlink_to(site.parent / "outside.html")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda site: (site / "index.html").write_bytes(b"<!doctype HTML>\n"), "the content has SHA-256"),
        (lambda site: (site / "index.html").unlink(), "the folder lacks it"),
        (lambda site: (site / "more.html").write_text("x"), "the manifest does not"),
        (lambda site: (site / "more").symlink_to("/"), "the manifest does not"),
        (_link, "no regular file"),
        (_rename_blob, "not named by its content"),
    ],
)
def test_every_damage_is_named(small: Path, damage: Callable[[Path], object], problem: str) -> None:
    """Changed, missing, added, linked and renamed files."""
    damage(small)
    found = verify_site(small)
    assert not found.ok
    assert [problem in each.problem for each in found.differences] == [True]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": "crb.site/1"}',
        b'{"format": "crb.site/1", "files": [{"path": "../x", "bytes": 1, "sha256": "' + b"0" * 64 + b'"}]}',
        b'{"format": "crb.site/1", "files": [{"path": "/etc/passwd", "bytes": 1, "sha256": "' + b"0" * 64 + b'"}]}',
        b'{"format": "crb.site/1", "content_sha256": "", "files": []}',
        b'{"format": "crb.site/1", "files": [1]}',
        b"\xff",
    ],
)
def test_a_foreign_manifest_is_a_sentence(small: Path, content: bytes) -> None:
    """Nothing outside of the folder is ever read because a manifest names it."""
    (small / MANIFEST).write_bytes(content)
    with pytest.raises(InputError):
        verify_site(small)


def test_a_folder_without_manifest_is_no_site(tmp_path: Path) -> None:
    """Told apart from a damaged one."""
    with pytest.raises(InputError, match=r"no manifest\.json"):
        verify_site(tmp_path)


def test_what_is_there_stays(small: Path, tmp_path: Path) -> None:
    """A folder with files, a file and a link are refused before anything is made; an empty folder is taken."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("small", "file", "link"):
        with pytest.raises(InputError, match="something already"), site_folder(tmp_path / name):
            pass
    with site_folder(tmp_path / "empty") as folder:
        folder.add("index.html", b"")
    assert sorted(each.name for each in (tmp_path / "empty").iterdir()) == ["index.html", MANIFEST]


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    """Neither a half site nor the folder that it was made in."""
    with pytest.raises(InputError, match="cannot be written: No such file"), site_folder(tmp_path / "site") as folder:
        (folder.scratch / "none/file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_who_comes_first_stays(tmp_path: Path) -> None:
    """A folder that appeared meanwhile is not written over."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("x")
    with pytest.raises(InputError, match="something already"), site_folder(tmp_path / "site"):
        theirs.rename(tmp_path / "site")
    assert [each.name for each in tmp_path.iterdir()] == ["site"]


def test_without_a_store_there_is_a_sentence(tmp_path: Path) -> None:
    """No store is made, and no folder."""
    done = export(tmp_path / "home", tmp_path / "site")
    assert done.returncode == 1
    assert done.stderr.startswith("crb: There is no store at")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "site").exists()
