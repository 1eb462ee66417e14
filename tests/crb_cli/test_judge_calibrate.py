"""``crb judge calibrate`` against each kind of reference, and where its result is shown."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crb_cli.judge import app
from crb_cli.main import app as whole
from crb_core.bundled import bundled
from crb_core.formats.golden_comments import read_corpus
from crb_core.formats.showcase import read_showcase
from crb_worker.calibration.tuning import text_digest
from crb_worker.judge.calls import BudgetError
from crb_worker.judge.loopback import AnthropicServer, ReadingModel
from crb_worker.judge.offline_model import OfflineModel
from tests.crb_cli.commands import Commands

commands = Commands(app)
run = commands.run
read = commands.read
refused = commands.refused

URL = "https://github.com/owner/shop/pull/{}"
GOLDEN = ("`total_price` rounds before it sums, so cents are lost.", "The cache in `find_user` is never emptied.")
FOUND = "total_price loses cents because it rounds each price before it sums them."
TRIGGER = "/shop review"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pull requests, two judges. Tool a finds the first golden and has a false alarm, b has only a trigger text."""
    root = tmp_path / "data"

    def write(name: str, data: Any) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")

    comments = [{"comment": text, "severity": "High"} for text in GOLDEN]
    urls = [URL.format(number) for number in (1, 2)]
    write("golden_comments/shop.json", [{"pr_title": "t", "url": url, "comments": comments} for url in urls])
    false_alarm = "The colour of the button is odd."
    for judge in ("one", "two"):
        write(
            f"results/{judge}/candidates.json", {url: {"a": [{"text": FOUND}, {"text": false_alarm}]} for url in urls}
        )
        match = {"golden_comment": GOLDEN[0], "matched_candidate": FOUND}
        missed = [{"golden_comment": text} for text in GOLDEN]
        a = {"true_positives": [match], "false_positives": [{"candidate": false_alarm}], "false_negatives": missed[1:]}
        b = {"true_positives": [], "false_positives": [{"candidate": TRIGGER}], "false_negatives": missed}
        write(f"results/{judge}/evaluations.json", {url: {"a": a, "b": b} for url in urls})
    return root


def test_a_folder_with_two_judges(folder: Path) -> None:
    """Every judge of the folder gets its figures; a tool without findings is in the table of F1, not in the units."""
    found = read("calibrate", "--judge", "offline", "--against", str(folder))
    assert set(found["judges"]) == {"one", "two"}
    one = found["judges"]["one"]
    assert (one["n"], one["agreement"], one["kappa"]) == (4, 1.0, 1.0)
    assert (one["precision"], one["recall"], one["f1"]) == (1.0, 1.0, 1.0)
    assert (one["kappa_low"], one["kappa_high"]) == (1.0, 1.0)
    assert one["tools"] == {
        "a": {"reviews": 2, "f1": 0.5, "reference_f1": 0.5, "recorded_f1": 0.5},
        "b": {"reviews": 2, "f1": 0.0, "reference_f1": 0.0, "recorded_f1": 0.0},
    }
    assert (found["held_out"], found["examples"]["held_out"], found["classifier"]) == (True, 2, None)
    assert found["splits"]["motivating"] is None


def test_an_evaluation_that_was_skipped_is_named(folder: Path) -> None:
    """It is no answer of the reference: left out of the units and listed."""
    path = folder / "results" / "one" / "evaluations.json"
    data = json.loads(path.read_text())
    data[URL.format(1)]["a"] = {"skipped": True, "reason": "no golden", **{name: [] for name in _LISTS}}
    path.write_text(json.dumps(data))
    found = read("calibrate", "--judge", "offline", "--against", str(folder))
    assert found["judges"]["one"]["n"] == 2
    assert [line.split(":")[0] for line in found["reference"]["skipped"]] == ["one, a on owner_shop_1"]


_LISTS = ("true_positives", "false_positives", "false_negatives")


