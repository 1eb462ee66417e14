"""A small text corpus for tests, complete and unsealed, to be bent by each test."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

KEY = "widget-1"

BASE_TREE = {
    "README.md": "# Widgets\n",
    "src/widget.py": "def size(a):\n    return a\n\n\ndef area(a):\n    return a * a\n",
    "run.sh": "#!/bin/sh\nexec python3 -m widget\n",
    "data/crlf.txt": "one\r\ntwo\r\n",
    "docs/no-newline.txt": "last line",
}
PATCH = "\n".join(
    [
        "diff --git a/src/widget.py b/src/widget.py",
        "--- a/src/widget.py",
        "+++ b/src/widget.py",
        "@@ -1,5 +1,6 @@",
        " def size(a):",
        "-    return a",
        "+    b = a",
        "+    return b + 1",
        " ",
        " ",
        " def area(a):",
        "diff --git a/tools/check.sh b/tools/check.sh",
        "new file mode 100755",
        "--- /dev/null",
        "+++ b/tools/check.sh",
        "@@ -0,0 +1 @@",
        "+true",
        "",
    ]
)
CORPUS = """name = "tiny"
version = "1"
title = "Tiny"
licence = "MIT"
protocol = "reviewbench"
pull_requests = ["widget-1"]

[subsets]
smoke = ["widget-1"]

[[producers]]
name = "authors:test"
version = "1"

[[recorded_reviewers]]
name = "careful"
recordings = "recordings/careful"
reference = "reference/careful"
"""
PULL_REQUEST = """repo = "https://github.com/acme/widget"
number = 1
title = "Bigger widgets"
body = \"\"\"
Adds one.
base = "not a field"
\"\"\"
language = "Python"
change_type = "feature"
domain = "widgets"
complexity = "simple"
executable = ["run.sh"]
"""


def golden(**changes: Any) -> dict[str, Any]:
    return {
        "file": "src/widget.py",
        "start_line": 3,
        "end_line": 3,
        "message": "Off by one.",
        "tp_fp": "tp",
        "severity": "high",
        "category": "correctness",
        "scope": "introduced-by-pr",
        "difficulty": "easy",
        "context_required": "diff-only",
        "actionability": "actionable",
        "tp_fp_justification": "It adds one.",
        "severity_justification": "Wrong size.",
        "category_justification": "A wrong result.",
        "producer": "authors:test",
        "source": {"type": "review_comment"},
    } | changes


RECORDING = {
    "reviewer": "careful",
    "pull_request": KEY,
    "findings": [
        {"file": "src/widget.py", "start_line": 3, "end_line": 3, "message": "One too many."},
        {"file": "nowhere.py", "start_line": 900, "end_line": 900, "message": "Out of place."},
    ],
    "rounds": [[0], [0, 1], [1, 0]],
}
REFERENCE = {
    "reviewer": "careful",
    "pull_request": KEY,
    "judgments": [
        {"finding": 0, "matches": [0], "label": {"tp_fp": "tp", "severity": "high", "category": "correctness"}},
        {"finding": 1, "matches": [], "label": {"tp_fp": "fp", "severity": "low", "category": "other"}},
    ],
}


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_corpus(folder: Path) -> Path:
    """An unsealed corpus of one pull request that has no other problem than being unsealed."""
    pull_request = folder / "pull_requests" / KEY
    for name, content in BASE_TREE.items():
        path = pull_request / "base" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    (pull_request / "change.patch").write_bytes(PATCH.encode())
    (pull_request / "pull_request.toml").write_text(PULL_REQUEST, encoding="utf-8")
    write_json(
        pull_request / "golden.json", {"findings": [golden(), golden(message="Nit.", tp_fp="fp", severity="low")]}
    )
    write_json(folder / "recordings" / "careful" / f"{KEY}.json", RECORDING)
    write_json(folder / "reference" / "careful" / f"{KEY}.json", REFERENCE)
    (folder / "corpus.toml").write_text(CORPUS, encoding="utf-8")
    return folder


def git(folder: Path, *arguments: str, **variables: str) -> str:
    """Run the machine's git as a user would, with fixed identity and without anyone's settings."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    } | variables
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
