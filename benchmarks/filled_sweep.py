"""A made-up sweep of any size in a store, reviewed and judged: what the benchmarks of reading it load."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, insert, select

from crb_core.agent import AgentBuild
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.finding import GoldenFinding, Label
from crb_core.protocols import reviewbench
from crb_core.pull_request import PullRequest
from crb_core.store import Store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.results import StoredJudge
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.tables import (
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorrespondenceRow,
    JudgmentRow,
    TrialRow,
    core,
)

__all__ = ["CANDIDATES", "GOLDEN", "fill", "label", "made_up_build", "made_up_corpus", "matches"]

#: Candidates of every trial, golden findings of every pull request.
CANDIDATES, GOLDEN = 10, 9
JUDGE = StoredJudge(judge_id="j-bench", name="bench", classifies=True, document={})
PRODUCERS = ("human_review", "llm_review:one", "llm_review:two")
_BATCH = 2000


def fill(store: Store, *, builds: int, pull_requests: int, rounds: int, seed: int = 1) -> tuple[str, StoredJudge]:
    """Plan a sweep and end all of it: reviews with findings, matches, labels. Returns sweep id and judge."""
    draw = random.Random(seed)
    corpus = made_up_corpus(pull_requests, draw)
    with store.write() as connection:
        corpus_id = save_corpus(connection, corpus)
        ids = pull_request_ids(connection, corpus_id)
        sweep_id, _ = plan_sweep(
            connection,
            SweepPlan(
                name="bench",
                corpus_id=corpus_id,
                rounds=rounds,
                builds=[made_up_build(number) for number in range(builds)],
                pull_requests=list(ids.values()),
                judges=[JudgePlan(judge_id=JUDGE.judge_id, name=JUDGE.name, classifies=True, document={})],
                snapshot_source={"kind": "none", "template": None},
            ),
        )
        trials = list(
            connection.execute(
                select(core(TrialRow).c.id).where(core(TrialRow).c.sweep_id == sweep_id).order_by(core(TrialRow).c.id)
            ).scalars()
        )
        _insert(
            connection,
            AttemptRow,
            (
                {
                    "trial_id": trial,
                    "number": 1,
                    "tag": f"bench-{trial}",
                    "worker": "bench",
                    "outcome": "succeeded",
                    "started_at": "2999-01-01T00:00:00.000Z",
                    "review_ms": draw.uniform(1e3, 1e5),
                    "usage": {"total_tokens": draw.randrange(10**6)},
                }
                for trial in trials
            ),
        )
        _insert(
            connection,
            CandidateRow,
            (
                {
                    "trial_id": trial,
                    "position": position,
                    "file": "src/module.py",
                    "start_line": position + 1,
                    "end_line": position + 2,
                    "message": "The value is used before it is checked, so an empty request fails further down.",
                    "producer": "agent",
                }
                for trial in trials
                for position in range(CANDIDATES)
            ),
        )
        _insert(
            connection,
            JudgmentRow,
            (
                {"id": trial, "trial_id": trial, "judge_id": JUDGE.judge_id, "scored_at": "2999-01-02T00:00:00.000Z"}
                for trial in trials
            ),
        )
        judged = {trial: matches(draw) for trial in trials}
        _insert(
            connection,
            CorrespondenceRow,
            (
                {"judgment_id": trial, "candidate": candidate, "golden": golden, "reasoning": "The same cause."}
                for trial, found in judged.items()
                for candidate, goldens in found
                for golden in goldens
            ),
        )
        _insert(
            connection,
            ClassificationRow,
            (
                {
                    "judgment_id": trial,
                    "candidate": candidate,
                    "document": label(draw) | {"tp_fp_justification": "x" * 200},
                }
                for trial, found in judged.items()
                for candidate in unmatched(found)
            ),
        )
    return sweep_id, JUDGE


def label(draw: random.Random) -> dict[str, Any]:
    """A label with every axis."""
    return {
        "tp_fp": draw.choice(("tp", "tp", "fp")),
        "severity": draw.choice(reviewbench.SEVERITIES),
        "category": draw.choice(reviewbench.CATEGORIES),
        "scope": draw.choice(("introduced-by-pr", "pre-existing")),
        "difficulty": draw.choice(("easy", "medium", "hard")),
        "context_required": draw.choice(("diff-only", "broader-project-context")),
    }


def matches(draw: random.Random) -> list[tuple[int, list[int]]]:
    """Half of the candidates match one golden finding or two."""
    return [
        (candidate, sorted(draw.sample(range(GOLDEN), draw.choice((1, 1, 2)))))
        for candidate in range(CANDIDATES)
        if draw.random() < 0.5
    ]


def unmatched(found: list[tuple[int, list[int]]]) -> list[int]:
    """The candidates that claim nothing."""
    taken: set[int] = set()
    settled: set[int] = set()
    for candidate, goldens in found:
        free = [golden for golden in goldens if golden not in taken]
        if free:
            taken.add(free[0])
            settled.add(candidate)
    return [candidate for candidate in range(CANDIDATES) if candidate not in settled]


def _insert(connection: Connection, model: Any, rows: Iterator[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            connection.execute(insert(core(model)), batch)
            batch = []
    if batch:
        connection.execute(insert(core(model)), batch)


def made_up_build(number: int) -> AgentBuild:
    """A build of its own for each number."""
    return AgentBuild(
        agent=f"agent-{number}",
        display_name=f"Agent {number}",
        provider="bench",
        image=f"bench/{number}",
        image_id=f"sha256:{number:064x}",
        runner="docker",
    )


def made_up_corpus(pull_requests: int, draw: random.Random, golden: int = GOLDEN) -> Corpus:
    """Pull requests ``pr-0`` and on, each with so many golden findings."""
    return Corpus(
        name="bench",
        version="1",
        title="bench",
        source="none",
        entries=tuple(
            CorpusEntry(
                pull_request=PullRequest(
                    key=f"pr-{number}",
                    repo="https://github.com/bench/bench",
                    number=number + 1,
                    base="0" * 40,
                    head="1" * 40,
                    title=f"Change {number}",
                ),
                golden=tuple(
                    GoldenFinding(
                        file="src/module.py",
                        start_line=place + 1,
                        end_line=place + 1,
                        message=f"Finding {place}",
                        producer=draw.choice(PRODUCERS),
                        label=Label(**label(draw)),
                    )
                    for place in range(golden)
                ),
            )
            for number in range(pull_requests)
        ),
    )
