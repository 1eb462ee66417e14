"""One workbook a tool: every review with its golden comments and what of them was found (facts C2, step 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, TpFp
from crb_core.formats.csv_table import Cell
from crb_core.formats.strict_json import load_json
from crb_core.matching import JudgedPullRequest

__all__ = ["COLUMNS", "Downloaded", "file_name", "read_downloaded", "review_row"]

COLUMNS = (
    "pr_id",
    "review_url",
    "review_text",
    "candidates",
    "last_comment",
    "golden_comments",
    "judge_results",
    "found_issues",
    "total_issues",
)
_RULE = "\n---\n"
_MAX_NAME = 80

#: By (pull-request URL, place among its reviews): the comments of a review as they were downloaded.
Downloaded = Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]


def read_downloaded(data: bytes, name: str) -> Downloaded:
    """The review comments in a ``benchmark_data.json``."""
    document = load_json(data, name)
    if not isinstance(document, dict):
        raise InputError(f"{name} is no object of pull requests")
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for url, record in document.items():
        reviews = record.get("reviews") if isinstance(record, dict) else None
        for place, review in enumerate(reviews if isinstance(reviews, list) else ()):
            comments = review.get("review_comments") if isinstance(review, dict) else None
            listed = comments if isinstance(comments, list) else []
            found[url, place] = [each for each in listed if isinstance(each, dict)]
    return found


def review_row(
    *,
    key: str,
    url: str,
    comments: Sequence[Mapping[str, Any]] | None,
    candidates: Sequence[CandidateFinding],
    golden: Sequence[GoldenFinding],
    judged: JudgedPullRequest | None,
    unjudged: Collection[int] = (),
) -> list[Cell]:
    """The cells of one review. ``comments`` are None where an imported review's text was not downloaded.

    Golden findings labelled fp are no issues and are left out. Without a judgment, what was found is empty, not 0.
    """
    issues = [(place, each) for place, each in enumerate(golden) if each.label.tp_fp is TpFp.TP]
    found = {place for record in judged.correspondences for place in record.golden} if judged is not None else set()
    results = [
        f"[{_verdict(place, found, judged, unjudged)}] ({each.label.severity or 'no severity'}) {each.message}"
        for place, each in issues
    ]
    times = [each["created_at"] for each in comments or () if isinstance(each.get("created_at"), str)]
    return [
        key,
        url,
        None if comments is None else _RULE.join(_comment(each) for each in comments),
        _numbered(_placed(each) for each in candidates),
        max(times, default=None),
        _numbered(f"({each.label.severity or 'no severity'}) {each.message}" for _, each in issues),
        "\n".join(results),
        sum(place in found for place, _ in issues) if judged is not None else None,
        len(issues),
    ]


def file_name(tool: str, suffix: str = "") -> str:
    """``<tool>_reviews.xlsx`` with every character that a file system could mind replaced."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", tool)[:_MAX_NAME].strip(".") or "tool"
    return f"{plain}{suffix}_reviews.xlsx"


def _verdict(place: int, found: Collection[int], judged: object, unjudged: Collection[int]) -> str:
    if judged is None or place in unjudged:
        return "NOT JUDGED"
    return "FOUND" if place in found else "MISSED"


def _comment(comment: Mapping[str, Any]) -> str:
    body = comment.get("body")
    text = body if isinstance(body, str) else json.dumps(body)
    path, line = comment.get("path"), comment.get("line")
    return f"{path}:{line}: {text}" if path and line else f"{path}: {text}" if path else text


def _placed(finding: CandidateFinding) -> str:
    place = f"{finding.file}:{finding.lines}" if finding.file and finding.lines else finding.file
    return f"{place}: {finding.message}" if place else finding.message


def _numbered(texts: Any) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=1))
