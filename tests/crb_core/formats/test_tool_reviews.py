"""One row a review, as the public benchmark exports it."""

from __future__ import annotations

import json

import pytest

from crb_core.errors import InputError
from crb_core.finding import CandidateFinding
from crb_core.formats.tool_reviews import COLUMNS, file_name, read_downloaded, review_row
from crb_core.matching import Correspondence, JudgedPullRequest
from tests.crb_core.archived import golden

GOLDEN = (golden("one", 1), golden("two", 2, severity="low"), golden("trade-off", 3, "fp"), golden("four", 4))
CANDIDATES = (
    CandidateFinding(file="a.py", start_line=1, end_line=2, message="first", producer="t"),
    CandidateFinding(message="second", producer="t"),
)
JUDGED = JudgedPullRequest(
    key="pr-1", golden=GOLDEN, candidates=CANDIDATES, correspondences=(Correspondence(candidate=0, golden=(0, 2)),)
)


def test_a_review_with_downloaded_comments() -> None:
    """Bodies joined by a rule, the last comment's time, numbered lists, one line a golden comment."""
    data = {
        "https://github.com/a/b/pull/1": {
            "reviews": [
                {
                    "review_comments": [
                        {"path": "a.py", "line": 3, "body": "late", "created_at": "2026-01-06T00:00:00Z"},
                        {"path": None, "line": None, "body": "early", "created_at": "2026-01-05T00:00:00Z"},
                    ]
                }
            ]
        }
    }
    downloaded = read_downloaded(json.dumps(data).encode(), "benchmark_data.json")
    row = review_row(
        key="pr-1",
        url="https://github.com/a/b/pull/1",
        comments=downloaded["https://github.com/a/b/pull/1", 0],
        candidates=CANDIDATES,
        golden=GOLDEN,
        judged=JUDGED,
        unjudged=(3,),
    )
    assert dict(zip(COLUMNS, row, strict=True)) == {
        "pr_id": "pr-1",
        "review_url": "https://github.com/a/b/pull/1",
        "review_text": "a.py:3: late\n---\nearly",
        "candidates": "1. a.py:1-2: first\n2. second",
        "last_comment": "2026-01-06T00:00:00Z",
        "golden_comments": "1. (high) one\n2. (low) two\n3. (high) four",
        "judge_results": "[FOUND] (high) one\n[MISSED] (low) two\n[NOT JUDGED] (high) four",
        "found_issues": 1,
        "total_issues": 3,
    }


def test_a_review_that_was_not_judged() -> None:
    """What was found is empty, not 0; text that was not downloaded is empty."""
    row = review_row(key="k", url="u", comments=None, candidates=(), golden=GOLDEN[:1], judged=None)
    assert row == ["k", "u", None, "", None, "1. (high) one", "[NOT JUDGED] (high) one", None, 1]


def test_file_names_are_plain() -> None:
    """Whatever a tool is called, its file is one file of the folder."""
    assert file_name("../a b/c") == "_a_b_c_reviews.xlsx"
    assert file_name("...") == "tool_reviews.xlsx"
    assert file_name("x" * 300) == "x" * 80 + "_reviews.xlsx"


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"u": 3, "v": {"reviews": [1, {"review_comments": 5}]}}'])
def test_wrong_downloads(data: bytes) -> None:
    """No object is a sentence; reviews of another shape have no comments."""
    if data.startswith(b'{"u"'):
        assert list(read_downloaded(data, "f").values()) == [[], []]
    else:
        with pytest.raises(InputError):
            read_downloaded(data, "f")
