"""What the tasks of one worker process share: store, evidence, sandboxes, snapshots, judges."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import structlog
from sqlalchemy import select

from crb_core.agent import AgentBuild
from crb_core.bundled import bundled_references
from crb_core.errors import UnavailableError
from crb_core.evidence import EvidenceStore, open_evidence
from crb_core.outages import Outage
from crb_core.settings import Settings
from crb_core.store import Store
from crb_core.store.corpora import load_corpus
from crb_core.store.judgments import TrialContext, judge_document
from crb_core.store.steps import AttemptLimits, TakenStep
from crb_core.store.tables import AttemptRow, SweepRow, core
from crb_worker.agent_secrets import agent_secrets
from crb_worker.app import BrokerClient
from crb_worker.disk_reserve import DiskReserve, disk_folders
from crb_worker.engine_watch import EngineWatch
from crb_worker.judge import load_judge, spec_of
from crb_worker.judge.base import Judge, JudgeWork, bound
from crb_worker.judge.rate_limit import BrokerRateLimiter, RateLimiter, RateLimits
from crb_worker.metrics import worker_metrics
from crb_worker.sandbox.contract import Sandbox
from crb_worker.sandbox.folder import attempt_folders
from crb_worker.sandbox.select import open_sandbox
from crb_worker.slots import ReviewGate
from crb_worker.snapshot import SnapshotCache, source_for
from crb_worker.status import WorkerStatus
from crb_worker.watcher import Watcher

__all__ = ["WorkerContext"]

log = structlog.get_logger(__name__)

attempts = core(AttemptRow)
sweeps = core(SweepRow)


class WorkerContext:
    """Opened once a worker process. Sandboxes and judges are opened at their first use and kept."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        broker_url: str,
        worker: str,
        review_slots: int,
        register: Callable[[dict[str, int] | None], object] = lambda _: None,
        *,
        waits_for_engine: bool = False,
    ) -> None:
        self.settings = settings
        self.store = store
        self.store_outage = Outage("store")
        self.evidence_outage = Outage("evidence")
        #: Set when this worker ends: who waits for a service gives up.
        self.ending = threading.Event()
        self.worker = worker
        self.limits = AttemptLimits(agent=settings.agent_attempts, farm=settings.farm_attempts)
        self.evidence: EvidenceStore = open_evidence(settings.resolved_evidence_url)
        self.snapshots = SnapshotCache(settings.snapshots_folder)
        self.workspace = settings.workspace
        self.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.workspace.chmod(0o700)
        self.broker = BrokerClient(broker_url)
        self.review_gate = ReviewGate(review_slots)
        self._slot_count = review_slots
        self.status = WorkerStatus(settings.home_folder)
        self.metrics = worker_metrics()
        self.metrics.watch_disk(settings.home_folder)
        self.disk = DiskReserve(disk_folders(settings), settings.disk_reserve)
        #: None in a local run, which ends where it cannot go on.
        self.engine_watch = EngineWatch() if waits_for_engine else None
        self.watcher = Watcher(
            store,
            worker,
            settings.beat_seconds,
            housekeeping=self.reap,
            # What a killed worker held is known to be over after a lease.
            housekeeping_seconds=min(60.0, 2 * settings.lease_seconds),
            status=self.status.read,
            note_store=self.metrics.store_away.note,
            outage=self.store_outage,
            register=register,
            review_pause=self._review_pause,
        )
        self._lock = threading.Lock()
        # Of their own: neither an engine that hangs nor a judge that loads its model keeps anything else waiting.
        self._sandbox_lock = threading.Lock()
        self._sandboxes: dict[str, Sandbox] = {}
        self._judges_lock = threading.Lock()
        #: By fingerprint and corpus; what a judge answers depends on nothing else.
        self._judges: dict[tuple[str, int], Judge] = {}
        self._corpora: dict[str, int] = {}
        self._limiters: dict[str, RateLimiter] = {}

    def _review_pause(self) -> str | None:
        """Why no review may start here; None where they may."""
        return self.disk.reason() or (None if self.engine_watch is None else self.engine_watch.reason())

    def review_sandbox(self, runner: str) -> Sandbox:
        """The sandbox that a review needs. As ``sandbox``."""
        if runner == "docker" and self.engine_watch is not None:
            self.engine_watch.need()
        return self.sandbox(runner)

    def sandbox(self, runner: str) -> Sandbox:
        """The sandbox of a runner kind; UnavailableError where it cannot run here."""
        with self._sandbox_lock:
            found = self._sandboxes.get(runner)
            if found is None:
                found = open_sandbox(runner, slots=self._slot_count, workspace=self.workspace, settings=self.settings)
                with self._lock:
                    self._sandboxes[runner] = found
                    # The slots may have changed meanwhile.
                    found.resize(self._slot_count)
            return found

    def resize_reviews(self, slots: int) -> None:
        """Run so many reviews at once from now on; 0 takes no more, and those that were taken end."""
        with self._lock:
            self._slot_count = max(slots, 1)
            for sandbox in self._sandboxes.values():
                sandbox.resize(self._slot_count)
        self.review_gate.resize(slots)

    def judge(self, judge_id: str, sweep_id: str) -> Judge:
        """The judge of a fingerprint. UnavailableError when this worker's judge of that name is another one."""
        with self._judges_lock:
            corpus_id = self._corpora.get(sweep_id)
            if corpus_id is None:
                with self.store.read() as connection:
                    of_sweep = select(sweeps.c.corpus_id).where(sweeps.c.id == sweep_id)
                    corpus_id = self._corpora[sweep_id] = connection.execute(of_sweep).scalar_one()
            key = (judge_id, corpus_id)
            if key not in self._judges:
                self._judges[key] = self._open_judge(judge_id, corpus_id)
            return self._judges[key]

    def judge_for(self, step: TakenStep, trial: TrialContext, stopped: threading.Event) -> Judge:
        """The judge of a step, with what the step lends it. ``stopped`` ends its waiting."""
        source = trial.snapshot_source
        return bound(
            self.judge(step.judge_id, step.sweep_id),
            lambda: JudgeWork(
                trial_id=step.trial_id,
                judge_id=step.judge_id,
                sweep_id=step.sweep_id,
                pull_request=trial.pull_request,
                snapshot=lambda: self.snapshots.get(source_for(source["kind"], source["template"]), trial.pull_request),
                store=self.store,
                evidence=self.evidence,
                limiter=self.limiter,
                stopped=stopped,
            ),
        )

    def limiter(self, scope: str) -> RateLimiter:
        """The limiter of a model service, shared by all workers of the broker."""
        with self._lock:
            if scope not in self._limiters:
                limits = RateLimits(
                    requests_per_minute=self.settings.judge_requests_per_minute,
                    tokens_per_minute=self.settings.judge_tokens_per_minute,
                )
                self._limiters[scope] = BrokerRateLimiter(self.broker.redis, limits, scope=scope)
            return self._limiters[scope]

    def _open_judge(self, judge_id: str, corpus_id: int) -> Judge:
        with self.store.read() as connection:
            row = judge_document(connection, judge_id)
            corpus = load_corpus(connection, corpus_id)
        judge = load_judge(
            spec_of(row.document["spec"], row.document["description"]),
            corpus=corpus,
            reference_folder=bundled_references(corpus.name),
        )
        if judge.fingerprint != judge_id:
            raise UnavailableError(
                f"The sweep was started with judge {row.name} {judge_id}, this worker has {judge.fingerprint}",
                remedy="Run the same version of crb on every worker, or judge again with `crb judge run`",
            )
        return judge

    def secrets(self, build: AgentBuild) -> dict[str, str]:
        """See ``agent_secrets``."""
        return agent_secrets(build, self.settings)

    def nudge(self) -> None:
        self.broker.nudge()

    def reap(self) -> list[str]:
        """Remove what attempts that are over left behind on this host."""

        def live() -> set[str]:
            with self.store.read() as connection:
                return set(connection.execute(select(attempts.c.tag).where(attempts.c.outcome.is_(None))).scalars())

        tags = {tag for tag, _ in attempt_folders(self.workspace, self.settings.farm)}
        if tags and tags - live():
            # What a killed worker left may be of a kind that this one has had no reason to open yet.
            for runner in ("docker", "process"):
                with contextlib.suppress(UnavailableError):
                    self.sandbox(runner)
        with self._lock:
            sandboxes = list(self._sandboxes.values())
        removed = [line for sandbox in sandboxes for line in sandbox.reap(self.settings.farm, live)]
        for line in removed:
            log.info("reaped", what=line)
        return removed

    def end(self) -> None:
        """Begin no more: what waits for its turn, or for a service that is away, is left to others."""
        self.ending.set()
        self.review_gate.close()

    def close(self) -> None:
        self.watcher.close()
        for sandbox in self._sandboxes.values():
            sandbox.close()
        self.broker.close()