def tuned(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    model = OfflineModel.load()
    examples = tuple(hashlib.sha256(url.encode()).hexdigest()[:12] for url in urls)
    changed = model.model_copy(update={"training": model.training.model_copy(update={"examples": examples})})
    monkeypatch.setattr(OfflineModel, "load", classmethod(lambda cls: changed))


def test_examples_of_the_tuning_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two pull requests was trained on: only the other is reported, until it is asked for and then marked."""
    tuned(monkeypatch, URL.format(1))
    found = read("calibrate", "--judge", "offline", "--against", str(folder))
    assert (found["held_out"], found["examples"]["motivating"], found["judges"]["one"]["n"]) == (True, 1, 2)
    both = read("calibrate", "--judge", "offline", "--against", str(folder), "--include-tuning")
    assert (both["held_out"], both["judges"]["one"]["n"]) == (False, 4)
    assert both["splits"]["held_out"]["judges"]["one"]["n"] == 2
    assert both["splits"]["motivating"]["judges"]["one"]["n"] == 2


def test_a_copy_under_other_urls_is_known_by_its_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks are forked, and their pull requests get other URLs: half of the golden texts give one away."""
    model = OfflineModel.load()
    entries = read_corpus(folder, "c").corpus.entries
    texts = [golden.message for golden in entries[0].golden]
    assert all([golden.message for golden in entry.golden] == texts for entry in entries)

    def trained_on(known: list[str]) -> None:
        digests = tuple(text_digest(text) for text in known)
        changed = model.model_copy(update={"training": model.training.model_copy(update={"texts": digests})})
        monkeypatch.setattr(OfflineModel, "load", classmethod(lambda cls: changed))

    # As somebody might have reformatted them.
    trained_on([f"  {text.upper().replace(' ', chr(10))}\u200b!" for text in texts[: -(-len(texts) // 2)]])
    assert "was tuned on all 2" in refused("calibrate", "--judge", "offline", "--against", str(folder))
    trained_on(texts[: (len(texts) - 1) // 2])
    assert read("calibrate", "--judge", "offline", "--against", str(folder))["held_out"] is True


def test_the_model_names_the_texts_that_it_was_trained_on() -> None:
    """As many as its golden findings, none of them twice."""
    training = OfflineModel.load().training
    assert len(training.texts) == len(set(training.texts)) >= len(training.examples)


def test_refuses_where_everything_was_tuned_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured, and the sentence says what can be done."""
    tuned(monkeypatch, URL.format(1), URL.format(2))
    said = refused("calibrate", "--judge", "offline", "--against", str(folder))
    assert "was tuned on all 2 pull requests" in said
    assert all(way in said for way in ("--include-tuning", "crb judge list"))


def test_examples_that_the_caller_names(folder: Path) -> None:
    """A pull request that motivated a prompt is left out like one of the tuning record; an unknown one is refused."""
    of = ("calibrate", "--judge", "offline", "--against", str(folder), "--motivating")
    found = read(*of, "owner_shop_1")
    assert (found["held_out"], found["examples"]["motivating"], found["judges"]["two"]["n"]) == (True, 1, 2)
    assert "has no pull request" in refused(*of, "owner_shop_10")


def test_shown_beside_results_of_another_corpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge list of any corpus shows it; figures that are not held out do not make a judge calibrated."""
    assert "uncalibrated" in run("list")
    run("calibrate", "--judge", "offline", "--against", str(folder))
    run("calibrate", "--judge", "offline", "--against", str(folder))
    (offline,) = (each for each in read("list")["judges"] if each["name"] == "offline")
    assert [(each["reference"], each["held_out"]) for each in offline["calibrations"]] == [("data", True)]
    assert offline["calibrations"][0]["judges"]["one"]["kappa"] == 1.0
    assert offline["measured"]["agreement"]["method"] == "leave-one-repository-out"
    assert "calibrated against data: matching kappa 1.00" in run("list")
    other = read("calibrate", "--judge", "offline:threshold=0.4", "--against", str(folder))
    assert other["judge"]["key"] != offline["key"]


def test_people_are_not_calibrated_against_themselves() -> None:
    """The reference judge is the people's own word: agreement with itself would say nothing."""
    assert "are people's own" in refused("calibrate", "--judge", "reference", "--against", "showcase")


def test_a_corpus_with_reference_judgments() -> None:
    """The showcase: each recorded reviewer, counted from people's judgments; held out, because never trained on."""
    found = read("calibrate", "--judge", "offline", "--against", "showcase")
    assert list(found["judges"]) == ["people"]
    assert set(found["judges"]["people"]["tools"]) == {"careful", "eager"}
    assert (found["held_out"], found["examples"]["motivating"], found["classifier"]) == (True, 0, None)


def test_a_classifier_through_a_real_server() -> None:
    """claude with the scripted model: matches and every axis are measured, and the judge is named as fake."""
    found = read("calibrate", "--judge", "claude", "--fake-model", "--against", "showcase", "--pr", "ledger-41")
    assert found["judge"]["name"] == "claude-fake-model"
    axes = {each["axis"]: each for each in found["classifier"]["people"]}
    assert set(axes) >= {"tp_fp", "severity", "category", "scope"}
    severity = axes["severity"]
    ordered = severity["ordered"]
    off = sum(count for people, row in severity["confusion"].items() for judge, count in row.items() if people != judge)
    assert ordered["higher"] + ordered["lower"] == off
    assert severity["n"] + severity["unanswered"] == sum(
        sum(row.values()) for row in axes["tp_fp"]["confusion"].values()
    )
    assert found["restricted"] is True


def labels(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text(json.dumps({"format": "crb.labels/1", "rater": "Anna", "labels": list(rows)}), encoding="utf-8")
    return path


def test_label_files(tmp_path: Path) -> None:
    """Labels of golden findings measure a classifier; matches of a recorded finding measure a matcher."""
    corpus = read_showcase(bundled("corpus") / "showcase")
    entry = corpus.entry("ledger-41")
    golden = entry.golden[0].finding_id("ledger-41")
    judged = json.loads((bundled("corpus") / "showcase" / "reference" / "careful" / "ledger-41.json").read_text())
    finding = judged["judgments"][0]
    path = labels(
        tmp_path / "anna.json",
        {"pull_request": "ledger-41", "finding": golden, "tp_fp": "tp", "severity": "high"},
        {"pull_request": "ledger-41", "finding": finding["finding"], "matches": " ".join(finding["matches"])},
    )
    found = read("calibrate", "--judge", "claude", "--fake-model", "--against", str(path))
    assert found["reference"]["kind"] == "labels"
    assert [axis["axis"] for axis in found["classifier"]["Anna"]] == ["tp_fp", "severity"]
    assert list(found["judges"]["Anna"]["tools"]) == ["careful"]
    assert found["judges"]["Anna"]["n"] > 0


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"pull_request": "nowhere-1", "finding": "g-000000000000", "tp_fp": "tp"}, "has no pull request 'nowhere-1'"),
        ({"pull_request": "ledger-41", "finding": "g-000000000000", "tp_fp": "tp"}, "no finding 'g-000000000000'"),
    ],
)
def test_labels_of_nothing(tmp_path: Path, row: dict[str, str], problem: str) -> None:
    """A label whose finding is nowhere is an error with its place, not a lost row."""
    path = labels(tmp_path / "anna.json", row)
    assert problem in refused("calibrate", "--judge", "claude", "--fake-model", "--against", str(path))


def test_wrong_references(tmp_path: Path, folder: Path) -> None:
    """A matcher against labels only, a folder without evaluations, an unknown corpus, a broken file."""
    golden = read_showcase(bundled("corpus") / "showcase").entry("ledger-41").golden[0].finding_id("ledger-41")
    path = labels(tmp_path / "a.json", {"pull_request": "ledger-41", "finding": golden, "tp_fp": "tp"})
    assert "does not classify" in refused("calibrate", "--judge", "offline", "--against", str(path))
    for file in folder.glob("results/*/*.json"):
        file.unlink()
    assert "results" in refused("calibrate", "--judge", "offline", "--against", str(folder))
    assert "no corpus named" in refused("calibrate", "--judge", "offline", "--against", "unknown")
    path.write_text("{")
    assert "a.json" in refused("calibrate", "--judge", "offline", "--against", str(path))


def test_a_calibration_that_cannot_be_a_council(folder: Path) -> None:
    """A council needs the judgments of a sweep; the command is one of the help's."""
    assert "at least two judges" in refused("calibrate", "--judge", "council:judges=a", "--against", str(folder))
    result = CliRunner().invoke(whole, ["judge", "--help"], catch_exceptions=False)
    assert all(name in result.output for name in ("calibrate", "compare", "rejudge", "agreement"))


def test_a_budget_ends_a_calibration_before_it_is_passed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was spent stays under --max-cost, and the next run pays only for what has no stored answer."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    arguments = ("calibrate", "--judge", "claude", "--against", "showcase", "--pr", "ledger-41")
    with AnthropicServer(ReadingModel()) as server:
        monkeypatch.setenv("CRB_JUDGE_BASE_URL", server.base_url)
        with pytest.raises(BudgetError, match=r"would pass the limit of \$0.25") as stopped:
            CliRunner().invoke(app, [*arguments, "--max-cost", "0.25"], catch_exceptions=False)
        assert "not paid twice" in str(stopped.value)
        first = len(server.requests)
        assert first > 0
        assert 0 < spent(home) <= 0.25
        found = read(*arguments)
        asked = len(server.requests)
        assert asked > first
        # A run whose answers are all stored costs nothing, so no limit is too low for it.
        assert read(*arguments, "--max-cost", "0") == found
        assert len(server.requests) == asked
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        (repeated,) = connection.execute("SELECT count(*) - count(DISTINCT request_hash) FROM judge_call").fetchone()
    assert repeated == 0


def spent(home: Path) -> float:
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        (price,) = connection.execute("SELECT sum(list_price_usd) FROM judge_call").fetchone()
    return float(price)


def test_a_hybrid_judge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured as one judge, and what its offline part was trained on is left out."""
    arguments = ("calibrate", "--judge", "hybrid:low=0.01,high=0.99", "--fake-model", "--against", str(folder))
    found = read(*arguments)
    assert (found["judge"]["name"], found["judge"]["fake_model"]) == ("hybrid-fake-model", True)
    assert found["judges"]["one"]["n"] == 4
    assert found["held_out"] is True
    tuned(monkeypatch, URL.format(1), URL.format(2))
    assert "was tuned on all 2 pull requests" in refused(*arguments)
