"""``--extract`` at an import and ``crb judge extract``: comments at lines stay, general ones are taken apart."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.errors import InputError, UnavailableError
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.app import BrokerClient

GENERAL = "Nice work!\n\n- refunds are pasted in ledger/api.py\n- the cache is never emptied\n"
COMMENTS = [
    {"id": 1, "path": "ledger/api.py", "line": 3, "body": "- one\n- two", "user": {"login": "bot"}},
    {"id": 2, "body": GENERAL, "user": {"login": "bot"}},
    {"id": 3, "body": "", "state": "APPROVED", "user": {"login": "bot"}},
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ledger-41.json").write_text(json.dumps(COMMENTS), encoding="utf-8")
    return tmp_path / "home"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def imported(*more: str) -> Any:
    given = ("github-review-comments", "ledger-41.json", "--corpus", "showcase", "--name", "bots", "--agent", "bot")
    return json.loads(run("sweep", "import", *given, *more, "--json"))


def stored(home: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        return connection.execute(
            "SELECT file, start_line, message, source FROM candidate_finding ORDER BY position"
        ).fetchall()


def test_general_comments_become_findings(home: Path) -> None:
    """The comment at a line is one finding as it stands; of the general one every problem is, with its source."""
    found = imported("--extract", "claude", "--fake-model")
    extraction = found["extraction"]
    assert (extraction["general_comments"], extraction["findings"], extraction["fake_model"]) == (1, 2, True)
    assert found["candidates"] == 3
    rows = stored(home)
    assert [row[:3] for row in rows] == [
        ("ledger/api.py", 3, "- one\n- two"),
        ("ledger/api.py", None, "refunds are pasted in ledger/api.py"),
        (None, None, "the cache is never emptied"),
    ]
    source = json.loads(rows[1][3])
    assert source["comment"]["body"] == GENERAL
    assert source["comment"]["record"]["id"] == 2
    assert source["quote"] == "refunds are pasted in ledger/api.py"
    assert extraction["fingerprint"] in source["extraction"]
    assert [each["kind"] for each in found["irregularities"]] == ["finding without a place", "empty comment"]


def test_the_same_import_again_changes_nothing(home: Path) -> None:
    """The stored answers are replayed: no review is new, and no call is made."""
    imported("--extract", "claude", "--fake-model")
    before = stored(home)
    again = imported("--extract", "claude", "--fake-model", "--max-cost", "0")
    assert again["new_reviews"] == 0
    assert stored(home) == before
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM judge_call").fetchone() == (1,)


def test_without_it_a_comment_is_one_finding(home: Path) -> None:
    """Nothing is split unasked, and the report says that the finding has no place."""
    found = imported()
    assert (found["extraction"], found["candidates"]) == (None, 2)
    assert found["irregularity_counts"]["finding without a place"] == 1


def test_it_needs_a_model_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is stored."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    given = ("sweep", "import", "github-review-comments", "ledger-41.json", "--corpus", "showcase", "--name", "b")
    for spec, error in (("offline", InputError), ("claude", UnavailableError)):
        with pytest.raises(error):
            CliRunner().invoke(app, [*given, "--agent", "bot", "--extract", spec], catch_exceptions=False)


URL = "https://github.com/owner/shop/pull/1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Downloaded reviews of two tools; of one there are candidates already."""
    comments = [{"body": "Rounds too early.", "path": "cart.py", "line": 7}, {"body": GENERAL}]
    files = {
        "golden_comments/shop.json": [
            {"pr_title": "t", "url": URL, "comments": [{"comment": "It rounds.", "severity": "High"}]}
        ],
        "results/benchmark_data.json": {
            URL: {
                "reviews": [
                    {"tool": "alpha", "review_comments": comments},
                    {"tool": "beta", "review_comments": [{"body": "Hm."}], "candidates": [{"text": "Given."}]},
                ]
            }
        },
    }
    for name, data in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")
    return tmp_path / "data"


