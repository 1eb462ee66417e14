"""A judged pull request of the showcase in a store, and the claude judge that works on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from crb_core.bundled import bundled
from crb_core.corpus import Corpus
from crb_core.evidence import FolderEvidence
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.formats.showcase import read_showcase
from crb_core.pull_request import PullRequest
from crb_core.store import Store, open_store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.judge_calls import calls
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.tables import TrialRow, core
from crb_worker.judge.base import CallWork, JudgeWork
from crb_worker.judge.calls import CallLimits
from crb_worker.judge.claude import ClaudeJudge, read_setup
from crb_worker.judge.loopback import AnthropicServer, Reply, text
from crb_worker.judge.rate_limit import LocalRateLimiter, RateLimiter, RateLimits
from crb_worker.snapshot import ShowcaseSource, Snapshot, SnapshotCache
from tests.crb_core.store.planned import build

KEY = "ledger-41"
MODEL = "claude-sonnet-5"


def showcase() -> Corpus:
    """The showcase, cut down to the one pull request."""
    whole = read_showcase(bundled("corpus") / "showcase")
    return whole.model_copy(update={"entries": (whole.entry(KEY),), "subsets": {}})


def snapshot_of(folder: Path, pull_request: PullRequest) -> Snapshot:
    return SnapshotCache(folder).get(ShowcaseSource(bundled("corpus") / "showcase"), pull_request)


def finding(message: str, *, file: str = "ledger/api.py", line: int = 10, end: int | None = None) -> CandidateFinding:
    return CandidateFinding(
        file=file, start_line=line, end_line=end or line, message=message, producer="producer-of-candidate"
    )


def golden(message: str, *, file: str = "ledger/api.py", line: int = 10) -> GoldenFinding:
    return GoldenFinding.model_validate(
        {
            "file": file,
            "start_line": line,
            "end_line": line,
            "message": message,
            "producer": "producer-of-golden",
            "label": {"tp_fp": "tp", "severity": "high", "category": "correctness"},
        }
    )


@dataclass
class Desk:
    """One trial in a store of its own. ``judge`` gives a judge bound to that trial, as a worker would bind it."""

    store: Store
    evidence: FolderEvidence
    sweep_id: str
    trial_id: int
    pull_request: PullRequest
    snapshot: Snapshot
    limiter: RateLimiter = field(default_factory=lambda: LocalRateLimiter(RateLimits()))
    stopped: threading.Event = field(default_factory=threading.Event)

    def work(self, judge_id: str) -> JudgeWork:
        return JudgeWork(
            trial_id=self.trial_id,
            judge_id=judge_id,
            sweep_id=self.sweep_id,
            pull_request=self.pull_request,
            snapshot=lambda: self.snapshot,
            store=self.store,
            evidence=self.evidence,
            limiter=lambda scope: self.limiter,
            stopped=self.stopped,
        )

    def outside(self, judge_id: str) -> CallWork:
        """Calls that belong to no trial."""
        return CallWork(
            trial_id=None,
            judge_id=judge_id,
            sweep_id=None,
            store=self.store,
            evidence=self.evidence,
            limiter=lambda _scope: self.limiter,
        )

    def judge(self, server: AnthropicServer, limits: CallLimits | None = None, **options: str) -> ClaudeJudge:
        setup = replace(read_setup({"model": MODEL, **options}), base_url=server.base_url)
        judge = ClaudeJudge(setup, limits or CallLimits(seconds=20, tries=3))
        return judge.for_step(self.work(judge.fingerprint))

    def calls(self) -> list[Any]:
        with self.store.read() as connection:
            return list(connection.execute(select(calls).order_by(calls.c.id)))


@contextmanager
def open_desk(
    folder: Path, corpus: Corpus, snapshot: Snapshot, *, max_cost_usd: float | None = None, url: str | None = None
) -> Iterator[Desk]:
    store = open_store(url or f"sqlite:///{folder / 'crb.sqlite'}")
    agent = build()
    with store.write() as connection:
        corpus_id = save_corpus(connection, corpus)
        ids = pull_request_ids(connection, corpus_id)
        sweep_id, _ = plan_sweep(
            connection,
            SweepPlan(
                name="sweep",
                corpus_id=corpus_id,
                rounds=1,
                builds=[agent],
                pull_requests=[ids[KEY]],
                judges=[JudgePlan(judge_id="j-0", name="claude", classifies=True, document={})],
                snapshot_source={"kind": "none", "template": None},
                max_cost_usd=max_cost_usd,
            ),
        )
        trial_id = connection.execute(select(core(TrialRow).c.id)).scalar_one()
    try:
        yield Desk(
            store=store,
            evidence=FolderEvidence(folder / "evidence"),
            sweep_id=sweep_id,
            trial_id=trial_id,
            pull_request=corpus.entry(KEY).pull_request,
            snapshot=snapshot,
        )
    finally:
        store.close()


def findings_reply(tag: str, kind: str, /, *findings: dict[str, Any], **changes: Any) -> Callable[[Any], Reply]:
    """Answers with findings about the text that the request shows, whose id stands at its first element ``tag``."""

    def reply(request: Any) -> Reply:
        shown = sent(request)
        start = shown.index(f'<{tag} id="') + len(f'<{tag} id="')
        answer = {f"{kind}_id": shown[start : shown.index('"', start)], "findings": list(findings), **changes}
        return Reply([text(json.dumps(answer))])

    return reply


def sent(request: Any) -> str:
    """Every text of a request's user messages."""
    blocks: Sequence[Any] = [block for message in request.body["messages"] for block in message["content"]]
    return "\n".join(str(block.get("text") or block.get("content")) for block in blocks)
