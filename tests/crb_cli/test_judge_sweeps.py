"""Several judges on one sweep: council, side by side, agreement, judging anew. The first test starts a worker."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.errors import UnavailableError
from crb_core.formats.judge_request import parts_of
from crb_worker.judge.loopback import AnthropicServer, Fault, ReadingModel
from tests.crb_cli.commands import Commands
from tests.crb_cli.judge_worker import broker_of_a_farm, judge_what_is_ready

commands = Commands(app)
run = commands.run
read = commands.read
refused = commands.refused

URL = "https://github.com/owner/shop/pull/1"
GOLDEN = ("`total_price` rounds before it sums, so cents are lost.", "The cache in `find_user` is never emptied.")
FOUND = "total_price loses cents because it rounds each price before it sums them."
OTHER = "The colour of the button is odd."
OLD = "j-000000000000"


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home whose store has one review, judged by ``strict``, which matched nothing; and its data."""
    folder = tmp_path_factory.mktemp("imported")
    comments = [{"comment": text, "severity": "High", "category": "Bug"} for text in GOLDEN]
    files = {
        "golden_comments/shop.json": [{"pr_title": "t", "url": URL, "comments": comments}],
        "results/strict/candidates.json": {URL: {"a": [{"text": FOUND}, {"text": OTHER}]}},
        "results/strict/evaluations.json": {
            URL: {
                "a": {
                    "true_positives": [],
                    "false_positives": [{"candidate": text} for text in (FOUND, OTHER)],
                    "false_negatives": [{"golden_comment": text} for text in GOLDEN],
                }
            }
        },
    }
    for name, data in files.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRB_HOME", str(folder / "home"))
        run("corpus", "import", "golden-comments", str(folder / "data"), "--name", "shop")
        run("sweep", "import", "golden-comments", str(folder / "data"), "--corpus", "shop", "--name", "shops")
    return folder


