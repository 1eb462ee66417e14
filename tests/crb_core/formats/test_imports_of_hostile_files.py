"""Whatever a file of any imported format holds, an import gives records or a located sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import CrbError, InputError
from crb_core.formats.golden_comments import read_corpus
from crb_core.formats.golden_comments_results import read_results
from crb_core.formats.review_files import read_review_files
from crb_core.formats.reviewbench import read_reviewbench
from crb_core.formats.reviewbench_results import read_reviews
from tests.crb_core.formats import imported_samples as samples


def _accepts_or_refuses(what: str, read: Callable[[], object]) -> None:
    refusal: CrbError | None = None
    try:
        read()
    except CrbError as error:
        refusal = error
    except Exception as error:  # noqa: BLE001
        pytest.fail(f"{what}: {error!r}")
    assert refusal is None or refusal.where is not None, what


def _read_benchmark(folder: Path) -> None:
    corpus = read_corpus(folder, "c").corpus
    read_results(folder, corpus)


@pytest.mark.parametrize("name", list(samples.benchmark_files()))
def test_every_part_of_a_golden_comments_folder_may_be_anything(tmp_path: Path, name: str) -> None:
    """One part of one file replaced by a hostile value is imported or refused with its place."""
    files = samples.benchmark_files()
    folder = samples.write_files(tmp_path, files)
    for what, value in samples.spoiled(files[name]):
        samples.write_files(folder, {name: value})
        _accepts_or_refuses(f"{name} {what}", lambda: _read_benchmark(folder))


@pytest.mark.parametrize(
    ("format_name", "value"),
    [
        ("sarif", samples.sarif()),
        ("rdjson", samples.rdjson()),
        ("github-review-comments", samples.github_comments()),
        ("gitlab-code-quality", samples.gitlab_report()),
    ],
)
def test_every_part_of_a_tools_file_may_be_anything(tmp_path: Path, format_name: str, value: Any) -> None:
    """The same for the formats of tools."""
    path = tmp_path / "review.json"
    for what, each in samples.spoiled(value):
        samples.write_files(tmp_path, {"review.json": each})
        _accepts_or_refuses(
            f"{format_name} {what}",
            lambda: read_review_files(format_name, path, keys=["k"], pull_request="k", agent="a"),
        )


@pytest.mark.parametrize("name", list(samples.rb_files()))
def test_every_part_of_a_reviewbench_folder_may_be_anything(tmp_path: Path, name: str) -> None:
    """The same for ReviewBench's corpus, candidate files, details and results."""
    files = samples.rb_files()
    folder = samples.write_files(tmp_path, files)

    def read() -> None:
        corpus, _ = read_reviewbench(folder / "corpus", "c")
        read_reviews(folder / "reviews", corpus)

    for what, value in samples.spoiled(files[name]):
        samples.write_files(folder, {name: value})
        _accepts_or_refuses(f"{name} {what}", read)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file is empty"),
        ("[1,\n 2,", "not valid JSON"),
        ('{"version": NaN}', "NaN is not a JSON number"),
        ('{"version": "2.1.0", "version": "2.1.0"}', "the same key appears twice"),
        ("[" * 200 + "]" * 200, "nested deeper"),
        ("[1e999]", "too large"),
        ("\ufeff{}", "byte-order mark"),
    ],
)
def test_a_file_that_is_no_strict_json_is_named_with_line_and_column(tmp_path: Path, text: str, sentence: str) -> None:
    """What Python's parser lets pass or stumbles over is refused with its place."""
    path = tmp_path / "k.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence) as caught:
        read_review_files("sarif", path, keys=["k"], agent="a")
    assert caught.value.where is not None
    assert caught.value.where.file == str(path)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are named with line and column."""
    path = tmp_path / "k.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match="not UTF-8") as caught:
        read_review_files("rdjson", path, keys=["k"], agent="a")
    assert caught.value.where is not None
    assert (caught.value.where.line, caught.value.where.column) == (1, 8)
