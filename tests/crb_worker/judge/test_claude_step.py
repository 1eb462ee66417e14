"""The claude judge inside the match and classify steps, with a real broker for its rate limit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from crb_core.bundled import bundled
from crb_core.corpus import Corpus
from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.judgments import save_candidates
from crb_core.store.steps import mark_queued
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.tables import ClassificationRow, CorrespondenceRow, Stage, StepRow, TrialRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.context import WorkerContext
from crb_worker.judge import load_judge
from crb_worker.judge.loopback import AnthropicServer, Fault, ReadingModel, Reply, text
from crb_worker.tasks.classify import classify_step
from crb_worker.tasks.match import match_step
from tests.crb_core.store.planned import build
from tests.crb_worker.judge.claude_support import KEY, finding

steps = core(StepRow)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker") / "broker.json") as started:
        yield started


class Farm:
    """One worker, one trial with three candidates, and its match step in the queue."""

    def __init__(self, folder: Path, corpus: Corpus, broker_url: str) -> None:
        store = open_store(f"sqlite:///{folder / 'crb.sqlite'}")
        judge = load_judge("claude", corpus=corpus)
        agent = build()
        golden = corpus.entry(KEY).golden
        with store.write() as connection:
            corpus_id = save_corpus(connection, corpus)
            sweep_id, _ = plan_sweep(
                connection,
                SweepPlan(
                    name="sweep",
                    corpus_id=corpus_id,
                    rounds=1,
                    builds=[agent],
                    pull_requests=[pull_request_ids(connection, corpus_id)[KEY]],
                    judges=[
                        JudgePlan(
                            judge_id=judge.fingerprint,
                            name=judge.name,
                            classifies=True,
                            document={"spec": "claude", "description": judge.describe()},
                        )
                    ],
                    snapshot_source={"kind": "showcase", "template": str(bundled("corpus") / "showcase")},
                ),
            )
            trial_id = connection.execute(select(core(TrialRow).c.id)).scalar_one()
            candidates = [finding(golden[0].message, file=golden[0].file or ""), finding("Zyxw qwertz uiopu.")]
            save_candidates(connection, trial_id, candidates)
            self.match_id = connection.execute(
                insert(steps)
                .values(
                    trial_id=trial_id,
                    judge_id=judge.fingerprint,
                    stage=Stage.MATCH.value,
                    sweep_id=sweep_id,
                    build_id=agent.build_id,
                    priority=0,
                    position=0,
                    state="ready",
                    fence=0,
                    beat=0,
                    cancel_requested=False,
                    attempts_before=0,
                )
                .returning(steps.c.id)
            ).scalar_one()
        self.store = store
        settings = Settings(home=folder, beat_seconds=0.1)
        self.context = WorkerContext(settings, store, broker_url, "worker", 1)

    def run(self, stage: Stage) -> Any:
        with self.store.read() as connection:
            step_id = connection.execute(select(steps.c.id).where(steps.c.stage == stage.value)).scalar_one()
        with self.store.write() as connection:
            connection.execute(update(steps).where(steps.c.id == step_id).values(not_before=None))
            assert mark_queued(connection, [step_id]) == [step_id]
        (match_step if stage is Stage.MATCH else classify_step)(self.context, step_id)
        with self.store.read() as connection:
            return connection.execute(select(steps).where(steps.c.id == step_id)).one()


@pytest.fixture
def farm(
    tmp_path: Path, showcase_corpus: Corpus, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Farm]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    opened = Farm(tmp_path, showcase_corpus, broker.url)
    opened.context.broker.redis.flushall()
    yield opened
    opened.context.close()
    opened.store.close()


def serve(monkeypatch: pytest.MonkeyPatch, script: Any) -> AnthropicServer:
    server = AnthropicServer(script)
    monkeypatch.setenv("CRB_JUDGE_BASE_URL", server.base_url)
    return server


def test_a_trial_is_matched_and_classified(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Correspondences and labels are stored; the unmatched candidate is classified over the real snapshot."""
    with serve(monkeypatch, ReadingModel()):
        assert farm.run(Stage.MATCH).state == "done"
        assert farm.run(Stage.CLASSIFY).state == "done"
    with farm.store.read() as connection:
        matched = [(row.candidate, row.golden) for row in connection.execute(select(core(CorrespondenceRow)))]
        labels = list(connection.execute(select(core(ClassificationRow))))
    assert (0, 0) in matched
    assert [(row.candidate, row.document["tp_fp"]) for row in labels] == [(1, "fp")]


def test_a_service_without_room_defers_the_step(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ready again later, costs no attempt, and says why."""
    with serve(monkeypatch, [Fault(429, retry_after=120)]):
        row = farm.run(Stage.MATCH)
    assert row.state == "ready"
    assert row.not_before > time.time() + 100
    assert "429" in row.reason


def test_an_unusable_answer_fails_the_step_with_its_reason(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is stored as "no match"."""
    with serve(monkeypatch, [Reply([text("no JSON")])] * 2):
        row = farm.run(Stage.MATCH)
    assert row.state == "failed"
    assert "still wrong after one repair" in row.reason
    assert KEY in row.reason
    with farm.store.read() as connection:
        assert connection.execute(select(core(CorrespondenceRow))).all() == []


def test_a_cancelled_step_stops_waiting(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel flag ends a judgment that waits for its next try, and nothing more is asked."""
    farm.context.watcher.start()

    def cancel() -> None:
        with farm.store.write() as connection:
            connection.execute(update(steps).values(cancel_requested=True))

    def cancel_soon(request: Any) -> Fault:
        threading.Timer(0.2, cancel).start()
        return Fault(429, retry_after=50)

    with serve(monkeypatch, [cancel_soon, Fault(400)]) as server:
        row = farm.run(Stage.MATCH)
        assert len(server.requests) == 1
    assert (row.state, row.reason) == ("cancelled", "cancelled")


def test_the_key_is_in_no_row_and_no_blob(farm: Farm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even after a fault that quotes it."""
    with serve(monkeypatch, [Fault(401, message="the key is wrong")]):
        row = farm.run(Stage.MATCH)
    assert row.state == "failed"
    assert "Check ANTHROPIC_API_KEY" in row.reason
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(b"test-key" in path.read_bytes() for path in files)
    assert json.dumps(dict(row._mapping), default=str).count("test-key") == 0