@pytest.fixture
def home(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that home for one test, beside its data."""
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_of_a_farm(tmp_path_factory.mktemp("broker")) as url:
        yield url


Judged = Callable[..., Any]


@pytest.fixture
def judged(home: Path, broker_url: str, monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Runs a command that adds judgments and works on them; what it printed as JSON."""

    def add(*arguments: str) -> Any:
        with monkeypatch.context() as patch:
            patch.setenv("CRB_BROKER_URL", broker_url)
            printed = read("judge", *arguments)
        judge_what_is_ready(monkeypatch, broker_url)
        return printed

    return add


def test_judges_side_by_side(home: Path) -> None:
    """One run adds a judge and a council of it and an imported one; the disagreement is a tie, named, and no match."""
    added = read("judge", "run", "shops", "--judge", "offline", "--judge", "council:judges=strict+offline")
    assert [each["name"] for each in added["judges"]] == ["offline", "council"]
    # The imported judgment is not made again.
    assert added["new_judgments"] == 2
    found = read("judge", "compare", "shops")
    by_name = {each["name"]: each for each in found["judges"]}
    assert {name: each["rows"][0]["recall"] for name, each in by_name.items()} == {
        "strict": 0.0,
        "offline": 0.5,
        "council": 0.0,
    }
    assert [(tie["candidate"], tie["golden"], tie["votes"]) for tie in by_name["council"]["ties"]] == [
        (0, 0, {"offline": "match", "strict": "no match"})
    ]
    agreement = {tuple(each["judges"]): each for each in found["agreement"]}
    assert agreement["strict", "offline"]["covered"]["raw"] == 0.5
    assert agreement["strict", "council"]["pairs"]["raw"] == 1.0
    assert agreement["strict", "offline"]["own_candidates"] is False
    assert read("judge", "agreement", "--sweep", "shops")["agreement"] == found["agreement"]
    shown = run("judge", "compare", "shops")
    assert "1 questions without a strict majority" in shown
    assert "uncalibrated" in shown


def test_councils_that_cannot_be(home: Path) -> None:
    """Unknown members, one member, one twice; a comparison needs two judges."""
    assert "no judgments of nobody" in refused("judge", "run", "shops", "--judge", "council:judges=strict+nobody")
    assert "at least two" in refused("judge", "run", "shops", "--judge", "council:judges=strict")
    assert "twice" in refused("judge", "run", "shops", "--judge", "council:judges=strict+strict")
    assert "names no judges" in refused("judge", "run", "shops", "--judge", "council")
    assert "fewer than two judges" in refused("judge", "compare", "shops")
    assert "label files or a sweep" in refused("judge", "agreement")


@pytest.mark.parametrize("usd", ["inf", "nan", "-1"])
@pytest.mark.parametrize("command", [["judge", "run", "shops"], ["judge", "calibrate", "--against", "showcase"]])
def test_a_limit_of_cost_is_an_amount(home: Path, command: list[str], usd: str) -> None:
    """What limits nothing, or cannot be spent, is wrong usage; no judge is added and nothing is kept as a limit."""
    result = CliRunner().invoke(app, [*command, "--judge", "hybrid", f"--max-cost={usd}"])
    assert result.exit_code == 2
    assert "--max-cost" in result.output
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        assert connection.execute("SELECT DISTINCT max_cost_usd FROM sweep").fetchall() == [(None,)]
        assert connection.execute("SELECT count(*) FROM judge WHERE name LIKE 'hybrid%'").fetchone() == (0,)


@pytest.mark.parametrize("spec", ["claude:model=claude-of-tomorrow", "hybrid:model=claude-of-tomorrow"])
def test_a_limit_of_cost_needs_a_price(home: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """A model that the price table lacks is refused before a judge is added or a limit is kept; one may be taken away.

    A limit that the sweep has already counts as well, and what stands against it is shown.
    """
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    command = ("judge", "run", "shops", "--judge", "offline", "--judge", spec)
    wanted = "claude-of-tomorrow is not in the table of prices (list price "
    assert wanted in refused(*command, "--max-cost", "3")
    assert "at most" not in run("sweep", "show", "shops")
    run("sweep", "set", "shops", "--max-cost", "0.5")
    assert "$0.0000 of at most $0.50 used, by list price" in run("sweep", "show", "shops")
    assert wanted in refused(*command)
    assert read("sweep", "set", "shops", "--max-cost", "none")["after"] == {"max_cost_usd": None}
    assert "at most" not in run("sweep", "show", "shops")
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        assert connection.execute("SELECT name FROM judge").fetchall() == [("strict",)]
    for wrong in ("-1", "inf", "nan", "much"):
        result = CliRunner().invoke(app, ["sweep", "set", "shops", f"--max-cost={wrong}"])
        assert result.exit_code != 0


def made_older(home: Path, judge_id: str) -> None:
    """As if an earlier version with another model had made the judgments of a judge."""
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection, connection:
        (text,) = connection.execute("SELECT document FROM judge WHERE id = ?", (judge_id,)).fetchone()
        document = json.loads(text)
        document["description"]["model"] = "older"
        connection.execute("UPDATE judge SET id = ?, document = ? WHERE id = ?", (OLD, json.dumps(document), judge_id))
        for table in ("sweep_judge", "judgment", "step"):
            connection.execute(f"UPDATE {table} SET judge_id = ? WHERE judge_id = ?", (OLD, judge_id))


def test_judging_anew(home: Path, judged: Judged) -> None:
    """The dry run says what changed and how much there is, and changes nothing; then the new judgments are added."""
    (added,) = judged("run", "shops", "--judge", "offline")["judges"]
    assert judged("rejudge", "shops")["stale"] == []
    made_older(home, added["fingerprint"])
    dry = read("judge", "rejudge", "shops", "--dry-run")
    (stale,) = dry["stale"]
    assert (stale["judge"], stale["fingerprint"], stale["present_fingerprint"]) == (
        "offline",
        OLD,
        added["fingerprint"],
    )
    assert [change["part"] for change in stale["changed"]] == ["model"]
    assert (stale["judgments"], stale["matches"], stale["labels"], dry["new_judgments"]) == (1, 1, 0, 0)
    assert [each["judge"] for each in dry["cannot_tell"]] == ["strict"]
    assert OLD in run("judge", "rejudge", "shops", "--dry-run")
    assert judged("rejudge", "shops")["new_judgments"] == 1
    assert {each["fingerprint"] for each in read("judge", "compare", "shops")["judges"]} >= {OLD, added["fingerprint"]}
    # A second time there is nothing left to judge.
    assert judged("rejudge", "shops")["new_judgments"] == 0


def test_the_leaderboard_shows_the_calibration(home: Path, judged: Judged) -> None:
    """Uncalibrated where there is none; after one, against what and how far, whatever corpus it was measured on."""
    judged("run", "shops", "--judge", "offline")
    assert "uncalibrated" in run("leaderboard", "shops", "--judge", "offline")
    run("judge", "calibrate", "--judge", "offline", "--against", "showcase")
    shown = " ".join(run("leaderboard", "shops", "--judge", "offline").split())
    assert "calibrated against showcase: matching kappa 0." in shown
    assert "uncalibrated" not in shown
    (judge,) = read("leaderboard", "shops", "--judge", "offline")["judges"]
    assert judge["calibration"]["reference"] == "showcase"
    assert judge["calibration"]["judges"]["people"]["n"] > 100


def test_the_leaderboard_says_that_its_judge_is_stale(home: Path, model: AnthropicServer, judged: Judged) -> None:
    """A judge whose prompts were changed after it judged is marked beside its numbers, with their names (A 5.3)."""
    (added,) = judged("run", "shops", "--judge", "claude")["judges"]
    command = ("leaderboard", "shops", "--judge", added["fingerprint"])
    assert "stale" not in run(*command)
    assert [each["stale"] for each in read(*command)["judges"]] == [[]]
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection, connection:
        (text,) = connection.execute("SELECT document FROM judge WHERE id = ?", (added["fingerprint"],)).fetchone()
        document = json.loads(text)
        document["description"]["prompts"]["matcher"]["sha256"] = "0" * 64
        connection.execute("UPDATE judge SET document = ? WHERE id = ?", (json.dumps(document), added["fingerprint"]))
    assert "uncalibrated, stale: matcher)" in " ".join(run(*command).split())
    assert [each["stale"] for each in read(*command)["judges"]] == [["matcher"]]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicServer]:
    """A scripted model on loopback, which the claude judge asks."""
    with AnthropicServer(ReadingModel(), api_key="loopback") as server:
        monkeypatch.setenv("CRB_JUDGE_MODEL", "crb-loopback")
        monkeypatch.setenv("CRB_JUDGE_BASE_URL", server.base_url)
        yield server


def test_claude_judges_a_corpus_without_repositories(home: Path, model: AnthropicServer, judged: Judged) -> None:
    """golden-comments counts no label of an unmatched candidate, so none is asked for and no repository is needed."""
    assert judged("run", "shops", "--judge", "claude")["new_judgments"] == 1
    assert len(model.requests) == 1
    (judge,) = [each for each in read("judge", "compare", "shops")["judges"] if each["name"] == "claude-fake-model"]
    assert judge["rows"][0]["recall"] == 0.5
    run("export", "sweep", "shops", "--out", "shops.tar")
    run("verify", "shops.tar")
    with tarfile.open("shops.tar") as archive:
        blobs = {name.rsplit("/", 1)[-1] for name in archive.getnames() if name.startswith("evidence/")}
        (calls,) = [name for name in archive.getnames() if name.startswith("calls/")]
        member = archive.extractfile(calls)
        assert member is not None
        request = json.loads(member.read())["request_digest"]
        blob = archive.extractfile(f"evidence/{request[:2]}/{request}")
        assert blob is not None
        parts = parts_of(blob.read())
    # The prompts and findings of the request are there, not only their digests.
    assert parts
    assert parts <= blobs


def test_a_preview_shows_what_changes(home: Path, model: AnthropicServer, judged: Judged) -> None:
    """Matches and scores of the sample, before and after; nothing is replaced, and nothing is paid twice."""
    (added,) = judged("run", "shops", "--judge", "claude")["judges"]
    made_older(home, added["fingerprint"])
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection, connection:
        connection.execute("DELETE FROM judge_call")
        connection.execute(
            "DELETE FROM correspondence WHERE judgment_id IN (SELECT id FROM judgment WHERE judge_id = ?)", (OLD,)
        )
    asked = len(model.requests)
    found = read("judge", "rejudge", "shops", "--preview", "1")
    (stale,) = found["stale"]
    preview = stale["preview"]
    assert (found["dry_run"], found["new_judgments"]) == (True, 0)
    assert (preview["judgments"], preview["previewed"], preview["changed"]) == (1, 1, 1)
    (change,) = preview["changes"]
    assert change["matches_gained"] == [[0, 0]]
    assert (change["was"]["recall"], change["now"]["recall"]) == (0.0, 0.5)
    assert len(model.requests) == asked + 1
    judges = {each["fingerprint"] for each in read("judge", "compare", "shops")["judges"]}
    assert added["fingerprint"] not in judges
    shown = run("judge", "rejudge", "shops", "--preview", "all")
    assert "1 differ: 1 matches gained, 0 lost" in " ".join(shown.split())
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert judged("rejudge", "shops")["new_judgments"] == 1
    assert len(model.requests) == asked + 1
    for wrong in ("0", "-1", "many"):
        assert "no number of judgments" in refused("judge", "rejudge", "shops", "--preview", wrong)


def test_judging_anew_says_again_what_failed(
    home: Path, model: AnthropicServer, judged: Judged, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second time nothing is new, and the judgment that is still missing is not passed over."""
    (added,) = judged("run", "shops", "--judge", "claude")["judges"]
    made_older(home, added["fingerprint"])
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection, connection:
        connection.execute("DELETE FROM judge_call")
    with AnthropicServer(lambda _: Fault(400, message="no credit"), api_key="loopback") as server:
        monkeypatch.setenv("CRB_JUDGE_BASE_URL", server.base_url)
        assert judged("rejudge", "shops")["new_judgments"] == 1
    monkeypatch.setenv("CRB_BROKER_URL", broker_url)
    result = CliRunner().invoke(app, ["judge", "rejudge", "shops"])
    assert result.exit_code == 3
    assert "0 new judgments" in result.output
    assert "no credit" in result.output


def test_a_judge_without_its_key_is_refused_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, and neither a judge nor a limit of cost is kept; also where another judge could have worked."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    command = ["judge", "run", "shops", "--judge", "offline", "--judge", "claude", "--max-cost", "3"]
    with pytest.raises(UnavailableError, match="Set ANTHROPIC_API_KEY"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert "no judgments of nobody" in refused(
        "judge", "run", "shops", "--judge", "offline", "--judge", "council:judges=strict+nobody"
    )
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        assert connection.execute("SELECT name FROM judge").fetchall() == [("strict",)]
        assert connection.execute("SELECT max_cost_usd FROM sweep").fetchall() == [(None,)]


def test_whoever_counts_the_scripted_models_votes_says_so(home: Path, model: AnthropicServer, judged: Judged) -> None:
    """A council's name, the judge list and the calibration; a council without it is named as ever."""
    council = "council:judges=strict+claude-fake-model"
    added = judged("run", "shops", "--judge", "claude", "--judge", "offline", "--judge", council)["judges"]
    assert [each["name"] for each in added] == ["claude-fake-model", "offline", "council-fake-model"]
    stored = {each["name"]: each for each in read("judge", "list")["stored"]}
    assert {name: each["fake_model"] for name, each in stored.items()} == {
        "claude-fake-model": True,
        "council-fake-model": True,
        "offline": False,
        "strict": False,
    }
    assert set(stored["council-fake-model"]["council"].values()) == {"strict", "claude-fake-model"}
    assert "council-fake-model" in run("leaderboard", "shops", "--judge", "council-fake-model")
    (plain,) = judged("run", "shops", "--judge", "council:judges=strict+offline")["judges"]
    assert plain["name"] == "council"


def test_the_scripted_models_judge_is_not_stale_without_it(
    home: Path, model: AnthropicServer, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment names the model while it runs; without it the judge is still the same."""
    judged("run", "shops", "--judge", "claude")
    monkeypatch.delenv("CRB_JUDGE_MODEL")
    monkeypatch.delenv("CRB_JUDGE_BASE_URL")
    assert read("judge", "rejudge", "shops", "--dry-run")["stale"] == []


def test_batches_are_asked_for_beside_the_judge(home: Path, model: AnthropicServer, judged: Judged) -> None:
    """Also of a judge that the store already has; a judge without a model has no batches."""
    judged("run", "shops", "--judge", "claude")
    assert judged("run", "shops", "--judge", "claude", "--judge", "offline", "--batch")["new_judgments"] == 1
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        documents = dict(connection.execute("SELECT name, document FROM judge").fetchall())
    assert json.loads(documents["claude-fake-model"])["spec"] == "claude:batch=true"
    assert json.loads(documents["offline"])["spec"] == "offline"
    assert "no judge that is named asks a model" in refused("judge", "run", "shops", "--judge", "offline", "--batch")


def test_one_agent_at_a_time(home: Path, judged: Judged) -> None:
    """Seed C, step 3: only the named agents' reviews are judged; the same judge goes on with the others later."""
    data = home.parent / "data" / "results" / "strict" / "candidates.json"
    found = json.loads(data.read_text())
    found[URL]["b"] = [{"text": FOUND}]
    data.write_text(json.dumps(found), encoding="utf-8")
    run("sweep", "import", "golden-comments", str(home.parent / "data"), "--corpus", "shop", "--name", "shops")
    assert judged("run", "shops", "--judge", "offline", "--agent", "b")["new_judgments"] == 1

    def agents() -> list[str]:
        board = read("leaderboard", "shops", "--judge", "offline", "--profile", "none")
        return sorted(row["agent"] for row in board["rows"])

    assert agents() == ["b"]
    assert judged("run", "shops", "--judge", "offline")["new_judgments"] == 1
    assert agents() == ["a", "b"]
    assert "no agent 'nobody'" in refused("judge", "run", "shops", "--judge", "offline", "--agent", "nobody")
