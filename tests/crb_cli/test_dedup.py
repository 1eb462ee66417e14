"""Findings of one issue, grouped by a judge's matcher: goldens of several producers, candidates of one review."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crb_cli.main import app
from crb_core.bundled import bundled
from crb_core.corpus import Corpus
from crb_core.formats.showcase import read_showcase
from crb_core.matching import Correspondence
from crb_core.store import open_store
from crb_core.store.corpora import find_corpus, load_corpus, save_corpus
from crb_worker.judge.dedup import duplicate_groups
from tests.crb_cli.commands import Commands
from tests.crb_cli.judge_worker import broker_of_a_farm, judge_what_is_ready

commands = Commands(app)
run = commands.run
refused = commands.refused

GOLDEN = "`total_price` rounds before it sums, so cents are lost."
AGAIN = "total_price loses cents because it rounds each price before it sums them."
OTHER = "The cache in `find_user` is never emptied."
URL = "https://github.com/owner/shop/pull/1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def stored(home: Path, name: str) -> Corpus:
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    try:
        with store.read() as connection:
            return load_corpus(connection, find_corpus(connection, name))
    finally:
        store.close()


@pytest.fixture
def corpus(home: Path) -> Corpus:
    """One pull request of the showcase with three goldens: two producers say one thing, one of them another."""
    entry = read_showcase(bundled("corpus") / "showcase").entry("ledger-41")
    first = entry.golden[0]

    def like(message: str, producer: str, severity: str) -> Any:
        label = first.label.model_copy(update={"severity": severity, "provenance": {"tp_fp": "human"}})
        return first.model_copy(update={"message": message, "producer": producer, "label": label})

    goldens = (like(GOLDEN, "people", "high"), like(OTHER, "people", "low"), like(AGAIN, "tool", "low"))
    made = Corpus(
        name="pair", version="1", title="t", source="none", entries=(entry.model_copy(update={"golden": goldens}),)
    )
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        save_corpus(connection, made)
    store.close()
    return made


def test_goldens_of_two_producers(home: Path, corpus: Corpus) -> None:
    """The repeated one is named with the conflict; only --save makes another corpus, and the first stays as it was."""
    found = json.loads(run("corpus", "dedup", "pair", "--json"))
    ids = [golden.finding_id("ledger-41") for golden in corpus.entries[0].golden]
    (pull_request,) = found["pull_requests"]
    (group,) = pull_request["groups"]
    assert (group["survivor"], group["dropped"], group["producers"]) == (ids[0], [ids[2]], ["people", "tool"])
    assert [conflict["axis"] for conflict in group["conflicts"]] == ["severity"]
    assert found["saved_as"] is None
    said = run("corpus", "dedup", "pair", "--save", "pair-once")
    assert "1 of 3 golden findings repeat another one; stored as pair-once" in said
    assert [golden.message for golden in stored(home, "pair-once").entries[0].golden] == [GOLDEN, OTHER]
    assert stored(home, "pair") == corpus


def test_names_that_cannot_be(corpus: Corpus) -> None:
    """A corpus never replaces itself, and a name has its form."""
    assert "its own place" in refused("corpus", "dedup", "pair", "--save", "pair")
    assert "cannot be named" in refused("corpus", "dedup", "pair", "--save", "No Name")


def benchmark(root: Path) -> Path:
    files: dict[str, Any] = {
        "golden_comments/shop.json": [
            {"pr_title": "t", "url": URL, "comments": [{"comment": GOLDEN, "severity": "High"}]}
        ],
        "results/one/candidates.json": {URL: {"a": [{"text": AGAIN}, {"text": OTHER}, {"text": AGAIN}]}},
        "results/one/evaluations.json": {
            URL: {"a": {"true_positives": [], "false_positives": ["made up"], "false_negatives": []}}
        },
    }
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")
    return root


def test_candidates_of_one_review(tmp_path: Path) -> None:
    """Equal texts are a group; every extracted candidate is in exactly one; the importer reads what was written."""
    root = benchmark(tmp_path / "data")
    found = json.loads(run("judge", "dedup", str(root), "--out", str(root / "results"), "--json"))
    written = json.loads((root / "results" / "one" / "dedup_groups.json").read_text())
    assert written == {URL: {"a": [[0, 2], [1]]}}
    assert found["repeated"] == 1
    run("corpus", "import", "golden-comments", str(root), "--name", "shop")
    said = run("sweep", "import", "golden-comments", str(root), "--corpus", "shop", "--name", "shops")
    assert "stale dedup group" not in said


def test_only_what_is_missing_is_grouped(tmp_path: Path) -> None:
    """Seed C, step 2.5: one tool, incremental, or all anew; groups of other candidates are refused, not kept."""
    root = benchmark(tmp_path / "data")
    candidates = root / "results" / "one" / "candidates.json"
    found = json.loads(candidates.read_text())
    found[URL]["b"] = [{"text": AGAIN}, {"text": OTHER}]
    candidates.write_text(json.dumps(found), encoding="utf-8")
    target = tmp_path / "out" / "one" / "dedup_groups.json"
    command = ("judge", "dedup", str(root), "--out", str(tmp_path / "out"), "--json")

    def counts(*more: str) -> tuple[int, int]:
        printed = json.loads(run(*command, *more))
        return printed["reviews"], printed["kept"]

    assert counts("--agent", "b") == (1, 0)
    assert json.loads(target.read_text()) == {URL: {"b": [[0], [1]]}}
    assert counts() == (1, 1)
    whole = {URL: {"a": [[0, 2], [1]], "b": [[0], [1]]}}
    assert json.loads(target.read_text()) == whole
    assert counts() == (0, 2)
    for stale in ([[0, 2]], [[0], [1], [2], [3]], [[0], [1], [1], [2]], [[0, True], [2]], "x"):
        target.write_text(json.dumps({URL: {"a": stale}}), encoding="utf-8")
        assert "are not of its 3 candidates" in refused(*command)
    assert counts("--force", "--agent", "a") == (1, 0)
    assert json.loads(target.read_text())[URL]["a"] == whole[URL]["a"]
    assert "no review by 'nobody'" in refused(*command, "--agent", "nobody")
    target.write_text("[]", encoding="utf-8")
    assert "does not map" in refused(*command)


def test_no_candidates(tmp_path: Path) -> None:
    """Nothing to group is an error that says what is needed, not an empty file."""
    root = benchmark(tmp_path / "data")
    (root / "results" / "one" / "candidates.json").unlink()
    assert "no candidates" in refused("judge", "dedup", str(root), "--out", str(tmp_path / "out"))


def test_the_same_by_claude(home: Path, corpus: Corpus) -> None:
    """The judge's own matcher decides, in both directions; its answers are kept, so a second run makes no call."""
    command = ("corpus", "dedup", "pair", "--judge", "claude", "--fake-model", "--json")
    found = json.loads(run(*command))
    ids = [golden.finding_id("ledger-41") for golden in corpus.entries[0].golden]
    (pull_request,) = found["pull_requests"]
    (group,) = pull_request["groups"]
    assert (group["survivor"], group["dropped"]) == (ids[0], [ids[2]])
    assert found["judge"] == "claude-fake-model"
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        made = connection.execute("SELECT stage, trial_id, count(*) FROM judge_call").fetchall()
        assert made == [("match", None, 1)]
        assert json.loads(run(*command)) == found
        assert connection.execute("SELECT count(*) FROM judge_call").fetchone() == (1,)


