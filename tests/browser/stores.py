"""The stores that the browser is shown: imported judges, a sweep of the showcase, a made-up one, and hostile texts."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from benchmarks.filled_sweep import fill
from crb_core.store.tables import PullRequestRow, core
from tests.crb_core.formats.imported_samples import write_files
from tests.crb_web.audit_store import imported_home, opened

__all__ = ["COMMENTS", "MODELS", "SHOWCASE", "everything", "import_comments", "made_once", "shared_home"]

#: Names of sweeps.
COMMENTS, SHOWCASE = "comments", "demo"
MODELS = ("maker_model-a", "maker_model-b", "vendor_model-1")
TOOLS = ("alpha", "beta", "gamma", "delta")
_CATEGORIES = ("bug", "concurrency", "style", "test_gap", "security", "perf")
_SEVERITIES = ("Low", "Medium", "High", "Critical")


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` fills, once for all processes of a test run."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_suffix(".done")
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CRB_HOME with the sweeps of ``everything``, which no test changes; one for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return made_once((base.parent if is_worker else base) / "shared-home", everything)


def crb(home: Path, *arguments: str | Path) -> str:
    """Run the command over a home; what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "crb_cli", *map(str, arguments)],
        env={**os.environ, "CRB_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def everything(home: Path) -> None:
    """Four sweeps: recorded rounds with evidence, every label axis and dimension, three judges, and the showcase."""
    imported_home(home)
    store = opened(home)
    fill(store, builds=3, pull_requests=6, rounds=3)
    pull_requests = core(PullRequestRow)
    with store.write() as connection:
        rows = connection.execute(select(pull_requests)).all()
        for number, row in enumerate(row for row in rows if row.document["repo"].endswith("/bench")):
            traits = {
                "language": ("Go", "C++ & <b>", None)[number % 3],
                "change_type": ("feature", "fix")[number % 2],
                "domain": f"d{number % 4}",
                "complexity": ("simple", "complex")[number % 2],
                "lines_added": 40 * number,
                "lines_removed": 1,
            }
            labels = {"llm_pr_labels": {"risk_level": ("high", "low")[number % 2], "bug_categories": ["x", "y"]}}
            document = row.document | {"traits": traits, "source": {"labels": labels}}
            connection.execute(update(pull_requests).where(pull_requests.c.id == row.id).values(document=document))
    store.close()
    folder = home / "golden-comments"
    import_comments(home, write_files(folder, _comment_files()), COMMENTS)
    crb(
        home,
        *("demo", "--runner", "process", "--subset", "smoke", "--rounds", "2"),
        *("--judge", "claude", "--fake-model", "--json"),
    )


def import_comments(home: Path, folder: Path, name: str) -> None:
    """A golden-comments folder as a corpus and a sweep of one name."""
    crb(home, "corpus", "import", "golden-comments", folder, "--name", name, "--json")
    crb(home, "sweep", "import", "golden-comments", folder, "--corpus", name, "--name", name, "--json")


def _comment_files() -> dict[str, Any]:
    """Eight pull requests, four tools, three judges that do not agree."""
    draw = random.Random(7)
    golden: list[dict[str, Any]] = []
    for number in range(8):
        comments = [
            {
                "comment": f"Fault {place} of change {number}: the value is used before it is checked.",
                "severity": draw.choice(_SEVERITIES),
                "category": draw.choice(_CATEGORIES),
            }
            for place in range(draw.randint(2, 5))
        ]
        url = f"https://github.com/acme/widgets/pull/{number + 1}"
        golden.append({"pr_title": f"Change {number}", "url": url, "comments": comments})
    files: dict[str, Any] = {
        "golden_comments/widgets.json": golden,
        "results/pr_labels.json": {
            each["url"]: {
                "derived": {"language": ("Go", "Python", "Ruby")[number % 3], "num_files_touched": number + 1},
                "llm_pr_labels": {
                    "change_type": ("feature", "bug_fix")[number % 2],
                    "domain": ("storage", "web")[number // 4],
                    "risk_level": ("low", "high", "medium")[number % 3],
                },
            }
            for number, each in enumerate(golden)
        },
    }
    for model in MODELS:
        candidates, evaluations, groups = {}, {}, {}
        for each in golden:
            url = each["url"]
            candidates[url], evaluations[url], groups[url] = {}, {}, {}
            for tool in TOOLS:
                texts = [f"{tool} says {place} of {each['pr_title']}" for place in range(draw.randint(1, 6))]
                candidates[url][tool] = [
                    {"text": text, "path": None, "line": None, "source": "extracted"} for text in texts
                ]
                evaluations[url][tool] = _evaluation(draw, tool, each["comments"], texts)
                groups[url][tool] = [[place] for place in range(len(texts))]
        files |= {
            f"results/{model}/candidates.json": candidates,
            f"results/{model}/dedup_groups.json": groups,
            f"results/{model}/evaluations.json": evaluations,
        }
    return files


def _evaluation(draw: random.Random, tool: str, comments: list[dict[str, Any]], texts: list[str]) -> dict[str, Any]:
    found = dict(zip(range(len(comments)), draw.sample(texts, len(texts)), strict=False))
    found = {place: text for place, text in found.items() if draw.random() < 0.6}
    missed = [comment for place, comment in enumerate(comments) if place not in found]
    wrong = [text for text in texts if text not in found.values()]
    return {
        "skipped": False,
        "true_positives": [
            {
                "golden_comment": comments[place]["comment"],
                "severity": comments[place]["severity"],
                "matched_candidate": text,
                "confidence": 0.9,
                "reasoning": "The same cause.",
            }
            for place, text in found.items()
        ],
        "false_positives": [{"candidate": text} for text in wrong],
        "false_negatives": [{"golden_comment": each["comment"], "severity": each["severity"]} for each in missed],
        "errors": [],
        "errors_count": 0,
        "tp": len(found),
        "fp": len(wrong),
        "fn": len(missed),
        "total_candidates": len(texts),
        "total_golden": len(comments),
        "tool": tool,
    }
