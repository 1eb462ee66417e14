"""What attempts that did not succeed leave behind, through the real review step: usage, and times of their own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.agent import AgentBuild, Limits
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.phases import split
from crb_core.pull_request import PullRequest
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.steps import mark_queued
from crb_core.store.sweeps import SweepPlan, plan_sweep
from crb_core.store.tables import AttemptRow, StepRow, core
from crb_worker.context import WorkerContext
from crb_worker.sandbox.process import ProcessSandbox
from crb_worker.tasks.review import review_step
from tests.crb_cli.judge_worker import broker_of_a_farm

attempts, steps = core(AttemptRow), core(StepRow)

_IDENTITY = (
    '"pr": {"repo": "https://github.com/$RB_NWO", "pr_number": $RB_PR_NUMBER, "head": "$RB_HEAD"}, "agent": "flaky"'
)
#: Times out with usage written, fails without a word, and then waits twice at once before it succeeds.
ENTRYPOINT = f"""#!/bin/sh
report() {{ echo "{{{_IDENTITY.replace('"', chr(92) + '"')}, \\"findings\\": [], \\"usage\\": $1}}" > "$RB_OUT"; }}
case "$RB_ATTEMPT" in
1) report '{{"total_tokens": 700, "cost_usd": 0.5}}'; sleep 60 ;;
2) exit 3 ;;
*) sleep 0.5 & sleep 0.5 & wait; report '{{"total_tokens": 40, "cost_usd": 0.25}}' ;;
esac
"""
MANIFEST = """name = "flaky"
display_name = "Flaky"
provider = "tests"
contacts = ["tests"]
process_command = ["sh", "entrypoint"]
"""


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def _pull_request(folder: Path) -> PullRequest:
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    heads = []
    for text in ("one\n", "two\n"):
        (folder / "app.py").write_text(text)
        _git(folder, "add", ".")
        _git(folder, "commit", "-qm", text)
        heads.append(_git(folder, "rev-parse", "HEAD"))
    return PullRequest(
        key="tiny-7", repo="https://github.com/acme/tiny", number=7, base=heads[0], head=heads[1], title="Two"
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    found = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    yield found
    found.close()


def _reviewed(tmp_path: Path, home: Path, store: Store) -> list[float]:
    """Work on the one trial until its review has ended; the seconds that each attempt took, by this clock."""
    agent = tmp_path / "agents" / "flaky"
    agent.mkdir(parents=True)
    (agent / "agent.toml").write_text(MANIFEST)
    (agent / "Dockerfile").write_text("FROM scratch\n")
    (agent / "entrypoint").write_text(ENTRYPOINT)
    (agent / "entrypoint").chmod(0o755)
    pull_request = _pull_request(tmp_path / "upstream")
    corpus = Corpus(
        name="tiny",
        version="1",
        title="Tiny",
        source="none",
        entries=(CorpusEntry(pull_request=pull_request, golden=()),),
    )
    sandbox = ProcessSandbox(slots=1, agents=agent.parent)
    build = AgentBuild(
        agent="flaky",
        display_name="Flaky",
        provider="tests",
        image="crb/test-flaky",
        image_id=sandbox.resolve("flaky").image_id,
        runner="process",
        limits=Limits(timeout_seconds=1),
    )
    with store.write() as connection:
        corpus_id = save_corpus(connection, corpus)
        plan_sweep(
            connection,
            SweepPlan(
                name="flaky",
                corpus_id=corpus_id,
                rounds=1,
                builds=[build],
                pull_requests=list(pull_request_ids(connection, corpus_id).values()),
                judges=[],
                snapshot_source={"kind": "mirror", "template": str(tmp_path / "upstream")},
            ),
        )
        step = connection.execute(select(steps.c.id)).scalar_one()
    took = []
    with broker_of_a_farm(tmp_path / "broker") as url:
        settings = Settings(home=home, agent_attempts=3, broker_url=url)
        context = WorkerContext(settings, store, url, "worker", 1)
        # The real sandbox, which elsewhere runs the bundled agents only.
        context._sandboxes["process"] = sandbox
        context.watcher.start()
        try:
            while True:
                with store.write() as connection:
                    connection.execute(update(steps).values(not_before=None))
                    if mark_queued(connection, [step]) != [step]:
                        break
                began = time.monotonic()
                review_step(context, step)
                took.append(time.monotonic() - began)
        finally:
            context.close()
    return took


def test_usage_and_times_of_every_attempt(tmp_path: Path, home: Path, store: Store) -> None:
    """A time-out's usage is kept, a silent failure's unknown; times are the attempt's own and never add up to more.

    What harnesses are blamed for: usage that is under-reported after a time-out, and waits that are counted twice, so
    that a working time becomes negative.
    """
    took = _reviewed(tmp_path, home, store)
    with store.read() as connection:
        made = connection.execute(select(attempts).order_by(attempts.c.number)).all()
    assert [row.outcome for row in made] == ["timeout", "nonzero_exit", "succeeded"]
    assert [row.usage for row in made] == [
        {"total_tokens": 700, "cost_usd": 0.5},
        None,
        {"total_tokens": 40, "cost_usd": 0.25},
    ]
    for row, seconds in zip(made, took, strict=True):
        phases = {name: value for name, value in row.phases_ms.items() if name != "queue"}
        assert all(value >= 0 for value in phases.values())
        assert sum(value for name, value in split(phases, row.review_ms).items()) <= seconds * 1000
    assert made[2].review_ms >= 500
    shown = json.loads(_crb("trial", "show", "1", "--json"))
    assert shown["review_ms"] == made[2].review_ms
    assert (shown["usage"]["total_tokens"], shown["usage"]["cost_usd"]) == (40, 0.25)
    assert shown["usage"]["evidence"] == made[2].evidence["findings"]
    said = _crb("trial", "show", "1")
    assert "usage: total_tokens 700, cost_usd 0.5; in no figure of a review" in said
    assert "usage: none reported, so it is not known and not 0" in said


def _crb(*arguments: str) -> Any:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output
