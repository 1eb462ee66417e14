"""The claude judge on imported reviews of one file: in chunks, over the real repository, its reasons shown."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crb_cli.main import app
from crb_worker.judge.loopback import AnthropicServer, ReadingModel, RecordedRequest
from crb_worker.judge.loopback.model import findings_in
from tests.crb_cli.commands import Commands
from tests.crb_cli.judge_worker import broker_of_a_farm, judge_what_is_ready
from tests.crb_worker.judge.claude_support import sent

commands = Commands(app)
run = commands.run
read = commands.read

GOLDEN, CANDIDATES = 17, 23
REPO = "https://github.com/acme/widgets"


class SevenAndSeven(ReadingModel):
    """Matches by the number that a message begins with; labels what is left with two categories."""

    def matches(self, candidate: Any, golden: Any, request: RecordedRequest) -> bool:
        return bool(candidate.message.split()[0] == golden.message.split()[0])

    def label(self, finding: Any, request: RecordedRequest, *, known: bool) -> dict[str, Any]:
        return super().label(finding, request, known=known) | {
            "other_categories": ["security"],
            "primary_category_reason": "It fails for everyone.",
        }


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) if not isinstance(value, str) else value, encoding="utf-8")


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a corpus whose repository is on this machine, and one imported review of it."""
    mirror = tmp_path / "mirror" / "acme" / "widgets"

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", *identity, "-C", str(mirror), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    mirror.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    commits = []
    for text in ("before\n", "after\n"):
        write(mirror / "a.py", text * 300)
        git("add", ".")
        git("commit", "-qm", text.strip())
        commits.append(git("rev-parse", "HEAD"))
    base, head = commits
    key = f"acme_widgets_1-{head[:8]}"
    about = {"repo": REPO, "pr_number": 1, "base": base, "head": head}

    def finding(number: int, said: str, **more: Any) -> dict[str, Any]:
        return {"file": "a.py", "start_line": 1 + number, "end_line": 1 + number, "message": f"{number} {said}", **more}

    labels = {"tp_fp": "tp", "severity": "high", "category": "correctness", "producer": "human_review"}
    golden = [finding(number, "as people say", **labels) for number in range(GOLDEN)]
    found = [finding(number, "as alpha says", producer="alpha") for number in range(CANDIDATES)]
    pull_request = {**about, "pr_url": f"{REPO}/pull/1", "title": "T", "body": "", "nwo": "acme/widgets"}
    write(tmp_path / "corpus" / "manifest.json", [pull_request])
    write(tmp_path / "corpus" / "golden" / f"{key}.json", {"pr_key": key, "pr": about, "findings": golden})
    write(
        tmp_path / "reviews" / "alpha.json",
        {"pr": about, "agent": "alpha", "findings": found, "status": "success", "metadata": {"duration_seconds": 3}},
    )
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_of_a_farm(tmp_path_factory.mktemp("broker")) as url:
        yield url


@pytest.mark.parametrize("told", ["afterwards", pytest.param("first", marks=pytest.mark.thorough)])
def test_a_file_of_many_findings(imported: Path, broker_url: str, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    """Each pair is asked once and merged under its position; what is left is labelled over the corpus's repository,

    whether the corpus knew where that is before the reviews came, or learned it later.
    """
    mirror = ("--mirror", str(imported / "mirror" / "{owner}" / "{repo}"))
    run("corpus", "import", "reviewbench", "corpus", "--name", "rb", *(mirror if told == "first" else ()))
    run("sweep", "import", "reviewbench", "reviews", "--corpus", "rb", "--name", "imported")
    if told == "afterwards":
        run("corpus", "import", "reviewbench", "corpus", "--name", "rb", *mirror)
    with AnthropicServer(SevenAndSeven()) as server:
        with monkeypatch.context() as patch:
            patch.setenv("CRB_BROKER_URL", broker_url)
            run("judge", "run", "imported", "--judge", f"claude:base_url={server.base_url}")
        judge_what_is_ready(monkeypatch, broker_url)
        asked = Counter(
            (one.message, other.message)
            for request in server.requests
            if "candidate_findings" in json.dumps(request.body)
            for one in findings_in(sent(request))
            for other in findings_in(sent(request))
            if one.id.startswith("candidate-") and other.id.startswith("golden-")
        )
    assert len(asked) == GOLDEN * CANDIDATES
    assert set(asked.values()) == {1}
    record = read("trial", "show", "1")
    assert [step["state"] for step in record["steps"]] == ["done"] * 4
    (score,) = record["scores"]
    counts = score["score"]["micro"]["overall"]
    assert (counts["matched_tp_count"], counts["unclassified_count"]) == (GOLDEN, 0)
    assert counts["golden_covered_count"] == GOLDEN
    (judgment,) = record["judgments"]
    assert [label["candidate"] for label in judgment["labels"]] == list(range(GOLDEN, CANDIDATES))
    shown = run("trial", "show", "1")
    reason = "Also concerns security; correctness is the primary category: It fails for everyone."
    assert shown.count(reason) == CANDIDATES - GOLDEN
    # Nobody said whether imported findings are in the diff.
    assert "outside the diff" not in shown
