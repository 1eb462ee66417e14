"""The recorded reviewers replay what stands in their recordings, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from crb_core.agent_source import load_agent
from crb_core.bundled import bundled
from tests.agents.support import PullRequestFolder

RECORDINGS = sorted((bundled("agents") / "recorded" / "recordings").glob("*/*.json"))


@pytest.mark.parametrize("name", ["recorded-careful", "recorded-eager"])
def test_it_says_that_it_is_scripted(name: str) -> None:
    """Kind, display name and notes tell a reader of any table that nothing was reviewed."""
    agent = load_agent(name)
    assert agent.manifest.kind == "replay"
    assert "scripted" in agent.manifest.display_name
    assert "reviews nothing" in agent.manifest.notes
    assert agent.folder is not None
    assert "scripted" in (agent.folder / "README.md").read_text()


def test_every_recording_replays_every_round(pull_request: PullRequestFolder) -> None:
    """For each recording and round: the findings at the recorded positions, in the recorded order."""
    assert RECORDINGS
    pull_request.commit({}, {"a": "x\n"})
    for file in RECORDINGS:
        recording = json.loads(file.read_text())
        repository, _, number = recording["pull_request"].rpartition("-")
        pull_request.nwo, pull_request.number = f"crb-showcase/{repository}", int(number)
        assert len(recording["rounds"]) >= 3
        for round_number, positions in enumerate(recording["rounds"], start=1):
            run = pull_request.run(f"recorded-{file.parent.name}", CRB_ROUND=str(round_number))
            assert run.status == 0, f"{file}: {run.log}"
            assert run.findings == [
                tuple(recording["findings"][position][key] for key in ("file", "start_line", "end_line", "message"))
                for position in positions
            ]
            if round_number == 1:
                assert run.document["pr"]["repo"] == f"https://github.com/crb-showcase/{repository}"


@pytest.mark.parametrize(
    ("nwo", "number", "round_number"),
    [
        ("crb-showcase/ledger", 42, "1"),
        ("someone/ledger", 41, "1"),
        ("crb-showcase/../ledger", 41, "1"),
        ("crb-showcase/../eager/ledger", 41, "1"),
        ("crb-showcase/ledger", 41, "4"),
        ("ledger", 41, "1"),
    ],
)
def test_without_a_recording_it_fails(
    pull_request: PullRequestFolder, nwo: str, number: int, round_number: str
) -> None:
    """Status 3 and a sentence, never an empty review."""
    pull_request.commit({}, {"a": "x\n"})
    pull_request.nwo, pull_request.number = nwo, number
    run = pull_request.run("recorded-careful", CRB_ROUND=round_number)
    assert (run.status, run.out.exists()) == (3, False)
    assert run.log.startswith("the recorded reviewer careful has ")


@pytest.mark.parametrize("round_number", ["", "0", "-1", "one", "1.5", "9" * 5000])
def test_a_round_that_is_no_number_ends_with_status_2(pull_request: PullRequestFolder, round_number: str) -> None:
    """The round comes from the runner; without it, there is no right answer."""
    pull_request.commit({}, {"a": "x\n"})
    run = pull_request.run("recorded-careful", CRB_ROUND=round_number)
    assert (run.status, run.out.exists()) == (2, False)
    assert run.log.startswith("CRB_ROUND is ")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"reviewer": "eager"}, "reviewer is not careful"),
        ({"pull_request": "ledger-42"}, "pull request is not ledger-41"),
        ({"rounds": [[9]]}, "round 1 names finding 9, and there are 1"),
        ({"rounds": [[-1]]}, "round 1 names finding -1"),
        ({"rounds": [[True]]}, "round 1 names finding True"),
        ({"findings": [{"file": "../a", "start_line": 1, "end_line": 1, "message": "x"}]}, "findings[0]"),
        ({"findings": [{"file": "a", "start_line": 2, "end_line": 1, "message": "x"}]}, "findings[0]"),
        ({"findings": [{"file": "a", "start_line": 1, "end_line": 1, "message": " "}]}, "findings[0]"),
        ({"findings": []}, "no findings"),
        ("{", "cannot be replayed"),
    ],
)
def test_a_damaged_recording_is_a_failure(
    pull_request: PullRequestFolder, tmp_path: Path, change: dict[str, Any] | str, problem: str
) -> None:
    """Status 4 and a sentence that names the file."""
    agents = tmp_path / "agents"
    for name in ("contract", "recorded", "recorded-careful"):
        shutil.copytree(bundled("agents") / name, agents / name)
    recording = {
        "reviewer": "careful",
        "pull_request": "ledger-41",
        "findings": [{"file": "a", "start_line": 1, "end_line": 1, "message": "x"}],
        "rounds": [[0]],
    }
    file = agents / "recorded" / "recordings" / "careful" / "ledger-41.json"
    file.write_text(change if isinstance(change, str) else json.dumps({**recording, **change}))
    pull_request.commit({}, {"a": "x\n"})
    agent = load_agent(agents / "recorded-careful")
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        agent.process_argv,
        env={**pull_request.environment(agent), "CRB_ROUND": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 4, done.stderr
    assert problem in done.stderr
    assert "careful/ledger-41.json" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []
