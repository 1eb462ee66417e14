"""What a command lends the calls of a judge that no worker makes: kept in the store, limited, never made twice."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from crb_core.corpus import Corpus, CorpusEntry
    from crb_core.evidence import EvidenceStore
    from crb_core.settings import Settings
    from crb_core.store import Store
    from crb_core.store.judge_calls import RunBudget
    from crb_worker.judge.base import CallWork, JudgeWork
    from crb_worker.judge.rate_limit import RateLimiter
    from crb_worker.snapshot import SnapshotCache

__all__ = ["CallDesk", "FakeModel", "MaxCost", "fake_model_served", "finite_cost", "open_call_desk"]


def finite_cost(usd: float | None) -> float | None:
    """A limit of cost as it was given; typer.BadParameter for one that limits nothing."""
    if usd is not None and not math.isfinite(usd):
        raise typer.BadParameter("an amount in USD is a finite number; leave it out for no limit")
    return usd


MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        callback=finite_cost,
        help="List price in USD that the calls of this run may reach.",
        show_default=False,
    ),
]
FakeModel = Annotated[bool, typer.Option("--fake-model", help="Let the claude judge ask a scripted model on loopback.")]


@dataclass(frozen=True, kw_only=True)
class CallDesk:
    """Store, evidence, limits and snapshots for the calls of one judge in one run of a command."""

    judge_id: str
    store: Store
    evidence: EvidenceStore
    snapshots: SnapshotCache
    limiter: Callable[[str], RateLimiter]
    budget: RunBudget | None

    def calls(self) -> CallWork:
        """For calls that look at no repository."""
        from crb_worker.judge.base import CallWork

        return CallWork(
            trial_id=None,
            judge_id=self.judge_id,
            sweep_id=None,
            store=self.store,
            evidence=self.evidence,
            limiter=self.limiter,
            budget=self.budget,
        )

    def lender(
        self, corpus: Corpus, *, trial_id: int | None = None, sweep_id: str | None = None
    ) -> Callable[[CorpusEntry], JudgeWork]:
        """For the judge of one pull request. Calls of a trial are that judgment's own, in its sweep's budget."""
        from crb_worker.judge.base import JudgeWork
        from crb_worker.snapshot import source_for

        def lend(entry: CorpusEntry) -> JudgeWork:
            return JudgeWork(
                trial_id=trial_id,
                judge_id=self.judge_id,
                sweep_id=sweep_id,
                pull_request=entry.pull_request,
                snapshot=lambda: self.snapshots.get(
                    source_for(corpus.source, corpus.source_template), entry.pull_request
                ),
                store=self.store,
                evidence=self.evidence,
                limiter=self.limiter,
                budget=self.budget,
            )

        return lend


def open_call_desk(settings: Settings, store: Store, judge_id: str, *, max_cost: float | None = None) -> CallDesk:
    """The desk of a judge; with ``max_cost`` its calls stop before their list price passes that many USD."""
    from crb_core.evidence import open_evidence
    from crb_core.store.judge_calls import run_budget
    from crb_worker.snapshot import SnapshotCache

    budget = None
    if max_cost is not None:
        with store.read() as connection:
            budget = run_budget(connection, judge_id, max_cost)
    return CallDesk(
        judge_id=judge_id,
        store=store,
        evidence=open_evidence(settings.resolved_evidence_url),
        snapshots=SnapshotCache(settings.snapshots_folder),
        limiter=_limiters(settings),
        budget=budget,
    )


def _limiters(settings: Settings) -> Callable[[str], RateLimiter]:
    """The limiter of a service: the farm's own where there is a broker, so that workers and this command share it."""
    from functools import cache

    from crb_worker.judge.rate_limit import BrokerRateLimiter, LocalRateLimiter, RateLimits

    limits = RateLimits(
        requests_per_minute=settings.judge_requests_per_minute, tokens_per_minute=settings.judge_tokens_per_minute
    )
    if settings.broker_url is None:
        alone = LocalRateLimiter(limits)
        return lambda _scope: alone
    from crb_worker.app import BrokerClient

    redis = BrokerClient(settings.broker_url).redis

    @cache
    def shared(scope: str) -> RateLimiter:
        return BrokerRateLimiter(redis, limits, scope=scope)

    return shared


@contextmanager
def fake_model_served(*, wanted: bool) -> Iterator[None]:
    """While the block runs, the claude judge asks the scripted model on loopback, if that is ``wanted``."""
    if not wanted:
        yield
        return
    from crb_worker.judge.loopback import fake_model

    with fake_model() as variables, _environment(variables):
        yield


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
