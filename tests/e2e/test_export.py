"""A sweep of the main job, exported and verified by the commands as a stranger runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from crb_core.formats.archive_verify import verify_archive
from tests.crb_core.archived import bump, contents, edited, leaves, rewrite
from tests.e2e.farm import crb

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a demo over the smoke subset, run once a session."""
    home = tmp_path_factory.mktemp("demo") / "home"
    ran = crb("demo", "--subset", "smoke", "--runner", "process", home=home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return home


@pytest.fixture(scope="session")
def demo_archive(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("archive") / "demo.tar"
    ran = crb("export", "sweep", "demo", "--out", str(out), home=demo_home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return out


def test_a_demo_is_exported_and_verified_without_its_store(demo_archive: Path, tmp_path: Path) -> None:
    """The archive is sound in an empty home; nothing is written there."""
    home = tmp_path / "nowhere"
    ran = crb("verify", str(demo_archive), "--json", home=home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert (found["ok"], found["checked"]["trials"], found["notes"]) == (True, 48, [])
    assert not home.exists()


def test_a_second_export_has_the_same_bytes(demo_home: Path, demo_archive: Path, tmp_path: Path) -> None:
    """From another process, under another name."""
    ran = crb("export", "sweep", "demo", "--out", str(tmp_path / "b.tar"), home=demo_home)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "b.tar").read_bytes() == demo_archive.read_bytes()


def test_the_archive_has_the_printed_leaderboard(demo_home: Path, demo_archive: Path) -> None:
    """Means, deviations, ranks and durations are those of ``crb leaderboard --json``, to the last digit."""
    ran = crb("leaderboard", "demo", "--json", home=demo_home)
    assert ran.returncode == 0, ran.stderr
    files = contents(demo_archive)
    for board in json.loads(ran.stdout)["leaderboards"]:
        archived = {
            row["build"]: row for row in json.loads(files[f"results/{board['judge']['fingerprint']}.json"])["rows"]
        }
        assert {row["build"] for row in board["rows"]} == set(archived)
        for row in board["rows"]:
            mine = archived[row["build"]]
            for level in ("macro", "micro"):
                for metric, value in row[level].items():
                    assert (mine[level][metric]["mean"], mine[level][metric]["std"]) == (value["mean"], value["std"])
            assert (mine["rank"], mine["duration"], mine["row_sha256"]) == (
                row["rank"],
                row["duration"],
                row["row_sha256"],
            )
            assert {name: mine["counts"][name] for name in row["counts"]} == row["counts"]


def test_nothing_of_the_machine_is_in_the_archive(demo_home: Path, demo_archive: Path) -> None:
    """No folder of the farm or of the checkout, no host name."""
    data = demo_archive.read_bytes()
    for text in (str(demo_home), str(Path.cwd()), os.uname().nodename + "-"):
        assert text.encode() not in data


def test_forged_results_are_found(demo_archive: Path, tmp_path: Path) -> None:
    """A better mean, a shorter review, a finding that the agent never wrote: each is named, digests or not."""
    files = contents(demo_archive)
    results = next(name for name in files if name.startswith("results/"))
    review = next(name for name, data in files.items() if name.startswith("reviews/") and b'"message"' in data)

    def shorter(value: Any) -> None:
        value["attempts"][0]["review_ms"] /= 2

    def other(value: Any) -> None:
        value["candidates"][0]["finding"]["message"] += "!"

    line = next(
        number for number, data in enumerate(files[review].splitlines(), start=1) if json.loads(data)["candidates"]
    )
    place = leaves(json.loads(files[results]))[100]
    for name, at, edit, expected in (
        (results, None, lambda value: bump(value, place), results),
        (review, line, shorter, "results/"),
        (review, line, other, review),
    ):
        forged = rewrite(demo_archive, tmp_path / "x.tar", {name: edited(files[name], at, edit)})
        found = verify_archive(forged).differences
        assert found, name
        assert found[0].file.startswith(expected)


def test_the_demo_as_tables(demo_home: Path, tmp_path: Path) -> None:
    """CSV, XLSX, workbooks by tool and ReviewBench's files are written from the same store."""
    for arguments in (
        ("csv", "demo", "--out", str(tmp_path / "l.csv")),
        ("xlsx", "demo", "--out", str(tmp_path / "l.xlsx")),
        ("xlsx", "demo", "--by-tool", "--out", str(tmp_path / "tools")),
        ("reviewbench", "demo", "--judge", "reference", "--out", str(tmp_path / "rb")),
        ("summary", "demo", "--out", str(tmp_path / "s.csv")),
    ):
        ran = crb("export", *arguments, home=demo_home)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len((tmp_path / "l.csv").read_text().splitlines()) == 7
    assert len(list((tmp_path / "rb").rglob("results.details.json"))) == 6
