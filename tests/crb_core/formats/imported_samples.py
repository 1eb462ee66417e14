"""Small samples of every format that is imported, written for these tests, and what hostile data does to them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

URL = "https://github.com/acme/widgets/pull/7"
OTHER_URL = "https://github.com/acme/widgets/pull/8"
KEY = "acme_widgets_7"
OTHER_KEY = "acme_widgets_8"
MODEL = "vendor_model-1"
BASE, HEAD = "a" * 40, "b" * 40
RB_KEY = f"acme_widgets_7-{HEAD[:8]}"

HOSTILE: tuple[Any, ...] = (None, True, -1, 3.5, 10**300, " ", "a\0b", "../x", [[]], {"a": 1})


def golden_comments() -> list[dict[str, Any]]:
    """Two pull requests: four comments with categories (one style), and one without any."""
    return [
        {
            "pr_title": "Cache widgets",
            "url": URL,
            "comments": [
                {"comment": "The cache is never emptied.", "severity": "High", "category": "bug"},
                {"comment": "Two writers race on the map.", "severity": "Critical", "category": "concurrency"},
                {"comment": "The name shadows a builtin.", "severity": "Low", "category": "style"},
                {"comment": "No test covers expiry.", "severity": "Medium", "category": "test_gap"},
            ],
        },
        {
            "pr_title": "Read widgets from a file",
            "url": OTHER_URL,
            "original_url": "https://github.com/acme/upstream/pull/80",
            "az_comment": "note",
            "comments": [{"comment": "The file is never closed.", "severity": "Medium"}],
        },
    ]


def candidates() -> dict[str, Any]:
    texts = [
        "Cache grows without bound",
        "Map is written by two threads",
        "Memory is never given back",
        "Rename this",
        "Typo in a comment",
        "Typo in the comment",
    ]
    return {
        URL: {"alpha": [{"text": text, "path": None, "line": None, "source": "extracted"} for text in texts]},
        OTHER_URL: {"alpha": [{"text": "Handle leaks", "path": "src/read.py", "line": 4, "source": "extracted"}]},
    }


def evaluations() -> dict[str, Any]:
    """Alpha finds two and a style comment, candidate 2 is displaced, 4 and 5 are one dedup group of false positives."""

    def result(tps: list[Any], fps: list[str], fns: list[str], **more: Any) -> dict[str, Any]:
        return {
            "skipped": False,
            "true_positives": [
                {
                    "golden_comment": golden,
                    "severity": severity,
                    "matched_candidate": candidate,
                    "confidence": confidence,
                    "reasoning": "Same cause.",
                }
                for golden, severity, candidate, confidence in tps
            ],
            "false_positives": [{"candidate": text} for text in fps],
            "false_negatives": [{"golden_comment": golden, "severity": "Medium"} for golden in fns],
            "errors": [],
            "tp": len(tps),
            "fp": len(fps),
            "fn": len(fns),
            "errors_count": 0,
        } | more

    golden = [comment["comment"] for comment in golden_comments()[0]["comments"]]
    return {
        URL: {
            "alpha": result(
                [
                    (golden[0], "High", "Cache grows without bound", 0.9),
                    (golden[1], "Critical", "Map is written by two threads", 0.8),
                    (golden[2], "Low", "Rename this", 0.7),
                ],
                ["Typo in a comment", "Typo in the comment"],
                [golden[3]],
                total_candidates=6,
                total_golden=4,
                precision=0.5,
                recall=0.75,
                tool="alpha",
            )
        },
        OTHER_URL: {
            "alpha": result([], ["Handle leaks"], ["The file is never closed."], total_candidates=1, total_golden=1),
            "beta": result([], ["/beta review"], ["The file is never closed."], total_candidates=1, total_golden=1),
        },
    }


def dedup_groups() -> dict[str, Any]:
    return {URL: {"alpha": [[0], [1], [2], [3], [4, 5]]}, OTHER_URL: {"alpha": [[0]]}}


def pr_labels() -> dict[str, Any]:
    return {
        URL: {
            "derived": {
                "language": "Go",
                "num_golden_comments": 4,
                "severity_mix": {"High": 1, "Critical": 1, "Low": 1, "Medium": 1},
                "num_files_touched": 3,
            },
            "llm_pr_labels": {"change_type": "feature", "domain": "storage", "code_complexity": "simple"},
            "comment_bug_types": [],
        }
    }


def benchmark_data() -> dict[str, Any]:
    return {
        OTHER_URL: {
            "pr_title": "Read widgets from a file",
            "golden_comments": [{"comment": "The file is never closed.", "severity": "Medium"}],
            "reviews": [
                {
                    "tool": "gamma",
                    "repo_name": "acme__widgets__gamma",
                    "pr_url": "https://github.com/bench/acme__widgets__gamma/pull/1",
                    "review_comments": [
                        {"path": "src/read.py", "line": 9, "body": "Close the file.", "created_at": "2025-01-02"},
                        {"path": None, "line": None, "body": "Looks good otherwise.", "created_at": "2025-01-02"},
                    ],
                }
            ],
        }
    }


def benchmark_files() -> dict[str, Any]:
    """Every file of a golden-comments folder by its path."""
    return {
        "golden_comments/widgets.json": golden_comments(),
        "results/pr_labels.json": pr_labels(),
        "results/benchmark_data.json": benchmark_data(),
        f"results/{MODEL}/candidates.json": candidates(),
        f"results/{MODEL}/dedup_groups.json": dedup_groups(),
        f"results/{MODEL}/evaluations.json": evaluations(),
    }


def write_files(folder: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def sarif() -> dict[str, Any]:
    return {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "lintish",
                        "rules": [{"id": "L1", "messageStrings": {"default": {"text": "Variable {0} is {{unused}}"}}}],
                    }
                },
                "originalUriBaseIds": {"SRC": {"uri": "file:///home/ci/work/"}},
                "artifacts": [{"location": {"uri": "lib/b.py"}}],
                "results": [
                    {
                        "ruleId": "L1",
                        "ruleIndex": 0,
                        "level": "warning",
                        "message": {"id": "default", "arguments": ["n"]},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": "src/a%20b.py", "uriBaseId": "SRC"},
                                    "region": {"startLine": 3, "endLine": 5},
                                }
                            }
                        ],
                    },
                    {
                        "ruleId": "L2",
                        "message": {"text": "Second"},
                        "locations": [
                            {"physicalLocation": {"artifactLocation": {"index": 0}, "region": {"startLine": 1}}}
                        ],
                    },
                    {
                        "message": {"text": "Absolute"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": "file:///home/ci/work/src/c.py"},
                                    "region": {"startLine": 2},
                                }
                            }
                        ],
                    },
                    {"message": {"text": "Nowhere"}},
                    {"message": {"text": "Fine"}, "kind": "pass"},
                    {"message": {"text": "Waived"}, "suppressions": [{"kind": "inSource"}]},
                    {"message": {"text": "Old"}, "baselineState": "absent"},
                ],
            }
        ],
    }


def rdjson() -> dict[str, Any]:
    return {
        "source": {"name": "lintish"},
        "severity": "WARNING",
        "diagnostics": [
            {
                "message": "One line",
                "location": {"path": "./src/a.py", "range": {"start": {"line": 4, "column": 2}}},
                "severity": "ERROR",
                "code": {"value": "E1"},
            },
            {
                "message": "Whole lines",
                "location": {
                    "path": "src/a.py",
                    "range": {"start": {"line": 4, "column": 1}, "end": {"line": 7, "column": 1}},
                },
            },
            {"message": "No lines", "location": {"path": "src/b.py"}},
        ],
    }


def github_comments() -> list[dict[str, Any]]:
    bot = {"login": "reviewer[bot]", "type": "Bot"}
    return [
        {"id": 1, "path": "src/a.py", "line": 9, "start_line": 7, "body": "Racy.\n\nTwo writers.", "user": bot},
        {"id": 2, "path": "src/a.py", "line": 9, "body": "Fixed.", "user": {"login": "dev"}, "in_reply_to_id": 1},
        {"id": 3, "path": "src/a.py", "line": None, "original_line": 3, "body": "Stale.", "user": bot},
        {"id": 4, "path": "src/b.py", "line": None, "subject_type": "file", "body": "Split this file.", "user": bot},
    ]


def gitlab_report() -> list[dict[str, Any]]:
    return [
        {
            "description": "Unused variable",
            "check_name": "no-unused",
            "fingerprint": "f1",
            "severity": "minor",
            "location": {"path": "src/a.py", "lines": {"begin": 42}},
        },
        {
            "description": "Long function",
            "fingerprint": "f1",
            "severity": "major",
            "location": {
                "path": "src/a.py",
                "positions": {"begin": {"line": 3, "column": 1}, "end": {"line": 90, "column": 2}},
            },
        },
        {"type": "measurement", "name": "lines"},
    ]


def rb_manifest() -> list[dict[str, Any]]:
    return [
        {
            "repo": "https://github.com/acme/widgets",
            "pr_number": 7,
            "pr_url": URL,
            "base": BASE,
            "head": HEAD,
            "title": "Cache widgets",
            "body": "",
            "nwo": "acme/widgets",
        }
    ]


def rb_golden() -> dict[str, Any]:
    def finding(line: int, message: str, label: str) -> dict[str, Any]:
        return {
            "file": "src/a.py",
            "start_line": line,
            "end_line": line,
            "message": message,
            "tp_fp": label,
            "severity": "high",
            "category": "correctness",
            "producer": "human_review",
        }

    return {
        "pr_key": RB_KEY,
        "pr": {"repo": "https://github.com/acme/widgets", "pr_number": 7, "base": BASE, "head": HEAD},
        "findings": [finding(3, "Never emptied.", "tp"), finding(9, "Not a bug.", "fp")],
    }


def rb_candidates() -> dict[str, Any]:
    def finding(line: int, message: str) -> dict[str, Any]:
        return {"producer": "alpha", "file": "src/a.py", "start_line": line, "end_line": line, "message": message}

    return {
        "pr": {"repo": "https://github.com/acme/widgets", "pr_number": 7, "base": BASE, "head": HEAD},
        "agent": "alpha",
        "findings": [finding(3, "Grows."), finding(9, "Odd."), finding(20, "New.")],
        "usage": {"total_tokens": 1200, "cost_usd": 0.02},
        "status": "success",
        "metadata": {"duration_seconds": 31},
    }


def rb_details() -> list[dict[str, Any]]:
    found = [{**each, "covered_golden_indices": []} for each in rb_candidates()["findings"]]
    found[0] |= {"status": "matched_tp", "matched_golden_index": 0, "covered_golden_indices": [0]}
    found[1] |= {"status": "matched_fp", "matched_golden_index": 1, "covered_golden_indices": [1]}
    found[2] |= {
        "status": "novel_tp",
        "classifier_tp_fp": "tp",
        "classifier_severity": "low",
        "classifier_category": "security",
    }
    return [{"pr_key": RB_KEY, "candidate_findings": found}]


def rb_files() -> dict[str, Any]:
    """A ReviewBench corpus with one review and its details."""
    return {
        "corpus/manifest.json": rb_manifest(),
        f"corpus/golden/{RB_KEY}.json": rb_golden(),
        "reviews/alpha.json": rb_candidates(),
        "reviews/results.details.json": rb_details(),
        "reviews/results.json": {"eval_config": {"matcher_model": "judge-1", "classifier_model": "judge-1"}},
    }


def spoiled(value: Any) -> Iterator[tuple[str, Any]]:
    """The value with one part after the other replaced by every hostile value, and one key after the other gone."""
    for path in list(_paths(value)):
        for hostile in HOSTILE:
            yield f"{path} = {str(hostile)[:20]}", _replaced(value, path, hostile)
        if path and isinstance(path[-1], str):
            yield f"{path} gone", _removed(value, path)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _paths(each, (*at, key))


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    result = copy.deepcopy(value)
    _parent(result, path)[path[-1]] = new
    return result


def _removed(value: Any, path: tuple[Any, ...]) -> Any:
    result = copy.deepcopy(value)
    del _parent(result, path)[path[-1]]
    return result


def _parent(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path[:-1]:
        value = value[part]
    return value
