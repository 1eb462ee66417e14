"""What a judge is: a matcher, and for some judges a classifier, with a fingerprint (seed A 6.2, 6.3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from crb_core.corpus import fingerprint
from crb_core.errors import CrbError, InputError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence
from crb_core.protocols import comparable

if TYPE_CHECKING:
    from crb_core.evidence import EvidenceStore
    from crb_core.pull_request import PullRequest
    from crb_core.store import Store
    from crb_core.store.judge_calls import RunBudget
    from crb_worker.judge.rate_limit import RateLimiter
    from crb_worker.snapshot import Snapshot

__all__ = [
    "PROTOCOLS",
    "CallWork",
    "Classifier",
    "Judge",
    "JudgeWork",
    "LaterError",
    "StepBound",
    "StoppedError",
    "bound",
    "comparable",
    "judge_fingerprint",
]

#: The protocols a judge can be asked to match under.
PROTOCOLS = ("reviewbench", "answer-key", "golden-comments")


@runtime_checkable
class Judge(Protocol):
    """Matches candidates to golden findings. Safe to call from several threads; keeps no state between calls.

    ``classifies`` says whether the judge is a :class:`Classifier` too. Where it is false, unmatched candidates stay
    unclassified and the augmented metrics are null (rule 10).
    """

    @property
    def name(self) -> str:
        """What users call it: ``offline``, ``reference``."""

    @property
    def fingerprint(self) -> str:
        """``j-`` and 12 hex digits over everything in :meth:`describe`."""

    @property
    def classifies(self) -> bool: ...

    def describe(self) -> dict[str, Any]:
        """Every parameter that decides an answer, as JSON."""

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """One record for every candidate, in order; its ``golden`` is ascending and empty where nothing matches."""


@runtime_checkable
class Classifier(Judge, Protocol):
    """A judge that also labels the candidates which claim no golden finding."""

    def classify(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,
    ) -> tuple[Classification, ...]:
        """A label for each position, in the order given, each on its own and unaware of matches (rule 5)."""


class LaterError(CrbError):
    """The judgment has to wait for ``seconds``: its step is deferred, which costs no attempt and holds no thread."""

    def __init__(self, problem: str, *, seconds: float) -> None:
        super().__init__(problem)
        self.seconds = seconds


class StoppedError(CrbError):
    """The step was cancelled or given to another worker while the judge worked on it."""


@dataclass(frozen=True, kw_only=True)
class CallWork:
    """What calls of a model need: where they are stored, and what limits them.

    ``sweep_id`` names the sweep whose budget the calls count against; ``budget`` limits calls that belong to no trial.
    ``limiter`` makes the limiter of a scope (service and key), shared between workers. ``stopped`` ends all waiting.
    """

    trial_id: int | None
    judge_id: str
    sweep_id: str | None
    store: Store
    evidence: EvidenceStore
    limiter: Callable[[str], RateLimiter]
    budget: RunBudget | None = None
    stopped: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, kw_only=True)
class JudgeWork(CallWork):
    """What one step lends a judge that needs more than the findings.

    ``snapshot`` makes or finds the frozen repository at head; ``stopped`` is set when the step was cancelled or lost.
    """

    pull_request: PullRequest
    snapshot: Callable[[], Snapshot]


@runtime_checkable
class StepBound(Protocol):
    """A judge that works on one step at a time: ``for_step`` gives the judge of that step, which then matches."""

    def for_step(self, work: JudgeWork) -> Judge: ...


def bound(judge: Judge, work: Callable[[], JudgeWork]) -> Judge:
    """The judge for one step; ``work`` is only made for a judge that asks for it."""
    return judge.for_step(work()) if isinstance(judge, StepBound) else judge


def judge_fingerprint(description: dict[str, Any]) -> str:
    """``j-`` and 12 hex digits of the SHA-256 over a description's canonical JSON."""
    return "j-" + fingerprint(description)[:12]


def unknown_protocol(protocol: str) -> InputError:
    """The error for a protocol that is none of ``PROTOCOLS``."""
    return InputError(f"the protocol {protocol[:80]!r} is unknown", remedy=f"Choose one of {', '.join(PROTOCOLS)}")
