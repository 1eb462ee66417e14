"""``crb corpus validate`` and ``snapshot``: what they print and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crb_cli.corpus import app
from crb_core.errors import InputError
from tests.crb_worker.text_corpora import KEY, write_corpus

runner = CliRunner()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = write_corpus(tmp_path / "corpus")
    assert runner.invoke(app, ["validate", str(folder), "--seal"]).exit_code == 0
    return folder


class TestValidate:
    def test_a_sound_corpus_ends_with_0_and_fits_80_columns(self, corpus: Path) -> None:
        result = runner.invoke(app, ["validate", str(corpus)], env={"COLUMNS": "200"})
        assert result.exit_code == 0
        table = [line for line in result.output.splitlines() if line.startswith(("│", "┃", "├", "┏"))]
        assert len(table) > 5
        assert max(len(line) for line in table) <= 80
        assert "no problems" in result.output

    def test_problems_end_with_1_and_are_all_printed(self, corpus: Path) -> None:
        (corpus / "pull_requests" / KEY / "base" / "README.md").write_text("[bold]changed\n")
        (corpus / "reference" / "careful" / f"{KEY}.json").unlink()
        result = runner.invoke(app, ["validate", str(corpus)])
        assert result.exit_code == 1
        assert "field base" in result.output
        assert "reference/careful/widget-1.json" in result.output
        assert "2 problems." in result.output

    def test_json(self, corpus: Path) -> None:
        report = json.loads(runner.invoke(app, ["validate", str(corpus), "--json"]).output)
        assert (report["format"], report["kind"], report["ok"], report["problems"]) == (
            "crb.corpus-check/1",
            "text",
            True,
            [],
        )
        assert report["total"] == {"pull_requests": 1, "tp": 1, "fp": 1}
        assert report["groups"]["change_type"] == [{"value": "feature", "pull_requests": 1, "tp": 1, "fp": 1}]

    def test_json_with_problems(self, corpus: Path) -> None:
        (corpus / "corpus.toml").write_text('name = "x"\nname = "y"\n')
        result = runner.invoke(app, ["validate", str(corpus), "--json"])
        assert result.exit_code == 1
        (problem,) = json.loads(result.output)["problems"]
        assert (problem["file"], problem["line"], problem["field"]) == (str(corpus / "corpus.toml"), 2, None)

    def test_a_reviewbench_folder_with_a_malformed_manifest(self, tmp_path: Path) -> None:
        (tmp_path / "manifest.json").write_text('[\n  {\n    "repo: "https://github.com/a/b"\n  }\n]\n')
        result = runner.invoke(app, ["validate", str(tmp_path)])
        assert result.exit_code == 1
        assert "line 3, column 13" in result.output


class TestSnapshot:
    def test_it_is_built_where_it_says(self, corpus: Path, tmp_path: Path) -> None:
        result = runner.invoke(app, ["snapshot", str(corpus), KEY, "--cache", str(tmp_path / "cache"), "--json"])
        assert result.exit_code == 0
        (row,) = json.loads(result.output)["snapshots"]
        assert (Path(row["repo"]) / "tools" / "check.sh").read_text() == "true\n"
        assert Path(row["diff"]).is_file()
        assert row["missing"] == []

    def test_an_unknown_key_is_named(self, corpus: Path, tmp_path: Path) -> None:
        result = runner.invoke(app, ["snapshot", str(corpus), "nope", "--cache", str(tmp_path)])
        assert isinstance(result.exception, InputError)
        assert "no pull request 'nope'" in str(result.exception)