def test_candidates_by_claude(tmp_path: Path) -> None:
    """One question for the review of each extraction."""
    root = benchmark(tmp_path / "data")
    out = str(root / "results")
    found = json.loads(run("judge", "dedup", str(root), "--out", out, "--judge", "claude", "--fake-model", "--json"))
    written = json.loads((root / "results" / "one" / "dedup_groups.json").read_text())
    assert written == {URL: {"a": [[0, 2], [1]]}}
    assert (found["repeated"], found["judge"]) == (1, "claude-fake-model")


class OneWay:
    """Says that the first finding matches all, and nothing else."""

    name = fingerprint = "one-way"
    classifies = False

    def describe(self) -> dict[str, Any]:
        return {}

    def match(self, key: str, candidates: Any, golden: Any, *, protocol: str) -> tuple[Correspondence, ...]:
        return tuple(
            Correspondence(candidate=place, golden=tuple(range(len(golden))) if place == 0 else (place,))
            for place in range(len(candidates))
        )


def test_one_direction_is_not_enough(corpus: Corpus) -> None:
    """A vague finding that touches every other one hides none of them."""
    goldens = corpus.entries[0].golden
    assert duplicate_groups(OneWay(), "ledger-41", goldens, protocol="reviewbench") == ()
    assert duplicate_groups(OneWay(), "ledger-41", (*goldens, goldens[1]), protocol="reviewbench") == ((1, 3),)
    assert duplicate_groups(OneWay(), "ledger-41", goldens[:1], protocol="reviewbench") == ()


