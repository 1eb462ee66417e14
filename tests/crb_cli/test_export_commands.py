"""``crb export`` and ``crb verify`` as a user types them, over a store of imported reviews."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crb_cli.export import app as export_app
from crb_cli.verify import verify
from crb_core.errors import InputError
from tests.crb_core.archived import FORMULA, SWEEP, contents, make_store, rewrite
from tests.crb_core.formats.test_spreadsheets import cells


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("farm")
    make_store(home).close()
    return home


@pytest.fixture(autouse=True)
def _settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRB_HOME", str(home))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(export_app, list(arguments), catch_exceptions=False)


def run_verify(*arguments: str) -> Result:
    import typer

    app = typer.Typer()
    app.command()(verify)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_an_archive_is_written_and_verified(tmp_path: Path) -> None:
    """Both say so in JSON; a forged one ends with 1 and names file, field and both values."""
    out = tmp_path / "a.tar"
    said = json.loads(run("sweep", SWEEP, "--out", str(out), "--json").stdout)
    assert (said["format"], said["trials"], said["evidence_missing"]) == ("crb.export/1", 18, ["0" * 64])
    good = run_verify(str(out), "--json")
    assert good.exit_code == 0
    verified = json.loads(good.stdout)
    assert (verified["ok"], verified["content_sha256"]) == (True, said["content_sha256"])
    name = next(each for each in contents(out) if each.startswith("results/"))
    data = contents(out)[name].replace(b'"candidate_count": 27', b'"candidate_count": 28')
    assert data != contents(out)[name]
    forged = rewrite(out, tmp_path / "b.tar", {name: data})
    bad = run_verify(str(forged), "--json")
    assert bad.exit_code == 1
    found = json.loads(bad.stdout)["differences"][0]
    assert found["file"] == name
    assert found["field"].startswith("rows[0].counts.candidate_count")
    assert (found["stored"], found["recomputed"]) == (28, 27)
    text = run_verify(str(forged))
    assert text.exit_code == 1
    assert "stored 28, recomputed 27" in text.stdout


def test_no_export_gives_other_bytes(tmp_path: Path) -> None:
    """Two runs of every command that writes a file give the same file."""
    commands = {
        "a.tar": ("sweep",),
        "leaderboard.csv": ("csv",),
        "findings.csv": ("csv", "--table", "findings"),
        "all.xlsx": ("xlsx",),
    }
    for name, (command, *options) in commands.items():
        for folder in ("one", "two"):
            (tmp_path / folder).mkdir(exist_ok=True)
            assert run(command, SWEEP, *options, "--out", str(tmp_path / folder / name)).exit_code == 0
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_the_leaderboard_as_csv(tmp_path: Path) -> None:
    """One row a build and judge, means and deviations of macro and micro, the rank, the marks."""
    run("csv", SWEEP, "--out", str(tmp_path / "l.csv"))
    found = {row["agent"]: row for row in rows(tmp_path / "l.csv")}
    assert set(found) == {"alpha", "beta"}
    assert float(found["alpha"]["micro.grounded_recall.mean"]) == pytest.approx((3 / 5 + 4 / 5 + 3 / 5) / 3)
    assert {found["alpha"]["judge"], found["beta"]["judge"]} == {"people"}


def test_findings_as_csv(tmp_path: Path) -> None:
    """Every candidate with what it claims or covers and its label; a formula in a message is text."""
    run("csv", SWEEP, "--table", "findings", "--out", str(tmp_path / "f.csv"))
    found = rows(tmp_path / "f.csv")
    assert len(found) == 51
    first = [row for row in found if (row["agent"], row["round"], row["pull_request"]) == ("alpha", "1", "pr-1")]
    assert [(row["status"], row["label_from"], row["tp_fp"]) for row in first] == [
        ("claims", "golden", "tp"),
        ("covers", "classifier", "tp"),
        ("unmatched", "classifier", "fp"),
    ]
    assert first[2]["message"] == "'" + FORMULA
    assert json.loads(first[0]["provenance"]) == {"tp_fp": "human", "severity": "j-0123456789ab"}
    run("csv", SWEEP, "--table", "golden", "--out", str(tmp_path / "g.csv"))
    golden = rows(tmp_path / "g.csv")
    assert next(row["finding_id"] for row in golden if row["pull_request"] == "pr-1") == first[0]["claimed_finding_id"]


def test_one_workbook_a_tool(tmp_path: Path) -> None:
    """The nine columns, one sheet a round, [FOUND] and [MISSED] lines, found and total issues."""
    result = run("xlsx", SWEEP, "--by-tool", "--out", str(tmp_path / "tools"))
    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "tools" / "people").iterdir()) == [
        "alpha_reviews.xlsx",
        "beta_reviews.xlsx",
    ]
    sheet = cells(tmp_path / "tools" / "people" / "beta_reviews.xlsx", sheet=2)
    assert [text for _, text in sheet[0].values()] == [
        *("pr_id", "review_url", "review_text", "candidates", "last_comment"),
        *("golden_comments", "judge_results", "found_issues", "total_issues"),
    ]
    assert sheet[1]["G"][1] == "[FOUND] (high) g0\n[FOUND] (low) g1"
    assert (sheet[1]["H"][1], sheet[1]["I"][1]) == ("2", "2")
    assert sheet[2]["G"][1] == "[FOUND] (high) h0\n[MISSED] (medium) h1"
    # The third pull request timed out: nothing was judged, and nothing is 0.
    assert sheet[3]["G"][1] == "[NOT JUDGED] (high) i0"
    assert "H" not in sheet[3]


def test_reviewbench_files(tmp_path: Path) -> None:
    """results.json and results.details.json of every round."""
    assert run("reviewbench", SWEEP, "--out", str(tmp_path), "--agent", "alpha").exit_code == 0
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")) == [
        f"alpha/round-{number}/{name}" for number in (1, 2, 3) for name in ("results.details.json", "results.json")
    ]
    results = json.loads((tmp_path / "alpha" / "round-1" / "results.json").read_text())
    assert results["micro"]["overall"]["golden_covered_count"] == 3
    assert results["crb"]["failed_attempts"]["attempts"] == 0
    run("reviewbench", SWEEP, "--out", str(tmp_path), "--agent", "beta")
    used = [
        json.loads((tmp_path / "beta" / f"round-{number}" / "results.json").read_text())["crb"]["failed_attempts"]
        for number in (1, 2, 3)
    ]
    # A review that timed out said nothing of what it used: that is not known, not 0.
    assert sorted((each["attempts"], each["reported"]) for each in used) == [(0, 0), (0, 0), (1, 0)]
    assert {each["total"]["cost_usd"] for each in used} == {None}


def test_review_counts(tmp_path: Path) -> None:
    """A failed review does not count; rounds do."""
    found = json.loads(run("summary", SWEEP, "--json").stdout)
    assert found["tools"] == [
        {"tool": "alpha", "reviews": {"shop": 6, "till": 3}, "total": 9},
        {"tool": "beta", "reviews": {"shop": 6, "till": 2}, "total": 8},
    ]
    run("summary", SWEEP, "--out", str(tmp_path / "s.csv"))
    assert (tmp_path / "s.csv").read_text().splitlines() == ["Tool,shop,till,Total", "alpha,6,3,9", "beta,6,2,8"]
    assert "alpha" in run("summary", SWEEP).stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("sweep", "absent", "--out", "x"), "There is no sweep named absent"),
        (("csv", SWEEP, "--table", "none", "--out", "x"), "there is no table 'none'"),
        (("csv", SWEEP, "--judge", "none", "--out", "x"), "The sweep has no judgments of none"),
        (("csv", SWEEP, "--out", "absent/x"), "cannot be written"),
        (("xlsx", SWEEP, "--agent", "alpha", "--out", "x.xlsx"), "--agent goes with --by-tool"),
        (("xlsx", SWEEP, "--by-tool", "--agent", "none", "--out", "x"), "nothing was chosen"),
        (("xlsx", SWEEP, "--out", "absent/x.xlsx"), "cannot be written"),
        (("reviewbench", SWEEP, "--round", "9", "--out", "x"), "nothing was chosen"),
        (("speed", "absent.json"), "does not exist"),
    ],
)
def test_wrong_arguments_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str
) -> None:
    """Nothing is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=problem):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []
