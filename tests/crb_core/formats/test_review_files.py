"""Tools' own files become candidates with repository-relative paths; nothing is dropped in silence (rule 1)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.formats.imported import ImportedReviews
from crb_core.formats.review_files import read_review_files
from tests.crb_core.formats import imported_samples as samples


def read(tmp_path: Path, format_name: str, value: Any, **options: Any) -> ImportedReviews:
    samples.write_files(tmp_path, {"k.json": value})
    return read_review_files(format_name, tmp_path / "k.json", keys=["k"], agent="alpha", **options)


def places(found: ImportedReviews) -> list[tuple[str | None, int | None, int | None, str]]:
    findings = [each.finding for each in found.reviews[0].candidates]
    return [(each.file, each.start_line, each.end_line, each.message) for each in findings]


def kinds(found: ImportedReviews) -> dict[str, int]:
    return dict(Counter(each.kind for each in found.irregularities))


def test_sarif(tmp_path: Path) -> None:
    """Base URIs, escapes, artifact indices and message arguments are resolved; what is no finding is reported."""
    found = read(tmp_path, "sarif", samples.sarif())
    assert places(found) == [
        ("src/a b.py", 3, 5, "Variable n is {unused}"),
        ("lib/b.py", 1, 1, "Second"),
        ("src/c.py", 2, 2, "Absolute"),
        (None, None, None, "Nowhere"),
    ]
    assert kinds(found) == {"finding without a place": 1, "result that is no finding": 2, "suppressed result": 1}
    first = found.reviews[0].candidates[0]
    assert first.source is not None
    assert (first.source["rule"], first.source["level"]) == ("L1", "warning")
    assert first.finding.producer == "alpha"
    assert found.reviews[0].source["tools"] == [{"name": "lintish"}]


def test_a_sarif_result_with_several_locations_is_reported(tmp_path: Path) -> None:
    """One finding at the first location; the others stay in its record."""
    value = samples.sarif()
    result = value["runs"][0]["results"][0]
    result["locations"] = [result["locations"][0], {"physicalLocation": {"artifactLocation": {"uri": "src/z.py"}}}]
    found = read(tmp_path, "sarif", value)
    assert len(places(found)) == 4
    odd = [each for each in found.irregularities if each.kind == "result with several locations"]
    assert [(each.field, each.problem.split(":")[0]) for each in odd] == [
        ("runs[0].results[0].locations", "it has 2 locations")
    ]
    assert (found.reviews[0].candidates[0].source or {})["record"]["locations"] == result["locations"]


def test_sarif_of_another_version_is_refused(tmp_path: Path) -> None:
    """2.0 has another shape."""
    with pytest.raises(InputError, match=r"the version is '2.0.0', not 2.1.0"):
        read(tmp_path, "sarif", samples.sarif() | {"version": "2.0.0"})


def test_an_absolute_path_needs_the_root_that_it_begins_with(tmp_path: Path) -> None:
    """It is never guessed what a repository's folder was."""
    value = samples.rdjson()
    value["diagnostics"] = value["diagnostics"][:1]
    value["diagnostics"][0]["location"]["path"] = "/builds/acme/src/a.py"
    with pytest.raises(InputError, match="is absolute") as caught:
        read(tmp_path, "rdjson", value)
    assert caught.value.where is not None
    assert caught.value.where.field == "diagnostics[0].location.path"
    assert places(read(tmp_path, "rdjson", value, root="/builds/acme"))[0][0] == "src/a.py"


def test_rdjson(tmp_path: Path) -> None:
    """An exclusive end at column 1 is the line before; a diagnostic may have no lines."""
    found = read(tmp_path, "rdjson", samples.rdjson())
    assert places(found) == [
        ("src/a.py", 4, 4, "One line"),
        ("src/a.py", 4, 6, "Whole lines"),
        ("src/b.py", None, None, "No lines"),
    ]
    assert kinds(found) == {"finding without lines": 1}
    assert (found.reviews[0].candidates[0].source or {})["rule"] == "E1"


def write_lines(tmp_path: Path, name: str, *lines: object) -> Path:
    path = tmp_path / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("name", ["k.rdjsonl", "k.jsonl", "k.json"])
def test_rdjsonl_is_the_same_review(tmp_path: Path, name: str) -> None:
    """One diagnostic a line, blank lines between them, told by the file's ending or by its first line."""
    diagnostics = samples.rdjson()["diagnostics"]
    path = write_lines(tmp_path, name, diagnostics[0], "", *diagnostics[1:])
    found = read_review_files("rdjson", path, keys=["k"], agent="alpha")
    assert places(found) == places(read(tmp_path, "rdjson", samples.rdjson()))
    assert [(each.kind, each.field) for each in found.irregularities] == [("finding without lines", "line 4")]
    single = write_lines(tmp_path, name, diagnostics[0])
    assert len(places(read_review_files("rdjson", single, keys=["k"], agent="alpha"))) == 1


def test_an_empty_rdjsonl_file_is_a_review_without_findings(tmp_path: Path) -> None:
    """As the format has it; an empty rdjson file is none."""
    folder = tmp_path / "alpha"
    folder.mkdir()
    (folder / "k.rdjsonl").write_text("")
    assert read_review_files("rdjson", tmp_path, keys=["k"]).reviews[0].candidates == ()
    (folder / "k.rdjsonl").rename(folder / "k.json")
    with pytest.raises(InputError, match="the file is empty"):
        read_review_files("rdjson", tmp_path, keys=["k"])


