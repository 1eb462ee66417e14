"""An archive of a sweep: what it holds, that it is the same every time, and what it keeps to itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from crb_core.aggregate import to_json
from crb_core.errors import InputError, StoreError
from crb_core.evidence import FolderEvidence
from crb_core.formats.archive_private import Private
from crb_core.formats.archive_verify import verify_archive
from crb_core.metrics import score
from crb_core.store import open_store
from crb_core.store.results import load_results, sweep_judges
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import AttemptRow, core
from tests.crb_core.archived import SWEEP, contents, export, make_store


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("farm")
    make_store(home).close()
    return home


@pytest.fixture(scope="module")
def archive(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "sweep.tar"
    exported = export(home, out)
    assert exported.missing == ("0" * 64,)
    assert (exported.trials, exported.findings) == (18, 51)
    return out


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def test_a_fresh_archive_is_sound(archive: Path) -> None:
    """Nothing differs, everything was looked at, and a blob that is gone is said."""
    result = verify_archive(archive)
    assert result.differences == []
    assert (result.trials, result.findings, result.judgments) == (18, 51, 17)
    assert result.numbers > 1000
    assert result.notes == ["1 blobs are missing: they were not in the evidence store (or damaged there) at export"]


def test_it_holds_the_eight_artifacts(archive: Path) -> None:
    """Seed A 9: pull requests, producers, classifier, matcher, agents, label provenance, aggregation, rounds."""
    files = contents(archive)
    pull_requests = lines(files["pull_requests.jsonl"])
    assert [(each["pull_request"]["base"], each["pull_request"]["head"]) for each in pull_requests] == [
        ("1" * 40, "5" * 40),
        ("2" * 40, "6" * 40),
        ("3" * 40, "7" * 40),
    ]
    assert json.loads(files["corpus.json"])["producers"] == [
        {"name": "human_review", "version": "2", "configuration": {"team": "core"}, "note": ""}
    ]
    judge = lines(files["judges.jsonl"])[0]
    assert (judge["name"], judge["description"]["threshold"]) == ("people", 0.5)
    assert [each["build"]["agent"] for each in lines(files["builds.jsonl"])] == ["alpha", "beta"]
    label = pull_requests[0]["golden"][0]["finding"]["label"]
    assert (label["severity"], label["provenance"]) == ("high", {"tp_fp": "human", "severity": "j-0123456789ab"})
    aggregation = json.loads(files["sweep.json"])["aggregation"]
    assert (aggregation["levels"], aggregation["beta"], aggregation["headline"]) == (
        ["macro", "micro"],
        1.0,
        "grounded_f",
    )
    rows = json.loads(files[f"results/{judge['judge_id']}.json"])["rows"]
    assert [[each["round"] for each in row["rounds"]] for row in rows] == [[1, 2, 3], [1, 2, 3]]


def test_failed_attempts_are_in_it(archive: Path) -> None:
    """With outcome and detail; the trial is no zero, its round is left out and says why."""
    files = contents(archive)
    builds = {each["build"]["agent"]: each["build_id"] for each in lines(files["builds.jsonl"])}
    review = lines(files[f"reviews/{builds['beta']}/round-2.jsonl"])[2]
    assert review["state"] == "failed"
    assert review["attempts"][0]["outcome"] == "timeout"
    assert review["attempts"][0]["detail"] == "it took too long in <folder of the exporting machine>/attempts/1"
    result = next(json.loads(data) for name, data in files.items() if name.startswith("results/"))
    other, row = result["rows"]
    assert (row["rounds_used"], row["rounds_left_out"], row["ranked"]) == ([1, 3], [2], True)
    better = row["macro"]["grounded_f"]["mean"] > other["macro"]["grounded_f"]["mean"]
    assert (row["rank"], other["rank"]) == ((1, 2) if better else (2, 1))
    assert row["rounds"][1]["problems"][0]["pull_request"] == "pr-3"


def test_its_numbers_are_those_of_the_store(home: Path, archive: Path) -> None:
    """Metrics of every trial and round equal what the definitions give for the stored judgments."""
    files = contents(archive)
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        sweep_id = find_sweep(connection, SWEEP).id
        judge = sweep_judges(connection, sweep_id)[0]
        stored = load_results(connection, sweep_id, judge)
    store.close()
    result = json.loads(files[f"results/{judge.judge_id}.json"])
    for row in result["rows"]:
        mine = [trial for trial in stored.trials if trial.build_id == row["build"] and trial.judged is not None]
        for each in row["rounds"]:
            judged = [trial.judged for trial in mine if trial.round == each["round"] and trial.judged is not None]
            expected = to_json(score(judged))
            expected.pop("per_pull_request")
            assert each["score"] == json.loads(json.dumps(expected))
        for number in (1, 2, 3):
            path = f"judgments/{judge.judge_id}/{row['build']}/round-{number}.jsonl"
            for line in lines(files[path]):
                trial = next((t for t in mine if (t.round, t.pull_request) == (number, line["pull_request"])), None)
                if trial is None or trial.judged is None:
                    assert line["metrics"] is None
                    continue
                only = to_json(score([trial.judged]))["per_pull_request"][0]
                assert line["metrics"] == {name: only[name] for name in only if name != "key"}


def test_durations_fall_back_and_skip_nothing_else(archive: Path) -> None:
    """Rule 16: round 2 has only legacy seconds; rounds are weighted equally."""
    result = next(json.loads(data) for name, data in contents(archive).items() if name.startswith("results/"))
    alpha = next(each for each in result["rows"] if each["agent"] == "alpha")["duration"]
    assert [each["mean_ms"] for each in alpha["rounds"]] == [1014.0, 4000.0, 3014.0]
    assert alpha["mean_ms"] == pytest.approx((1014 + 4000 + 3014) / 3)
    assert alpha["from_seconds"] == 3


def test_the_same_store_gives_the_same_bytes(home: Path, archive: Path, tmp_path: Path) -> None:
    """Two exports of one store are equal byte for byte."""
    export(home, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == archive.read_bytes()


def test_two_stores_with_the_same_imports_give_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    """Imported at another time, into another store: ids and times of the import are no part of the archive."""
    make_store(tmp_path / "other").close()
    export(tmp_path / "other", tmp_path / "other.tar")
    assert (tmp_path / "other.tar").read_bytes() == archive.read_bytes()


@pytest.mark.docker
def test_postgresql_gives_the_same_bytes(archive: Path, tmp_path: Path, postgres_url: str) -> None:
    """What the store is kept in leaves no trace."""
    store = make_store(tmp_path / "other", url=postgres_url)
    export(tmp_path / "other", tmp_path / "other.tar", store)
    store.close()
    assert (tmp_path / "other.tar").read_bytes() == archive.read_bytes()


def test_nothing_of_the_exporting_machine_is_in_it(home: Path, archive: Path) -> None:
    """No path of the farm, no mirror, no import folder, no host, no user and no id of the store."""
    data = archive.read_bytes()
    for text in (str(home), "/srv/mirrors", "/home/someone", "build-machine-7"):
        assert text.encode() not in data
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        store_id = find_sweep(connection, SWEEP).id
    store.close()
    assert store_id.encode() not in data
    assert b"host-1" in data


def test_blobs_that_tell_of_the_machine_are_withheld(tmp_path: Path) -> None:
    """A log that names a folder or a secret stays at home, the archive says so and is sound."""
    home = tmp_path / "farm"
    store = make_store(home)
    evidence = FolderEvidence(home / "evidence")
    for text in (f"Traceback in {home}/x.py\n", "token s3cret-value\n"):
        digest = evidence.put(text.encode())
        attempts = core(AttemptRow)
        with store.write() as connection:
            connection.execute(update(attempts).where(attempts.c.id == 1).values(evidence={"stderr": digest}))
        exported = export(home, tmp_path / "a.tar", store)
        assert exported.withheld == (digest,)
        data = (tmp_path / "a.tar").read_bytes()
        assert text.encode() not in data
        assert verify_archive(tmp_path / "a.tar").ok
    store.close()


def test_private_replaces_whole_folders_only() -> None:
    """A folder inside another goes as a whole; a name that only begins alike stays."""
    private = Private([Path("/home/u/farm"), Path("/home/u/farm/inner")], ["short", "long-secret"])
    assert private.text("in /home/u/farm/inner/a and /home/u/farm: x, /home/u/farmer, /x/home/u/farm") == (
        "in <folder of the exporting machine>/a and <folder of the exporting machine>: x, /home/u/farmer, "
        "/x/home/u/farm"
    )
    assert private.value({"a": ["long-secret", 1, None, "short"]}) == {"a": ["<secret>", 1, None, "short"]}
    assert private.is_in(b"x long-secret")
    assert not private.is_in(b"short")


def test_an_export_that_fails_leaves_no_file(home: Path, tmp_path: Path) -> None:
    """A folder that does not exist is a sentence, and nothing half written stays."""
    with pytest.raises(InputError, match="the archive cannot be written to"):
        export(home, tmp_path / "absent" / "a.tar")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="the archive cannot be written to"):
        export(home, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_damaged_blob_is_listed_and_an_unreadable_one_ends_the_export(tmp_path: Path) -> None:
    """What cannot be read today may be fine tomorrow: an archive without it would say that it is gone."""
    home = tmp_path / "farm"
    make_store(home).close()
    digest = FolderEvidence(home / "evidence").put(b"reviewed\n")
    blob = home / "evidence" / digest[:2] / digest
    blob.chmod(0o644)
    blob.write_bytes(b"Reviewed\n")
    assert digest in export(home, tmp_path / "damaged.tar").missing
    assert verify_archive(tmp_path / "damaged.tar").ok
    blob.unlink()
    blob.mkdir()
    with pytest.raises(StoreError, match="is there, but cannot be read"):
        export(home, tmp_path / "unreadable.tar")
    assert not (tmp_path / "unreadable.tar").exists()
