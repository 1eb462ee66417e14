"""From comments, reports and reviews to a golden set that people have gone over: propose, label, audit, dedup."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crb_cli.main import app
from crb_core.bundled import bundled
from crb_core.diff import DiffIndex
from crb_core.formats.showcase import read_showcase
from crb_core.store import open_store
from crb_core.store.corpora import save_corpus
from tests.crb_cli.commands import Commands

commands = Commands(app)
run, read, refused = commands.run, commands.read, commands.refused

KEY = "ledger-41"
WHOLE = read_showcase(bundled("corpus") / "showcase")
ENTRY = WHOLE.entry(KEY)
CORPUS = WHOLE.model_copy(update={"name": "one", "entries": (ENTRY,), "subsets": {}})
HEAD = ENTRY.pull_request.head


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    store = open_store(f"sqlite:///{tmp_path / 'home' / 'crb.sqlite'}")
    with store.write() as connection:
        save_corpus(connection, CORPUS)
    store.close()
    return tmp_path / "home"


def comment(number: int, body: str, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "path": "ledger/api.py",
        "original_line": 50,
        "original_commit_id": HEAD,
        "body": body,
        "user": {"login": "ann", "type": "User"},
    } | more


@pytest.fixture
def comments(tmp_path: Path) -> Path:
    given = [
        comment(1, "The amount goes through float."),
        comment(2, "Nothing of this stands here: xyzzy."),
        comment(3, "Yes.", in_reply_to_id=1),
        comment(4, "Beep.", user={"login": "helper[bot]"}),
        comment(5, "Long ago.", original_commit_id="0" * 40),
    ]
    path = tmp_path / f"{KEY}.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    return path


def changed_and_unchanged_line() -> tuple[int, int]:
    """A line of ledger/api.py that the change wrote, and one that it only shows as context."""
    diff = (bundled("corpus") / "showcase" / "pull_requests" / KEY / "change.patch").read_text(encoding="utf-8")
    file = DiffIndex.parse(diff.encode()).files["ledger/api.py"]
    context = next(line for line in range(*file.hunks[0]) if line not in file.added)
    return file.added[0], context


def sarif(*lines: int) -> dict[str, Any]:
    return {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "checker", "version": "3.1"}},
                "results": [
                    {
                        "ruleId": "R1",
                        "message": {"text": f"Rule R1 on {line}."},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": "ledger/api.py"},
                                    "region": {"startLine": line},
                                }
                            }
                        ],
                    }
                    for line in lines
                ],
            }
        ],
    }


def golden(corpus: str) -> list[dict[str, Any]]:
    found = read("corpus", "show", corpus)
    return list(next(each for each in found["pull_requests"] if each["key"] == KEY)["golden"])


def test_comments_become_proposals(comments: Path) -> None:
    """Comments of people with place, author and replies; everything else is named with its reason."""
    summary = read("corpus", "propose", "one", "github-review-comments", comments.name, "--out", "p.json")
    assert (summary["origin"], summary["proposals"]) == ("human_review", 2)
    assert [each["kind"] for each in summary["left_out"]] == [
        "reply",
        "comment by a bot",
        "comment that cannot be placed",
    ]
    document = json.loads(Path("p.json").read_text(encoding="utf-8"))
    first = document["proposals"][0]
    assert (first["pull_request"], first["file"], first["start_line"], first["producer"]) == (
        KEY,
        "ledger/api.py",
        50,
        "human_review",
    )
    source = first["source"]
    assert (source["type"], source["alignment"], source["author"]) == ("review_comment", "on_chosen_head", "ann")
    assert [each["body"] for each in source["replies"]] == ["Yes."]


def test_reports_count_on_changed_lines() -> None:
    """A violation on a line that the change wrote is proposed; one on a context line is named; the version is read."""
    changed, context = changed_and_unchanged_line()
    Path("r.json").write_text(json.dumps(sarif(changed, context)), encoding="utf-8")
    summary = read(
        *("corpus", "propose", "one", "sarif", "r.json", "--pr", KEY, "--producer", "tool:checker"),
        *("--setting", "select=R", "--out", "p.json"),
    )
    assert summary["proposals"] == 1
    assert summary["producers"] == [
        {"name": "tool:checker", "version": "3.1", "configuration": {"select": "R"}, "note": ""}
    ]
    assert [each["kind"] for each in summary["left_out"]] == ["tool's finding on no changed line"]
    (made,) = json.loads(Path("p.json").read_text(encoding="utf-8"))["proposals"]
    assert (made["start_line"], made["source"]["type"], made["source"]["rule"]) == (changed, "tool", "R1")


def test_reviews_of_agents_become_proposals() -> None:
    """Anchors and messages as the agent gave them, wherever they are; with --tool only those on changed lines."""
    changed, context = changed_and_unchanged_line()
    Path("r.json").write_text(json.dumps(sarif(changed, context, 900)), encoding="utf-8")
    run("sweep", "import", "sarif", "r.json", "--corpus", "one", "--name", "s", "--agent", "bot", "--pr", KEY)
    summary = read("corpus", "propose", "one", "sweep", "s", "--out", "all.json")
    assert (summary["origin"], summary["proposals"], summary["left_out"]) == ("llm_review", 3, [])
    assert [each["name"] for each in summary["producers"]] == ["bot"]
    assert summary["producers"][0]["configuration"]["build"].startswith("b-")
    assert read("corpus", "propose", "one", "sweep", "s", "--tool", "--out", "tool.json")["proposals"] == 1
    assert read("corpus", "propose", "one", "sweep", "s", "--round", "2", "--out", "2.json")["proposals"] == 0
    assert "no agent 'nobody'" in refused(
        "corpus", "propose", "one", "sweep", "s", "--agent", "nobody", "--out", "x.json"
    )


def test_from_proposals_to_a_reviewed_golden_set(comments: Path, home: Path) -> None:
    """Labelled by the classifier with its fingerprint beside every axis, audited by people, and never by surprise."""
    run("corpus", "propose", "one", "github-review-comments", comments.name, "--out", "p.json")
    dry = read("corpus", "label", "one", "p.json", "--dry-run", "--fake-model")
    assert (dry["new_findings"], dry["labelled_tp"], dry["saved_as"]) == (2, None, None)
    made = read("corpus", "label", "one", "p.json", "--save", "mine", "--fake-model")
    assert (made["new_findings"], made["labelled_tp"], made["fake_model"]) == (2, 1, True)
    before = golden("one")
    labelled = golden("mine")
    assert labelled[:-2] == before
    first, second = labelled[-2:]
    assert (first["label"]["tp_fp"], second["label"]["tp_fp"]) == ("tp", "fp")
    assert set(first["label"]["provenance"].values()) == {made["classifier"]}
    assert set(first["label"]["provenance"]) == {
        *("tp_fp", "severity", "category", "scope", "difficulty", "context_required", "actionability")
    }
    assert first["source"]["type"] == "review_comment"

    # Again: the same corpus, and no call is made.
    again = read("corpus", "label", "one", "p.json", "--save", "mine", "--fake-model", "--max-cost", "0")
    assert again["saved_fingerprint"] == made["saved_fingerprint"]
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM corpus WHERE name = 'mine'").fetchone() == (1,)

    # What is there is not added twice.
    document = json.loads(Path("p.json").read_text(encoding="utf-8"))
    Path("p2.json").write_text(json.dumps({**document, "corpus": "mine"}), encoding="utf-8")
    repeated = read("corpus", "label", "mine", "p2.json", "--dry-run", "--fake-model")
    assert (repeated["new_findings"], repeated["repeated"]) == (0, 2)

    run("export", "labels", "--corpus", "mine", "--filled", "--out", "all.csv")
    with Path("all.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == sum(len(each.golden) for each in CORPUS.entries) + 2
    mine = [row for row in rows if row["finding"] in (first["finding_id"], second["finding_id"])]
    mine[0]["severity"], mine[1]["tp_fp"] = "high", "tp"
    with Path("anna.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(mine)
    audit = read("corpus", "audit", "mine", "anna.csv", "--save", "audited")
    figures = {each["axis"]: each for each in audit["axes"]}
    assert {each["by"] for each in audit["axes"]} == {made["classifier"]}
    assert (figures["tp_fp"]["n"], figures["tp_fp"]["equal"], figures["tp_fp"]["agreement"]) == (2, 1, 0.5)
    assert (figures["severity"]["equal"], figures["severity"]["people_higher"]) == (1, 1)
    assert [(each["axis"], each["was"], each["now"]) for each in audit["changes"]] == [
        ("severity", "low", "high"),
        ("tp_fp", "fp", "tp"),
    ]
    changed = golden("audited")[-2:]
    assert changed[0]["label"]["provenance"]["severity"] == "human-corrected"
    assert changed[0]["label"]["provenance"]["tp_fp"] == "human"
    assert "tp_fp_justification" not in changed[1]["label"]
    assert golden("mine")[-2:] == [first, second]

    # People's labels are measured examples now, and are left alone by any later classifier.
    found = read("corpus", "label", "audited", "--relabel", "--save", "later", "--fake-model")
    assert (found["relabelled_findings"], found["changes"]) == (0, [])
    assert read("corpus", "show", "audited")["label_provenance"]["tp_fp"]["human-corrected"] == 1


def test_a_recalibrated_classifier_labels_anew(comments: Path) -> None:
    """Only what the older one labelled; each change is listed."""
    run("corpus", "propose", "one", "github-review-comments", comments.name, "--out", "p.json")
    run("corpus", "label", "one", "p.json", "--save", "mine", "--fake-model")
    other = "claude:turns=3"
    found = read("corpus", "label", "mine", "--relabel", "--judge", other, "--save", "newer", "--fake-model")
    assert (found["new_findings"], found["relabelled_findings"], found["changes"]) == (0, 2, [])
    labels = [each["label"]["provenance"]["tp_fp"] for each in golden("newer")[-2:]]
    assert labels == [found["classifier"]] * 2
    assert found["classifier"] != golden("mine")[-1]["label"]["provenance"]["tp_fp"]


def test_what_is_refused_before_anything_is_done(comments: Path) -> None:
    """Each in one sentence; no file and no corpus is made."""
    propose = ("corpus", "propose", "one")
    assert "no format" in refused(*propose, "guess", "x", "--out", "p.json")
    assert "means nothing" in refused(*propose, "sweep", "s", "--pr", KEY, "--out", "p.json")
    assert "--producer" in refused(*propose, "sarif", comments.name, "--out", "p.json")
    assert "KEY=VALUE" in refused(
        *propose, "github-review-comments", comments.name, "--setting", "x", "--out", "p.json"
    )
    assert not Path("p.json").exists()
    run(*propose, "github-review-comments", comments.name, "--out", "p.json")
    assert "already there" in refused(*propose, "github-review-comments", comments.name, "--out", "p.json")
    label = ("corpus", "label", "one")
    assert "nothing to label" in refused(*label, "--save", "x")
    assert "corpus of their own" in refused(*label, "p.json")
    assert "take its own place" in refused(*label, "p.json", "--save", "one")
    assert "named 'A B'" in refused(*label, "p.json", "--save", "A B")
    assert "labels no golden findings" in refused(*label, "p.json", "--save", "x", "--judge", "offline")
    document = json.loads(Path("p.json").read_text(encoding="utf-8"))
    Path("other.json").write_text(json.dumps({**document, "corpus": "elsewhere"}), encoding="utf-8")
    assert "for the corpus elsewhere" in refused(*label, "other.json", "--save", "x")
    Path("anna.csv").write_text("pull_request,finding,tp_fp\nledger-41,g-none,tp\n", encoding="utf-8")
    assert "no golden finding g-none" in refused("corpus", "audit", "one", "anna.csv", "--save", "x")
    known = ENTRY.golden[0].finding_id(KEY)
    Path("empty.csv").write_text(f"pull_request,finding,tp_fp\n{KEY},{known},\n", encoding="utf-8")
    assert "hold no answer" in refused("corpus", "audit", "one", "empty.csv", "--save", "x")
    assert "no label axis" in refused(*label, "--fill", "scop", "--save", "x")
    assert "neither a sweep nor a corpus" in refused("export", "labels", "--out", "l.csv")
    assert [each["name"] for each in read("corpus", "list")["corpora"]] == ["one", "showcase"]


def test_no_stored_corpus_takes_the_name_of_a_bundled_one() -> None:
    """By its name always the bundled one would be found, and its numbers be shown for the other's."""
    for command in (
        ("corpus", "dedup", "one"),
        ("corpus", "audit", "one", "x.csv"),
        ("corpus", "label", "one", "--relabel"),
        ("dispute", "apply", "one"),
    ):
        assert "name of a bundled corpus" in refused(*command, "--save", "showcase")
    assert "name of a bundled corpus" in refused("corpus", "import", "reviewbench", ".", "--name", "showcase")