@pytest.mark.parametrize(
    ("line", "problem", "field"),
    [
        ("[1]", "this must be an object", None),
        ('{"message": "m", "location": {"path": "../x"}}', "part", "location.path"),
        ('{"message": 3, "location": {"path": "x"}}', "this must be text", "message"),
        ('{"message": "m", ', "JSON", None),
        ('{"message": "m", "message": "n"}', "twice", None),
        ('{"message": "m", "location": {"path": "x", "range": {"start": {"line": NaN}}}}', "NaN", None),
    ],
)
def test_a_wrong_line_of_rdjsonl_is_named(tmp_path: Path, line: str, problem: str, field: str | None) -> None:
    """With its own line, and nothing is imported."""
    path = write_lines(tmp_path, "k.rdjsonl", samples.rdjson()["diagnostics"][0], "", line)
    with pytest.raises(InputError) as caught:
        read_review_files("rdjson", path, keys=["k"], agent="alpha")
    assert caught.value.where is not None
    assert (caught.value.where.line, problem in caught.value.problem) == (3, True), caught.value
    assert field is None or caught.value.where.field == field


def test_github_review_comments(tmp_path: Path) -> None:
    """Threads are findings, replies their context; outdated comments keep their original lines."""
    found = read(tmp_path, "github-review-comments", samples.github_comments())
    assert places(found) == [
        ("src/a.py", 7, 9, "Racy.\n\nTwo writers."),
        ("src/a.py", 3, 3, "Stale."),
        ("src/b.py", None, None, "Split this file."),
    ]
    assert kinds(found) == {"finding without lines": 1, "outdated comment": 1, "reply": 1}
    assert [each["id"] for each in (found.reviews[0].candidates[0].source or {})["replies"]] == [2]


def test_a_github_comment_over_both_sides(tmp_path: Path) -> None:
    """Its first line counts in the old file: it is no range, and no reason to refuse the review."""
    (first, *_) = samples.github_comments()
    given = {**first, "start_line": 40, "start_side": "LEFT", "line": 9, "side": "RIGHT"}
    found = read(tmp_path, "github-review-comments", [given])
    assert [place[1:3] for place in places(found)] == [(9, 9)]
    assert kinds(found) == {"comment over both sides": 1}


def test_github_comments_come_in_pages_too(tmp_path: Path) -> None:
    """An array of pages is the same review."""
    comments = samples.github_comments()
    whole = places(read(tmp_path, "github-review-comments", comments))
    assert places(read(tmp_path, "github-review-comments", [comments[:2], comments[2:]])) == whole


def test_github_comments_of_several_accounts_need_a_login(tmp_path: Path) -> None:
    """Other people's comments are no findings of the agent."""
    comments = samples.github_comments()
    comments.append({"id": 9, "path": "src/a.py", "line": 1, "body": "Mine.", "user": {"login": "dev"}})
    with pytest.raises(InputError, match="by 2 accounts: 'dev', 'reviewer\\[bot\\]'"):
        read(tmp_path, "github-review-comments", comments)
    found = read(tmp_path, "github-review-comments", comments, login="reviewer[bot]")
    assert len(found.reviews[0].candidates) == 3
    assert kinds(found)["comment by another account"] == 1


def test_gitlab_code_quality(tmp_path: Path) -> None:
    """Lines and positions; equal fingerprints and entries that are no issue are reported."""
    found = read(tmp_path, "gitlab-code-quality", samples.gitlab_report())
    assert places(found) == [("src/a.py", 42, 42, "Unused variable"), ("src/a.py", 3, 90, "Long function")]
    assert kinds(found) == {"entry that is no finding": 1, "equal fingerprints": 1}


def test_lines_the_wrong_way_round_are_refused(tmp_path: Path) -> None:
    """An end before its start is never swapped."""
    value = samples.gitlab_report()[:1]
    value[0]["location"] = {"path": "a.py", "lines": {"begin": 9, "end": 3}}
    with pytest.raises(InputError, match="the last line 3 is before the first line 9"):
        read(tmp_path, "gitlab-code-quality", value)


def test_a_folder_says_agent_and_pull_request(tmp_path: Path) -> None:
    """``<agent>/<key>.json``, or ``<key>.json`` with one agent for all; ``--agent`` takes one folder."""
    empty: list[Any] = []
    samples.write_files(tmp_path, {"a/one.json": empty, "a/two.json": empty, "b/one.json": empty})
    keys = ["one", "two"]
    found = read_review_files("gitlab-code-quality", tmp_path, keys=keys)
    assert [(each.agent, each.pull_request) for each in found.reviews] == [("a", "one"), ("a", "two"), ("b", "one")]
    only = read_review_files("gitlab-code-quality", tmp_path, keys=keys, agent="b")
    assert [(each.agent, each.pull_request) for each in only.reviews] == [("b", "one")]
    flat = read_review_files("gitlab-code-quality", tmp_path / "a", keys=keys, agent="x")
    assert {each.agent for each in flat.reviews} == {"x"}


@pytest.mark.parametrize(
    ("files", "options", "sentence"),
    [
        ({"one.json": []}, {}, "does not say which agent"),
        ({"a/b/one.json": []}, {}, "too deep"),
        ({"a/onne.json": []}, {}, "has no pull request 'onne'"),
        ({"a/one.sarif": [], "a/one.json": []}, {}, "is already the review of one"),
        ({"a/readme.txt": "x"}, {}, "holds no file"),
        ({"a/one.json": []}, {"pull_request": "one"}, "the path is a folder"),
    ],
)
def test_a_folder_that_does_not_say_it_is_refused(
    tmp_path: Path, files: dict[str, Any], options: dict[str, Any], sentence: str
) -> None:
    """Whose review a file is must be beyond doubt."""
    samples.write_files(tmp_path, files)
    with pytest.raises(InputError, match=sentence):
        read_review_files("sarif", tmp_path, keys=["one"], **options)