def test_candidates_in_the_benchmarks_form(folder: Path, tmp_path: Path) -> None:
    """What is written is read back by the importer, and a second run keeps what is there."""
    command = ("judge", "extract", str(folder), "--out", str(folder / "results"), "--name", "mine", "--fake-model")
    found = json.loads(run(*command, "--json"))
    assert (found["reviews"], found["general_comments"], found["findings"]) == (2, 2, 3)
    written = json.loads(Path(found["file"]).read_text(encoding="utf-8"))
    assert [(each["text"], each["path"], each["line"]) for each in written[URL]["alpha"]] == [
        ("Rounds too early.", "cart.py", 7),
        ("refunds are pasted in ledger/api.py", "ledger/api.py", None),
        ("the cache is never emptied", None, None),
    ]
    assert written[URL]["alpha"][0]["source"] == "inline comment"
    assert written[URL]["alpha"][1]["source"]["comment"]["body"] == GENERAL
    # Comments are taken apart even where an extraction is there already.
    assert [each["text"] for each in written[URL]["beta"]] == ["Hm."]
    before = Path(found["file"]).read_bytes()
    again = json.loads(run(*command, "--json"))
    assert (again["reviews"], again["kept"], again["left"]) == (0, 2, 0)
    assert Path(found["file"]).read_bytes() == before
    run("corpus", "import", "golden-comments", str(folder), "--name", "shop")
    again = json.loads(
        run("sweep", "import", "golden-comments", str(folder), "--corpus", "shop", "--name", "s", "--json")
    )
    assert again["candidates"] == 4
    assert json.loads(run(*command[:-2], "other", "--fake-model", "--json"))["findings"] == 3


def test_one_tool_after_the_other(folder: Path, tmp_path: Path) -> None:
    """Seed C, step 2: one tool, a limit, only what is missing, all of it anew; unknown tools are refused by name."""
    command = ("judge", "extract", str(folder), "--out", str(folder / "results"), "--name", "mine", "--fake-model")
    first = json.loads(run(*command, "--agent", "beta", "--json"))
    path = Path(first["file"])
    assert (first["reviews"], first["kept"], first["left"]) == (1, 0, 0)
    assert set(json.loads(path.read_text())[URL]) == {"beta"}
    second = json.loads(run(*command, "--limit", "1", "--json"))
    assert (second["reviews"], second["kept"], second["left"]) == (1, 1, 0)
    whole = json.loads(path.read_text())
    assert set(whole[URL]) == {"alpha", "beta"}
    path.write_text(json.dumps({URL: whole[URL] | {"beta": []}}), encoding="utf-8")
    anew = json.loads(run(*command, "--force", "--limit", "2", "--json"))
    assert (anew["reviews"], json.loads(path.read_text())) == (2, whole)
    limited = json.loads(run(*command[:-2], "few", "--fake-model", "--limit", "1", "--json"))
    assert (limited["reviews"], limited["left"]) == (1, 1)
    with pytest.raises(InputError, match=r"no review by 'nobody'.*alpha, beta"):
        CliRunner().invoke(app, [*command, "--agent", "nobody"], catch_exceptions=False)


@pytest.mark.parametrize("source", ["extracted", {"kind": "general comment", "extraction": "model-x 123"}, None])
def test_extractions_are_not_mixed(folder: Path, source: Any) -> None:
    """A file that holds what another model, or the public tool, extracted is not extended."""
    target = folder / "results" / "mine" / "candidates.json"
    target.parent.mkdir()
    target.write_text(json.dumps({URL: {"beta": [{"text": "Hm.", "source": source}]}}), encoding="utf-8")
    command = ["judge", "extract", str(folder), "--out", str(folder / "results"), "--name", "mine", "--fake-model"]
    with pytest.raises(InputError, match="made by another extraction"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_nothing_to_extract(folder: Path) -> None:
    """A folder without downloaded reviews says what it needs."""
    (folder / "results" / "benchmark_data.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="no downloaded reviews"):
        CliRunner().invoke(
            app, ["judge", "extract", str(folder), "--out", str(folder / "x"), "--fake-model"], catch_exceptions=False
        )


def test_a_command_shares_the_farms_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a broker, calls of a command take their places in the same limit as those of the workers."""
    with EmbeddedBroker(tmp_path / "broker.json") as broker:
        monkeypatch.setenv("CRB_BROKER_URL", broker.url)
        monkeypatch.setenv("CRB_JUDGE_REQUESTS_PER_MINUTE", "6000")
        imported("--extract", "claude", "--fake-model")
        redis = BrokerClient(broker.url).redis
        assert [key for key in redis.keys("crb:rate:*") if key.endswith(b":last")]
