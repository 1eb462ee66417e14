"""ReviewBench folders are read whole, or refused with the place of every problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Producer
from crb_core.errors import InputError
from crb_core.formats.checked import Problems
from crb_core.formats.reviewbench import corpus_files, read_reviewbench, read_reviewbench_text
from crb_core.pull_request import PullRequestTraits

BASE = "a" * 40
HEAD = "b" * 40
KEY = f"acme_wid_get_7-{HEAD[:8]}"


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "repo": "https://github.com/acme/wid_get",
        "pr_number": 7,
        "pr_url": "https://github.com/acme/wid_get/pull/7",
        "base": BASE,
        "head": HEAD,
        "title": "Faster widgets",
        "body": "Line\r\n\n🎉",
        "nwo": "acme/wid_get",
        "language": "Jupyter Notebook",
        "lines_added": 3,
    } | changes


def finding(**changes: Any) -> dict[str, Any]:
    return {
        "file": "src/widget.py",
        "start_line": 3,
        "end_line": 4,
        "message": "Off by one.",
        "tp_fp": "tp",
        "severity": "high",
        "category": "correctness",
        "scope": "introduced-by-pr",
        "producer": "ccr:model-x[Effort=medium]",
        "source": {"type": "ccr", "alignment": "generated"},
    } | changes


def write(
    folder: Path, manifest: Any = None, golden: list[Any] | None = None, pr: dict[str, Any] | None = None
) -> Path:
    (folder / "golden").mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps([entry()] if manifest is None else manifest), encoding="utf-8")
    stated = {"repo": "https://github.com/acme/wid_get", "pr_number": 7, "base": BASE, "head": HEAD} | (pr or {})
    content = {"pr_key": KEY, "pr": stated, "findings": [finding()] if golden is None else golden}
    (folder / "golden" / f"{KEY}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def places(folder: Path) -> list[tuple[str | None, str | None]]:
    problems = Problems()
    read_reviewbench_text(folder, problems)
    return [(Path(error.where.file or "").name, error.where.field) for error in problems.found if error.where]


class TestReading:
    def test_manifest_and_golden_become_a_corpus(self, tmp_path: Path) -> None:
        """Nothing of the fields that decide a score is lost, and the order is the manifest's."""
        corpus, irregularities = read_reviewbench(write(tmp_path), "acme", source="mirror", source_template="/m/{repo}")
        assert irregularities == ()
        assert (corpus.name, corpus.protocol, corpus.source, corpus.source_template) == (
            "acme",
            "reviewbench",
            "mirror",
            "/m/{repo}",
        )
        pull_request = corpus.entries[0].pull_request
        assert (pull_request.key, pull_request.body) == (KEY, "Line\r\n\n🎉")
        assert pull_request.traits == PullRequestTraits(language="Jupyter Notebook", lines_added=3)
        golden = corpus.entries[0].golden[0]
        assert (golden.label.severity, golden.source["alignment"]) == ("high", "generated")
        assert golden.label.provenance == {}

    def test_producers_are_recorded_as_named(self, tmp_path: Path) -> None:
        """The settings in brackets are kept; the version, which ReviewBench does not record, is not made up."""
        corpus, _ = read_reviewbench(write(tmp_path), "acme")
        assert corpus.producers == (
            Producer(
                name="ccr:model-x[Effort=medium]",
                version="not recorded",
                configuration={"Effort": "medium"},
                note="As named by the corpus; it records no versions.",
            ),
        )

    def test_the_version_follows_the_content(self, tmp_path: Path) -> None:
        one, _ = read_reviewbench(write(tmp_path / "1"), "acme")
        same, _ = read_reviewbench(write(tmp_path / "2"), "acme")
        other, _ = read_reviewbench(write(tmp_path / "3", golden=[finding(message="Another.")]), "acme")
        assert one.version == same.version != other.version

    def test_a_test_subset_is_read(self, tmp_path: Path) -> None:
        write(tmp_path / "corpus")
        (tmp_path / "corpus" / "golden").rename(tmp_path / "golden")
        (tmp_path / "corpus" / "test").mkdir()
        (tmp_path / "corpus" / "test" / "test.json").write_text(json.dumps([entry()]), encoding="utf-8")
        corpus, _ = read_reviewbench(tmp_path, "acme")
        assert corpus.subsets == {"test": (KEY,)}

    def test_the_test_subset_under_its_older_name_is_read(self, tmp_path: Path) -> None:
        """The method names both folders; a list that is no JSON is one problem, not two."""
        write(tmp_path)
        (tmp_path / "showcase").mkdir()
        listed = tmp_path / "showcase" / "manifest.json"
        listed.write_text(json.dumps([entry()]), encoding="utf-8")
        corpus, _ = read_reviewbench(tmp_path, "acme")
        assert corpus.subsets == {"showcase": (KEY,)}
        assert listed in corpus_files(tmp_path)
        listed.write_text("[", encoding="utf-8")
        with pytest.raises(InputError) as caught:
            read_reviewbench(tmp_path, "acme")
        assert "more problem" not in str(caught.value)

    def test_irregularities_are_reported_and_do_not_stop(self, tmp_path: Path) -> None:
        write(tmp_path, [entry(pr_url="https://example.org", novelty=1)])
        (tmp_path / "golden" / "stray.json").write_text("{}", encoding="utf-8")
        _, irregularities = read_reviewbench(tmp_path, "acme")
        assert len(irregularities) == 3


class TestRefusing:
    def test_a_malformed_manifest_is_named_by_line_and_column(self, tmp_path: Path) -> None:
        """A missing quote after a key, as in a public copy of the manifest."""
        (tmp_path / "manifest.json").write_text('[\n  {\n    "repo: "https://github.com/a/b"\n  }\n]\n')
        with pytest.raises(InputError) as caught:
            read_reviewbench(tmp_path, "acme")
        assert caught.value.where is not None
        assert (caught.value.where.line, caught.value.where.column) == (3, 13)

    def test_a_duplicate_pull_request_is_named_with_both_places(self, tmp_path: Path) -> None:
        write(tmp_path, [entry(), entry(title="Again")])
        with pytest.raises(InputError, match=r"acme/wid_get number 7 is already \[0\] .*field \[1\]"):
            read_reviewbench(tmp_path, "acme")

    def test_one_pull_request_at_two_heads_is_a_duplicate(self, tmp_path: Path) -> None:
        assert ("manifest.json", "[1]") in places(write(tmp_path, [entry(), entry(head="c" * 40)]))

    @pytest.mark.parametrize("name", ["base", "head"])
    def test_golden_and_manifest_that_disagree_on_a_commit(self, tmp_path: Path, name: str) -> None:
        write(tmp_path, pr={name: "c" * 40})
        assert places(tmp_path) == [(f"{KEY}.json", f"pr.{name}")]

    def test_a_missing_golden_file_is_named(self, tmp_path: Path) -> None:
        write(tmp_path)
        (tmp_path / "golden" / f"{KEY}.json").unlink()
        with pytest.raises(InputError, match=rf"the golden file of {KEY}, listed in .*manifest.json \[0\], is missing"):
            read_reviewbench(tmp_path, "acme")

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"repo": "https://gitlab.com/a/b"}, "[0].repo"),
            ({"repo": "https://github.com/a/.."}, "[0].repo"),
            ({"repo": 7}, "[0].repo"),
            ({"pr_number": "7"}, "[0].pr_number"),
            ({"pr_number": 0}, "[0].pr_number"),
            ({"pr_number": True}, "[0].pr_number"),
            ({"base": "abc"}, "[0].base"),
            ({"head": "B" * 40}, "[0].head"),
            ({"base": None, "head": None}, "[0]"),
            ({"head": None}, "[0]"),
            ({"title": "  "}, "[0].title"),
            ({"lines_added": -1}, "[0].lines_added"),
        ],
    )
    def test_a_wrong_manifest_field_is_named(self, tmp_path: Path, changes: dict[str, Any], field: str) -> None:
        assert ("manifest.json", field) in places(write(tmp_path, [entry(**changes)]))

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"tp_fp": "maybe"}, "findings[0].tp_fp"),
            ({"severity": "critical"}, "findings[0].severity"),
            ({"category": "style"}, "findings[0].category"),
            ({"scope": "elsewhere"}, "findings[0].scope"),
            ({"start_line": 0}, "findings[0].start_line"),
            ({"start_line": 3.5}, "findings[0].start_line"),
            ({"start_line": "3"}, "findings[0].start_line"),
            ({"start_line": 5}, "findings[0]"),
            ({"file": "../etc/passwd"}, "findings[0].file"),
            ({"file": "/abs"}, "findings[0].file"),
            ({"message": " "}, "findings[0].message"),
            ({"producer": ""}, "findings[0].producer"),
            ({"surprise": 1}, "findings[0].surprise"),
        ],
    )
    def test_a_wrong_golden_field_is_named(self, tmp_path: Path, changes: dict[str, Any], field: str) -> None:
        assert places(write(tmp_path, golden=[finding(**changes)])) == [(f"{KEY}.json", field)]

    def test_all_problems_are_found_at_once(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            golden=[finding(severity="x", category="y"), finding(tp_fp="z"), "text"] + 2 * [finding(message="Two.")],
        )
        assert [field for _, field in places(tmp_path)] == [
            "findings[0].severity",
            "findings[0].category",
            "findings[1].tp_fp",
            "findings[2]",
            "findings[4]",
        ]

    @pytest.mark.parametrize("manifest", [{}, "text", [], [1]])
    def test_a_manifest_of_another_shape_is_refused(self, tmp_path: Path, manifest: Any) -> None:
        with pytest.raises(InputError):
            read_reviewbench(write(tmp_path, manifest), "acme")
