"""The measurement of the offline judge counts as it says, on a folder small enough to check by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.offline_judge import Review, certain_pairs, digest, judge, read, vocabulary_of
from crb_core.calibration import Counts
from crb_core.errors import InputError
from crb_worker.judge.offline_model import Forest, OfflineModel

URL = "https://example.org/owner/shop/pull/1"
GOLDEN = ("`total_price` rounds before it sums, so cents are lost.", "The cache in `find_user` is never emptied.")
FOUND = "total_price loses cents because it rounds each price before it sums them."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One pull request, two goldens; tool a finds the first and has a false alarm, tool b has no candidate."""

    def write(name: str, data: Any) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data), encoding="utf-8")

    comments = [{"comment": text, "severity": "High"} for text in GOLDEN]
    write("golden_comments/shop.json", [{"pr_title": "t", "url": URL, "comments": comments}])
    false_alarm = "The colour of the button is odd."
    write("results/model/candidates.json", {URL: {"a": [{"text": FOUND}, {"text": false_alarm}]}})
    match = {"golden_comment": GOLDEN[0], "matched_candidate": FOUND}
    write(
        "results/model/evaluations.json",
        {URL: {"a": {"true_positives": [match], "fp": 1}, "b": {"true_positives": [], "fp": 1}}},
    )
    return tmp_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "benchmarks" / "offline_judge.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_figures(folder: Path) -> None:
    """Two questions, both answered as the reference does; the tool without candidates is in the F1 table only."""
    done = run("measure", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    pooled = json.loads(done.stdout)["pooled"]
    assert (pooled["n"], pooled["agreement"], pooled["kappa"]) == (2, 1.0, 1.0)
    assert (pooled["precision"], pooled["recall"], pooled["f1"]) == (1.0, 1.0, 1.0)
    assert pooled["tools"] == {"a": {"f1": 0.5, "reference_f1": 0.5}, "b": {"f1": 0.0, "reference_f1": 0.0}}


def test_only_certain_pairs_teach(folder: Path) -> None:
    """The recorded match is a positive, pairs of the missed golden negatives, the rest of a covered golden neither."""
    labels = [label for _, label in certain_pairs([review for review in read(folder) if review.tool == "a"])]
    assert labels == [True, False, False] * 3


def test_counts(folder: Path) -> None:
    """One best candidate a golden; the others are false positives once a text."""
    (review,) = (review for review in read(folder) if review.tool == "a")
    doubled = Review(**{**vars(review), "candidates": (*review.candidates, *review.candidates)})
    (judged,) = judge([doubled], vocabulary_of([doubled]), Forest(OfflineModel.load().trees).probabilities)
    assert judged.counts() == Counts(1, 1, 1)


def test_the_digest_follows_the_content(folder: Path) -> None:
    """A changed byte in a file that training reads is another training set; another file is not."""
    before = digest(folder)
    (folder / "published_table.json").write_text("{}")
    assert digest(folder) == before
    path = folder / "results" / "model" / "candidates.json"
    path.write_text(path.read_text() + "\n")
    assert digest(folder) != before


def test_a_match_that_is_not_there(folder: Path) -> None:
    """A recorded match of an unknown candidate is an error that names the file, not a lost pair."""
    path = folder / "results" / "model" / "candidates.json"
    path.write_text(path.read_text().replace("loses cents", "loses coins"))
    with pytest.raises(InputError, match="names a golden or candidate that is not there"):
        read(folder)
    done = run("measure", str(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: a recorded match of a ")
