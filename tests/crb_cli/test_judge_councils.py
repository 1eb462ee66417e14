"""Councils measured against a reference, judges beside each other, and people's labels of a stored sweep's findings."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.crb_cli.test_judge_sweeps import (
    FOUND,
    GOLDEN,
    OTHER,
    Judged,
    broker_url,
    home,
    imported,
    judged,
    read,
    refused,
    run,
)

__all__ = ["broker_url", "home", "imported", "judged"]


def strict_and_loose(judged: Judged) -> tuple[str, str]:
    """Two offline judges, one of which matches nothing; both are named ``offline``."""
    added = judged("run", "shops", "--judge", "offline", "--judge", "offline:threshold=0.999")["judges"]
    first, second = (each["fingerprint"] for each in added)
    return first, second


def test_a_council_of_stored_judges_is_calibrated(home: Path, judged: Judged) -> None:
    """Its members judge the examples, the majority is measured, and the figures stand beside the council's results."""
    first, second = strict_and_loose(judged)
    council = f"council:judges={first}+{second}"
    (added,) = judged("run", "shops", "--judge", council)["judges"]
    data = str(home.parent / "data")
    found = read("judge", "calibrate", "--judge", council, "--against", data)
    assert found["judge"]["name"] == "council"
    assert found["judge"]["fingerprint"] == added["fingerprint"]
    # One judge says match, the other does not: no majority, so the council covers nothing, as the reference says.
    assert found["judges"]["strict"]["covered"] == 0.0
    assert found["judges"]["strict"]["agreement"] == 1.0
    compared = read("judge", "compare", "shops")
    (judge,) = [each for each in compared["judges"] if each["fingerprint"] == added["fingerprint"]]
    assert judge["calibration"]["judges"]["strict"]["n"] == found["judges"]["strict"]["n"]
    # Members of one name are two votes, and are told apart.
    (tie,) = judge["ties"]
    assert tie["votes"] == {f"offline {first}": "match", f"offline {second}": "no match"}

    side = read("leaderboard", "shops", "--side-by-side", "--profile", "none")
    assert [each["name"] for each in side["judges"]] == ["strict", "offline", "offline", "council"]
    (row,) = side["rows"]
    assert {judge: figures["recall"] for judge, figures in row["by_judge"].items()} == {
        each["fingerprint"]: recall for each, recall in zip(side["judges"], (0.0, 0.5, 0.0, 0.0), strict=True)
    }
    shown = run("leaderboard", "shops", "--side-by-side", "--profile", "none")
    table = [line for line in shown.splitlines() if line.startswith(("agent", "a "))]
    # Three judges a table.
    assert len(table) == 4
    assert max(map(len, shown.splitlines())) <= 80


def test_councils_that_cannot_be_calibrated(home: Path, judged: Judged) -> None:
    """An imported judge judges no examples; a name of two judges says which; people are the measure."""
    first, _ = strict_and_loose(judged)
    data = str(home.parent / "data")

    def of(judges: str) -> str:
        return refused("judge", "calibrate", "--judge", f"council:judges={judges}", "--against", data)

    assert "were imported" in of(f"strict+{first}")
    assert "2 stored judges are named 'offline'" in of("offline+strict")
    assert "no judge 'nobody'" in of(f"nobody+{first}")


def filled_in(path: Path, answers: dict[str, dict[str, str]]) -> None:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row.update(answers.get(row["message"], {}))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def test_people_label_what_they_see(home: Path, tmp_path: Path) -> None:
    """A sweep's findings go out as a file to fill in, say nothing of agent or judge, and come back as a reference."""
    out = tmp_path / "anna.csv"
    written = read("export", "labels", "shops", "--out", str(out), "--golden")
    assert written["findings"] == 4
    with out.open(encoding="utf-8", newline="") as stream:
        rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    assert [row["message"] for row in rows] == [FOUND, OTHER, *GOLDEN]
    assert not {"agent", "judge", "producer"} & set(rows[0])
    assert all(not row["tp_fp"] for row in rows)
    calibrate = ("judge", "calibrate", "--judge", "offline", "--against", str(out), "--corpus", "shop")
    assert "labels nothing" in refused(*calibrate)
    golden = rows[2]["finding"]
    filled_in(out, {FOUND: {"matches": golden}, OTHER: {"matches": "none"}})
    found = read(*calibrate)
    assert list(found["judges"]) == ["anna"]
    assert found["judges"]["anna"]["agreement"] == 1.0
    assert found["judges"]["anna"]["tools"]["a"]["f1"] == found["judges"]["anna"]["tools"]["a"]["reference_f1"]
    assert "already there" in refused("export", "labels", "shops", "--out", str(out))
    assert "no findings to label" in refused("export", "labels", "shops", "--out", "x.csv", "--agent", "nobody")
    assert read("export", "labels", "shops", "--out", str(tmp_path / "b.csv"), "--sample", "1")["findings"] == 1


def test_a_council_of_stale_judges_is_named(home: Path, judged: Judged) -> None:
    """Judging anew does not change whom a council votes with, so it says which of its members are stale."""
    first, second = strict_and_loose(judged)
    judged("run", "shops", "--judge", f"council:judges={first}+{second}")
    assert read("judge", "rejudge", "shops", "--dry-run")["stale"] == []
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection, connection:
        (text,) = connection.execute("SELECT document FROM judge WHERE id = ?", (first,)).fetchone()
        document = json.loads(text) | {"spec": "offline:threshold=0.7"}
        connection.execute("UPDATE judge SET document = ? WHERE id = ?", (json.dumps(document), first))
    found = read("judge", "rejudge", "shops", "--dry-run", "--judge", "council")
    assert found["stale"] == []
    (problem,) = found["cannot_tell"]
    assert (problem["judge"], first in problem["problem"], second in problem["problem"]) == ("council", True, False)
