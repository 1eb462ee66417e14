"""`crb gc`, `crb backup` and `crb restore` as a user calls them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from sqlalchemy import insert

from crb_core.store import open_store
from crb_core.store.tables import JudgeCallRow, core
from tests.e2e.farm import crb

OLD = time.time() - 30 * 86400


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one finished small sweep."""
    home = tmp_path_factory.mktemp("gc") / "home"
    done = crb("demo", "--runner", "process", "--subset", "smoke", "--rounds", "1", home=home)
    assert done.returncode == 0, done.stderr
    return home


def test_nothing_is_removed_unless_told(home: Path) -> None:
    """A dry run lists, removes nothing, and names the command that would; then it removes exactly that."""
    for path in [*home.glob("evidence/*/*"), *home.glob("snapshots/*"), *home.glob("snapshots/.locks/*")]:
        os.utime(path, (OLD, OLD))
    stray = home / "evidence" / "ab" / ("ab" + "0" * 62)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"nobody names this")
    os.utime(stray, (OLD, OLD))
    arguments = ("gc", "--kind", "evidence", "--kind", "snapshots", "--older-than", "4w")
    snapshots = len(list(home.glob("snapshots/[a-z]*")))
    assert snapshots > 0

    dry = crb(*arguments, home=home)
    assert dry.returncode == 0, dry.stderr
    assert "Nothing was removed. `crb gc --delete` removes these" in dry.stdout
    assert max(map(len, dry.stdout.splitlines())) <= 80
    assert stray.exists()

    listed = json.loads(crb(*arguments, "--json", home=home).stdout)
    assert listed["deleted"] is False
    assert [kind["kind"] for kind in listed["kinds"]] == ["evidence", "snapshots"]
    assert [entry["shown_as"] for entry in listed["kinds"][0]["remove"]] == [stray.name]
    assert len(listed["kinds"][1]["remove"]) == snapshots

    done = crb(*arguments, "--delete", home=home)
    assert done.returncode == 0, done.stderr
    assert f"Removed {snapshots + 1} things" in done.stdout
    assert not stray.exists()
    assert list(home.glob("snapshots/[a-z]*")) == []
    # What rows name is all there.
    assert crb("trial", "logs", "1", home=home).returncode == 0
    assert crb("export", "sweep", "demo", "--out", str(home / "sweep.tar"), home=home).returncode == 0


def test_what_a_judge_asked_and_nobody_can_read_keeps_all_evidence(tmp_path: Path) -> None:
    """It is said, with the request and what to do; the exit code is 1, and nothing is removed."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    lost = "ab" * 32
    with store.write() as connection:
        connection.execute(
            insert(core(JudgeCallRow)).values(
                judge_id="j-1", stage="match", label="x", request_hash="h", secret="s", attempt=1, model="m",
                request_digest=lost, started_at="2026-01-01T00:00:00.000Z",
            )
        )  # fmt: skip
    store.close()
    stray = tmp_path / "evidence" / "cd" / ("cd" * 32)
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"nobody names this")
    os.utime(stray, (OLD, OLD))
    ran = crb("gc", "--delete", home=tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "All evidence is kept: 1 request of a judge cannot be read" in ran.stdout
    assert lost in ran.stdout
    assert stray.exists()
    (evidence, _) = json.loads(crb("gc", "--json", home=tmp_path).stdout)["kinds"]
    assert (evidence["remove"], evidence["count"], lost in evidence["problem"]) == ([], 1, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--older-than", "soon"), "no duration"),
        (("--older-than", "59m"), "under an hour"),
        (("--older-than", "-1d"), "no duration"),
        (("--max-size", "much"), "no size"),
        (("--max-size", "-5GB"), "no size"),
    ],
)
def test_arguments_that_cannot_be(home: Path, arguments: tuple[str, str], sentence: str) -> None:
    """One sentence, no traceback, nothing done."""
    done = crb("gc", *arguments, home=home)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_images_are_looked_at_only_where_asked_for(home: Path) -> None:
    """Another farm of the same engine may name them; without an engine that is said."""
    away = {"DOCKER_HOST": f"unix://{home}/no.sock"}
    done = crb("gc", home=home, **away)
    assert done.returncode == 0, done.stderr
    assert "images" not in done.stdout
    asked = crb("gc", "--kind", "images", "--kind", "snapshots", home=home, **away)
    assert asked.returncode == 1
    assert "images were not looked at" in asked.stdout
    assert "snapshots: " in asked.stdout


def test_a_restored_home_prints_the_same_leaderboard(home: Path, tmp_path: Path) -> None:
    """And a restored sweep can go on: a second demo finds everything done."""
    made = crb("backup", str(tmp_path / "b.tar"), "--json", home=home)
    assert made.returncode == 0, made.stderr
    report = json.loads(made.stdout)
    assert report["rows"]["trial"] > 0
    assert report["blobs"] > 0
    new = tmp_path / "new"
    back = crb("restore", str(tmp_path / "b.tar"), home=new)
    assert back.returncode == 0, back.stderr
    assert report["content_sha256"] in back.stdout
    before, after = (crb("leaderboard", "--json", home=place).stdout for place in (home, new))
    assert before == after
    assert json.loads(after)
    for arguments in (("restore", str(tmp_path / "b.tar")), ("backup", str(tmp_path / "b.tar"))):
        refused = crb(*arguments, home=new)
        assert refused.returncode == 1
        assert "already" in refused.stderr
