"""``crb corpus import|list|show`` and ``crb sweep import``: stored once, reported whole, counted right."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from crb_cli.main import run
from tests.crb_core.formats import imported_samples as samples

#: Real data of the golden-comments benchmark and of ReviewBench; never part of this repository.
SHARED_DATA = Path(os.environ.get("CRB_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_shared_data = pytest.mark.skipif(
    not (SHARED_DATA / "golden-comments" / "published_table.json").is_file(),
    reason="the shared data is not here; CRB_SHARED_DATA names its folder",
)


class Crb:
    """Runs ``crb`` in this process, with a home of its own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for name in ("CRB_STORE_URL", "CRB_EVIDENCE_URL", "CRB_BROKER_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("CRB_HOME", str(home))
        monkeypatch.setenv("COLUMNS", "200")

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, output and error text."""
        self._monkeypatch.setattr("sys.argv", ["crb", *map(str, arguments)])
        code = 0
        try:
            run()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def json(self, *arguments: object) -> Any:
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    def rows(self) -> dict[str, list[Any]]:
        """Every row of every table."""
        with sqlite3.connect(self.home / "crb.sqlite") as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}"))) for name in names}


@pytest.fixture
def crb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Crb:
    monkeypatch.chdir(tmp_path)
    return Crb(tmp_path / "home", monkeypatch, capsys)


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    return samples.write_files(tmp_path / "benchmark", samples.benchmark_files())


@pytest.fixture
def reviewbench(tmp_path: Path) -> Path:
    return samples.write_files(tmp_path / "reviewbench", samples.rb_files())


def _import(crb: Crb, folder: Path) -> dict[str, Any]:
    crb.json("corpus", "import", "golden-comments", folder, "--name", "widgets")
    found: dict[str, Any] = crb.json(
        "sweep", "import", "golden-comments", folder, "--corpus", "widgets", "--name", "published"
    )
    return found


def test_golden_comments_are_imported_once(crb: Crb, benchmark: Path) -> None:
    """The same import again writes no row."""
    first = _import(crb, benchmark)
    before = crb.rows()
    again = _import(crb, benchmark)
    assert crb.rows() == before
    assert (first["new_reviews"], first["new_judgments"]) == (4, 3)
    assert (again["new_reviews"], again["new_judgments"], again["reviews"]) == (0, 0, 4)
    assert first["sweep_id"] == again["sweep_id"]


def test_every_file_is_kept_as_evidence_and_every_irregularity_reported(crb: Crb, benchmark: Path) -> None:
    """Byte for byte, under the digest that the report names."""
    report = _import(crb, benchmark)
    assert sorted(report["files"]) == sorted(
        name for name in samples.benchmark_files() if "/vendor" in name or "data" in name
    )
    for name, digest in report["files"].items():
        assert (crb.home / "evidence" / digest[:2] / digest).read_bytes() == (benchmark / name).read_bytes()
    assert report["irregularity_counts"] == {
        "displaced candidate": 1,
        "review without extraction": 1,
        "trigger text": 1,
    }
    assert {each["kind"] for each in report["irregularities"]} == set(report["irregularity_counts"])
    assert all(not Path(each["file"]).is_absolute() for each in report["irregularities"])


def test_a_changed_review_is_refused_and_nothing_is_half_written(crb: Crb, benchmark: Path) -> None:
    """A stored review is never overwritten; the whole import is one transaction."""
    _import(crb, benchmark)
    before = crb.rows()
    value = samples.candidates()
    value[samples.OTHER_URL]["alpha"][0]["text"] = "Another finding"
    value[samples.URL]["delta"] = [{"text": "New tool"}]
    samples.write_files(benchmark, {f"results/{samples.MODEL}/candidates.json": value})
    code, out, err = crb("sweep", "import", "golden-comments", benchmark, "--corpus", "widgets", "--name", "published")
    assert (code, out) == (1, "")
    assert f"The sweep has another review of {samples.OTHER_KEY} by alpha in round 1" in err
    assert crb.rows() == before


def test_new_labels_update_the_stored_pull_requests(crb: Crb, benchmark: Path) -> None:
    """Traits decide no number, so the corpus stays the same one."""
    labels = benchmark / "results" / "pr_labels.json"
    text = labels.read_text()
    labels.unlink()
    first = crb.json("corpus", "import", "golden-comments", benchmark, "--name", "widgets")
    labels.write_text(text)
    second = crb.json("corpus", "import", "golden-comments", benchmark, "--name", "widgets")
    assert (first["new"], second["new"], second["updated"]) == (True, False, 1)
    shown = crb.json("corpus", "show", "widgets")
    assert shown["pull_requests"][0]["traits"]["language"] == "Go"
    assert len(shown["imports"]) == 2


def test_the_compatible_leaderboard(crb: Crb, benchmark: Path) -> None:
    """Recorded lists are counted; the row names agent and judge."""
    _import(crb, benchmark)
    board = crb.json("leaderboard", "--protocol", "golden-comments", "--compatible", "--judge", samples.MODEL)
    assert (board["counting"], board["sweep"], board["beta"]) == ("compatible", "published", 1.0)
    rows = {row["agent"]: row for row in board["rows"]}
    assert [rows["alpha"][name] for name in ("tp", "fp", "fn")] == [3, 3, 2]
    assert rows["alpha"]["precision"] == 0.5
    assert rows["alpha"]["recall"] == pytest.approx(3 / 5)
    assert rows["alpha"]["macro_f1"] == pytest.approx((2 * 0.6 * 0.75 / 1.35 + 0) / 2)
    assert [rows["beta"][name] for name in ("tp", "fp", "fn", "f", "reviews")] == [0, 1, 1, 0.0, 1]
    assert {row["judge"] for row in board["rows"]} == {samples.MODEL}


def test_the_strict_leaderboard(crb: Crb, benchmark: Path) -> None:
    """Profile, dedup groups, displaced candidates and missing categories."""
    _import(crb, benchmark)

    def alpha(*options: str) -> tuple[Any, ...]:
        board = crb.json("leaderboard", "published", *options)
        assert board["counting"] == "strict"
        (row,) = [each for each in board["rows"] if each["agent"] == "alpha"]
        return tuple(row[name] for name in ("tp", "fp", "fn", "matched_excluded_count", "match_unrecorded_count"))

    assert alpha() == (2, 2, 1, 1, 1)
    assert alpha("--profile", "strict") == (2, 2, 0, 1, 1)
    assert alpha("--profile", "all") == (3, 2, 1, 0, 1)
    assert alpha("--profile", "none") == (3, 2, 2, 0, 1)
    assert alpha("--profile", "all", "--no-dedup") == (3, 3, 1, 0, 1)


def test_a_row_with_missing_reviews_is_not_ranked(crb: Crb, benchmark: Path) -> None:
    """Beta reviewed one of two pull requests."""
    _import(crb, benchmark)
    board = crb.json("leaderboard", "published", "--profile", "none")
    (row,) = [each for each in board["rows"] if each["agent"] == "beta"]
    assert (row["rank"], row["tp"], row["f"]) == (None, None, None)
    assert "unranked: 1 of 2 reviews have no score" in row["marks"]


def test_golden_comments_are_compared(crb: Crb, benchmark: Path) -> None:
    """On the reviews that both have, counted inside the profile; what was not scored by both is said."""
    _import(crb, benchmark)
    found = crb.json("leaderboard", "compare", "alpha", "beta", "--profile", "none")
    counting = [found[name] for name in ("protocol", "counting", "profile", "dedup")]
    assert counting == ["golden-comments", "strict", None, True]
    assert {each["reason"] for each in found["pairs"][0]["comparisons"]} == {
        "no pull request was scored in the same round for both"
    }
    assert "unranked: 1 of 2 reviews have no score" in found["builds"][1]["marks"]
    shared = crb.json("leaderboard", "compare", "alpha", "beta", "--profile", "none", "--allow-partial", "--no-dedup")
    recall = [each for each in shared["pairs"][0]["comparisons"] if each["metric"] == "recall"]
    assert [(each["difference"], each["p"], each["pull_requests"]) for each in recall] == [(0.0, 1.0, 1)] * 2
    assert shared["dedup"] is False
    assert shared["pairs"][0]["tokens"]["reason"] == "no review reported tokens"


@pytest.mark.parametrize(("profile", "golden"), [("strict", 2), ("core", 3), ("all", 4), ("none", 5)])
def test_what_only_one_finds_is_counted_inside_the_profile(
    crb: Crb, benchmark: Path, profile: str, golden: int
) -> None:
    """As tp + fn of a row: a golden comment that no metric of the comparison counts is no finding in it either."""
    _import(crb, benchmark)
    (row,) = [
        each for each in crb.json("leaderboard", "published", "--profile", profile)["rows"] if each["agent"] == "alpha"
    ]
    found = crb.json("leaderboard", "compare", "alpha", "beta", "--profile", profile)["found_by"]
    assert found["golden_tp"] == golden == row["tp"] + row["fn"]
    only = {each["build"]: len(each["findings"]) for each in found["only"]}
    assert only[row["build"]] + found["all"] == row["tp"]


def test_golden_comments_have_distributions_and_usage(crb: Crb, benchmark: Path) -> None:
    """Of each trial's metrics; times and tokens where they were measured, else absent with the reason."""
    _import(crb, benchmark)
    arguments = ("--agent", "alpha", "--profile", "all")
    (row,) = crb.json("leaderboard", "distributions", *arguments, "--pull-request", samples.KEY)["rows"]
    assert {row["distributions"][name]["p50"] for name in ("precision", "recall", "f")} == {0.75}
    assert row["distributions"]["review_ms"]["reason"] == "only 0 of 1 scored trials measured it"
    usage = crb.json("leaderboard", "usage", *arguments)["rows"][0]
    assert usage["efficiency"]["ms_per_finding"]["reason"] == "only 0 of 2 scored reviews have a measured time"
    with sqlite3.connect(crb.home / "crb.sqlite") as connection:
        connection.execute("UPDATE attempt SET review_ms = 1500.0, usage = ?", (json.dumps({"total_tokens": 40}),))
    (row,) = crb.json("leaderboard", "distributions", *arguments)["rows"]
    assert (row["distributions"]["review_ms"]["p95"], row["distributions"]["review_ms"]["measured"]) == (1500.0, 2)
    usage = crb.json("leaderboard", "usage", *arguments)["rows"][0]
    assert usage["usage"]["metrics"]["total_tokens"]["total"] == 80


@pytest.mark.parametrize("command", [("published",), ("compare", "alpha", "beta")])
def test_an_unknown_producer_of_golden_comments_is_refused(crb: Crb, benchmark: Path, command: tuple[str, ...]) -> None:
    """It would leave nothing to find."""
    _import(crb, benchmark)
    code, _, err = crb("leaderboard", *command, "--producer", "nobody")
    assert code == 1
    assert "no golden finding is of the producer 'nobody'" in err


def test_golden_comments_have_no_ablation(crb: Crb, benchmark: Path) -> None:
    """One plain sentence, with what to do."""
    _import(crb, benchmark)
    code, _, err = crb("leaderboard", "ablation")
    assert code == 1
    assert "golden comments have one producer each" in err


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("leaderboard", "published", "--beta", "4"), 2, "takes 0.5 to 3"),
        (("leaderboard", "published", "--profile", "most"), 1, "there is no profile 'most'"),
        (("leaderboard", "published", "--compatible", "--profile", "all"), 1, "--compatible counts as the public tool"),
        (("leaderboard", "published", "--protocol", "reviewbench"), 1, "is of the protocol golden-comments"),
        (("leaderboard", "--protocol", "answer-key"), 1, "The store has no sweep of the protocol answer-key"),
        (("leaderboard", "published", "--judge", "nobody"), 1, "no judgments of nobody"),
        (("leaderboard", "published", "--severity", "blocker"), 1, "'blocker' is not a severity"),
        (("corpus", "import", "zip", ".", "--name", "x"), 2, "there is no format 'zip'"),
        (("corpus", "import", "golden-comments", "nowhere", "--name", "x"), 1, "there is no such folder"),
        (("corpus", "import", "golden-comments", ".", "--name", "../x"), 2, "is no usable name"),
        (("corpus", "show", "nothing"), 1, "There is no corpus named nothing"),
        (("sweep", "import", "sarif", "x.sarif", "--corpus", "widgets", "--name", "s"), 1, "the file does not exist"),
        (
            ("sweep", "import", "golden-comments", "benchmark", "--corpus", "widgets", "--name", "s", "--pr", "k"),
            2,
            "--pr means nothing",
        ),
    ],
)
def test_wrong_arguments_end_with_a_sentence(
    crb: Crb, benchmark: Path, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    """Exit code 2 where the command line is wrong, else 1; one sentence, no traceback."""
    _import(crb, benchmark)
    code, _, err = crb(*arguments)
    assert code == status
    assert sentence in err
    assert "Traceback" not in err


def test_a_reviewbench_corpus_with_a_review_and_its_details(crb: Crb, reviewbench: Path) -> None:
    """All four metrics come from the imported judgment; the legacy duration stands in, and is marked."""
    corpus = crb.json(
        "corpus", "import", "reviewbench", reviewbench / "corpus", "--name", "rb", "--mirror", "/m/{owner}/{repo}"
    )
    assert (corpus["pull_requests"], corpus["golden_findings"]) == (1, 2)
    report = crb.json("sweep", "import", "reviewbench", reviewbench / "reviews", "--corpus", "rb", "--name", "s")
    assert [judge["name"] for judge in report["judges"]] == ["judge-1"]
    (board,) = crb.json("leaderboard", "s")["leaderboards"]
    (row,) = board["rows"]
    macro = {name: value["mean"] for name, value in row["macro"].items()}
    assert (macro["grounded_precision"], macro["grounded_recall"]) == (0.5, 1.0)
    assert (macro["augmented_precision"], macro["augmented_recall"]) == (pytest.approx(2 / 3), 1.0)
    assert row["duration"]["mean_ms"] == 31_000
    assert "duration includes retries" in row["marks"]
    trial = crb.json("trial", "show", "1")
    assert trial["attempts"][0]["usage"] == {"total_tokens": 1200, "cost_usd": 0.02}


def test_reviewbench_findings_may_be_an_answer_key(crb: Crb, reviewbench: Path) -> None:
    """The same files for the other protocol, under a name of their own, with that protocol's severities."""
    golden = next((reviewbench / "corpus" / "golden").glob("*.json"))
    value = json.loads(golden.read_text())
    folder = reviewbench / "corpus"
    plain = crb.json("corpus", "import", "reviewbench", folder, "--name", "rb")
    keyed = crb.json("corpus", "import", "reviewbench", folder, "--name", "rk", "--protocol", "answer-key")
    assert (plain["protocol"], keyed["protocol"]) == ("reviewbench", "answer-key")
    assert plain["fingerprint"] == keyed["fingerprint"]
    code, _, err = crb("corpus", "import", "reviewbench", folder, "--name", "rb", "--protocol", "answer-key")
    assert code == 1
    assert "is stored for the protocol reviewbench, not answer-key" in err
    value["findings"][0]["severity"] = "critical"
    golden.write_text(json.dumps(value))
    code, _, err = crb("corpus", "import", "reviewbench", folder, "--name", "x")
    assert code == 1
    assert "is no severity of the protocol reviewbench" in err
    assert crb.json("corpus", "import", "reviewbench", folder, "--name", "x", "--protocol", "answer-key")["new"]


@pytest.mark.parametrize(
    ("format_name", "protocol"),
    [("reviewbench", "golden-comments"), ("reviewbench", "x"), ("golden-comments", "answer-key")],
)
def test_a_corpus_format_has_its_protocols(
    crb: Crb, reviewbench: Path, benchmark: Path, format_name: str, protocol: str
) -> None:
    """Another one is refused with what can be chosen."""
    folder = reviewbench / "corpus" if format_name == "reviewbench" else benchmark
    code, _, err = crb("corpus", "import", format_name, folder, "--name", "x", "--protocol", protocol)
    assert code == 1
    assert "cannot be scored by the protocol" in err


def test_the_same_reviewbench_corpus_with_another_mirror_keeps_its_identity(crb: Crb, reviewbench: Path) -> None:
    """Where repositories are decides no number, but is brought up to date, and never taken away."""
    folder = reviewbench / "corpus"
    for more in (("--mirror", "/a/{repo}"), ("--mirror", "/b/{repo}"), ()):
        crb.json("corpus", "import", "reviewbench", folder, "--name", "rb", *more)
    assert crb.json("corpus", "show", "rb")["source_template"] == "/b/{repo}"
    assert len([each for each in crb.json("corpus", "list")["corpora"] if each["name"] == "rb"]) == 1


@pytest.mark.parametrize(
    ("format_name", "value", "number"),
    [
        ("sarif", samples.sarif(), 4),
        ("rdjson", samples.rdjson(), 3),
        ("github-review-comments", samples.github_comments(), 3),
        ("gitlab-code-quality", samples.gitlab_report(), 2),
    ],
)
def test_a_tools_file_becomes_a_trial(crb: Crb, reviewbench: Path, format_name: str, value: Any, number: int) -> None:
    """With --pr and --agent; the rule and the raw record stay with each finding."""
    crb.json("corpus", "import", "reviewbench", reviewbench / "corpus", "--name", "rb")
    path = samples.write_files(reviewbench, {"review.json": value}) / "review.json"
    arguments = ("sweep", "import", format_name, path, "--corpus", "rb", "--name", "s")
    report = crb.json(*arguments, "--pr", samples.RB_KEY, "--agent", "lintish")
    assert (report["agents"], report["candidates"]) == (["lintish"], number)
    again = crb.json(*arguments, "--pr", samples.RB_KEY, "--agent", "lintish")
    assert again["new_reviews"] == 0
    second = crb.json(*arguments, "--pr", samples.RB_KEY, "--agent", "lintish", "--round", "2")
    assert second["new_reviews"] == 1
    trial = crb.json("trial", "show", "1")
    assert len(trial["findings"]) == number
    assert all(finding["source"]["record"] for finding in trial["findings"])
    code, _, err = crb(*arguments, "--agent", "lintish")
    assert code == 1
    assert "not named after one" in err


def test_the_bundled_corpus_is_listed(crb: Crb) -> None:
    """Before anything is stored."""
    listed = {each["name"]: each["stored"] for each in crb.json("corpus", "list")["corpora"]}
    assert listed == {"showcase": False}


@needs_shared_data
def test_the_malformed_manifest_is_named_with_line_and_column(crb: Crb, tmp_path: Path) -> None:
    """The public copy with a missing quote."""
    folder = tmp_path / "malformed"
    folder.mkdir()
    (folder / "manifest.json").write_bytes((SHARED_DATA / "reviewbench" / "manifest_malformed.json").read_bytes())
    code, _, err = crb("corpus", "import", "reviewbench", folder, "--name", "x")
    assert code == 1
    assert "manifest.json, line 3, column" in err


@needs_shared_data
def test_the_published_table_is_reproduced(crb: Crb) -> None:
    """Every count equal, every ratio equal to 4 decimals, for every tool and judge."""
    folder = SHARED_DATA / "golden-comments"
    _import(crb, folder)
    published = json.loads((folder / "published_table.json").read_text())["judges"]
    board = crb.json("leaderboard", "--protocol", "golden-comments", "--compatible")
    rows = {(row["judge"], row["agent"]): row for row in board["rows"]}
    assert rows.keys() == {(judge, tool) for judge, tools in published.items() for tool in tools}
    names = {"f1": "f", "prs": "reviews"} | {
        name: name
        for name in ("tp", "fp", "fn", "precision", "recall", "macro_precision", "macro_recall", "macro_f1", "skipped")
    }
    for (judge, tool), row in rows.items():
        expected = {name: published[judge][tool][name] for name in names}
        assert {name: round(row[mine], 4) for name, mine in names.items()} == expected, (judge, tool)


@needs_shared_data
def test_the_real_reviewbench_corpus_is_imported(crb: Crb) -> None:
    """Three golden sets with their manifest."""
    report = crb.json("corpus", "import", "reviewbench", SHARED_DATA / "reviewbench", "--name", "rb")
    assert report["pull_requests"] == 3
    assert len(report["files"]) == 4