def test_groups_count_for_every_judge_of_the_review(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed C, step 2.5: a judge that crb runs charges one false positive a group, as the imported one does."""
    root = benchmark(tmp_path / "data")
    run("judge", "dedup", str(root), "--out", str(root / "results"))
    run("corpus", "import", "golden-comments", str(root), "--name", "shop")
    run("sweep", "import", "golden-comments", str(root), "--corpus", "shop", "--name", "shops")
    with broker_of_a_farm(tmp_path / "broker") as url:
        with monkeypatch.context() as patch:
            patch.setenv("CRB_BROKER_URL", url)
            run("judge", "run", "shops", "--judge", "offline:threshold=0.999", "--json")
        judge_what_is_ready(monkeypatch, url)
    # Three of four candidates are one issue; the fourth is made up from an evaluation and in no group.
    for options, fp in (((), 3), (("--no-dedup",), 4)):
        board = json.loads(run("leaderboard", "shops", "--profile", "none", "--judge", "offline", *options, "--json"))
        assert [(row["tp"], row["fp"], row["reviews_with_dedup_groups"]) for row in board["rows"]] == [(0, fp, 1)]
    said = run("leaderboard", "shops", "--profile", "none", "--judge", "offline")
    assert "dedup on (1 reviews have groups)" in said
    with closing(sqlite3.connect(home / "crb.sqlite")) as connection:
        (score,) = connection.execute(
            "SELECT score.document FROM score JOIN judgment ON judgment.id = score.judgment_id JOIN judge "
            "ON judge.id = judgment.judge_id WHERE judge.name = 'offline'"
        ).fetchone()
    assert json.loads(score)["micro"]["overall"]["fp"] == 3
    assert "judge offline: precision 0.000, recall undefined (profile core)" in run("trial", "show", "1")
    run("export", "sweep", "shops", "--out", str(tmp_path / "shops.tar"))
    run("verify", str(tmp_path / "shops.tar"))


def test_a_new_tool_s_summary_repeats_its_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed C, *Deduplicates*: an imported review that says it twice is charged once, and the record says by whom."""
    root = benchmark(tmp_path / "data")
    run("corpus", "import", "golden-comments", str(root), "--name", "shop")
    key = json.loads(run("corpus", "show", "shop", "--json"))["pull_requests"][0]["key"]
    comments = [{"path": "cart.py", "line": 7, "body": AGAIN}, {"body": AGAIN}, {"path": "user.py", "body": OTHER}]
    (tmp_path / "new.json").write_text(json.dumps(comments), encoding="utf-8")
    command = ("sweep", "import", "github-review-comments", str(tmp_path / "new.json"), "--pr", key, "--agent", "new")
    given = (*command, "--corpus", "shop", "--name", "news", "--dedup", "offline", "--json")
    found = json.loads(run(*given))
    assert (found["dedup"]["judge"], found["dedup"]["reviews"], found["dedup"]["repeated"]) == ("offline", 1, 1)
    assert json.loads(run(*given))["new_reviews"] == 0
    source = json.loads(run("trial", "show", "1", "--json"))["attempts"][0]["source"]
    assert source["dedup_groups"] == [[0, 1], [2]]
    assert source["dedup"] == f"offline {found['dedup']['fingerprint']}"
    with broker_of_a_farm(tmp_path / "broker") as url:
        with monkeypatch.context() as patch:
            patch.setenv("CRB_BROKER_URL", url)
            run("judge", "run", "news", "--judge", "offline:threshold=0.999", "--json")
        judge_what_is_ready(monkeypatch, url)
    for options, fp in (((), 2), (("--no-dedup",), 3)):
        (row,) = json.loads(run("leaderboard", "news", "--profile", "none", *options, "--json"))["rows"]
        assert (row["tp"], row["fp"]) == (0, fp)
    showcase = (*command[:4], "--pr", "ledger-41", "--agent", "new", "--corpus", "showcase", "--name", "other")
    assert "the protocol reviewbench has no dedup groups" in refused(*showcase, "--dedup", "offline")
