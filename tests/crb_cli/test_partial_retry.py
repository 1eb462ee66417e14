"""``crb trial retry`` where one of the agents has become another build since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crb_cli.builds import resolve_builds
from crb_core.agent import Limits, Outcome
from crb_core.agent_source import load_agent
from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.steps import finish_attempt, mark_queued, take
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.trials import TrialFilter, list_trials
from crb_scheduler.broker import EmbeddedBroker
from tests.crb_core.store.planned import LIMITS, corpus
from tests.e2e.farm import crb


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A sweep of lint, which is as it was, and of minimal with another limit than now; two trials each failed."""
    home = tmp_path / "home"
    settings = Settings(home=home, runner="process")
    kept, other = (resolve_builds([load_agent(name)], settings).builds[0] for name in ("lint", "minimal"))
    changed = other.model_copy(update={"limits": Limits(timeout_seconds=7)})
    store = open_store(settings.resolved_store_url)
    with store.write() as connection:
        corpus_id = save_corpus(connection, corpus(2))
        plan_sweep(
            connection,
            SweepPlan(
                name="nightly",
                corpus_id=corpus_id,
                rounds=1,
                builds=[kept, changed],
                pull_requests=list(pull_request_ids(connection, corpus_id).values()),
                judges=[JudgePlan(judge_id="j-1", name="offline", classifies=False, document={})],
                snapshot_source={"kind": "none", "template": None},
                agent_sources={"lint": "lint", "minimal": "minimal"},
            ),
        )
        assert mark_queued(connection, [1, 2, 3, 4]) == [1, 2, 3, 4]
    for step_id in (1, 2, 3, 4):
        taken = take(store, step_id, "w")
        assert taken is not None
        with store.write() as connection:
            finish_attempt(
                connection, taken, outcome=Outcome.TIMEOUT, detail="slow", values={}, limits=LIMITS, final=True
            )
    store.close()
    return home


def test_what_may_be_tried_again_is_and_the_rest_is_named(home: Path, tmp_path: Path) -> None:
    """Exit code 3 with the reason on standard error; 1 where one trial is named, or nothing else is left."""
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")

    def states() -> dict[int, str]:
        with store.read() as connection:
            return {each["trial"]: each["review"] for each in list_trials(connection, TrialFilter())}

    with store.read() as connection:
        agents = {each["trial"]: each["agent"] for each in list_trials(connection, TrialFilter())}
    changed = [trial for trial, agent in agents.items() if agent == "minimal"]
    kept = [trial for trial, agent in agents.items() if agent == "lint"]
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:

        def retry(*arguments: str, status: int) -> tuple[str, str]:
            ran = crb("trial", "retry", *arguments, home=home, CRB_BROKER_URL=broker.url, CRB_RUNNER="process")
            assert (ran.returncode, "Traceback" in ran.stderr) == (status, False), ran.stderr
            return ran.stdout, ran.stderr

        said = retry(str(changed[0]), status=1)[1]
        assert "minimal of sweep nightly is another build now" in said
        assert "limits.timeout_seconds was 7 and is" in said
        assert set(states().values()) == {"failed"}

        printed, said = retry("--sweep", "nightly", "--failed", "--dry-run", status=3)
        assert "2 review steps would be tried again" in printed
        assert max(map(len, printed.splitlines())) <= 80
        assert set(states().values()) == {"failed"}

        printed, said = retry("--sweep", "nightly", "--failed", "--json", status=3)
        document = json.loads(printed)
        assert sorted(document["retried"]) == kept
        (refused,) = document["refused"]
        assert (refused["agent"], refused["trials"], refused["sweep"]) == ("minimal", changed, "nightly")
        assert f"crb: 2 trials ({changed[0]}, {changed[1]}) are not tried again: The agent minimal" in said
        assert said.count("\n") == 1
        assert states() == {trial: "ready" if trial in kept else "failed" for trial in agents}
        assert document["operations"][0]["reason"].startswith("the agent minimal is another build now")

        assert "another build now" in retry("--failed", status=1)[1]
    store.close()
