"""What a judge is: a matcher, and for some judges a classifier, with a fingerprint (seed A 6.2, 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from crb_core.corpus import fingerprint
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, Finding, GoldenFinding
from crb_core.matching import Classification, Correspondence

__all__ = ["PROTOCOLS", "Classifier", "Judge", "comparable", "judge_fingerprint"]

#: The protocols a judge can be asked to match under.
PROTOCOLS = ("reviewbench", "answer-key", "golden-comments")

#: Lines that may lie between a finding and a defect of an answer key (rule 20).
_LOCALITY = 3


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


def judge_fingerprint(description: dict[str, Any]) -> str:
    """``j-`` and 12 hex digits of the SHA-256 over a description's canonical JSON."""
    return "j-" + fingerprint(description)[:12]


def comparable(candidate: Finding, golden: Finding, protocol: str) -> bool:
    """Whether a protocol allows the pair at all.

    reviewbench: the same file, compared exactly (facts A7). answer-key: the same file and at most three lines apart
    (rule 20). golden-comments: every pair, there are no files (rule 18). An unknown protocol is an InputError.
    """
    match protocol:
        case "golden-comments":
            return True
        case "reviewbench":
            return candidate.file is not None and candidate.file == golden.file
        case "answer-key":
            if candidate.file is None or candidate.file != golden.file:
                return False
            if candidate.start_line is None or candidate.end_line is None:
                return False
            if golden.start_line is None or golden.end_line is None:
                return False
            return max(0, golden.start_line - candidate.end_line, candidate.start_line - golden.end_line) <= _LOCALITY
        case _:
            raise InputError(
                f"the protocol {protocol[:80]!r} is unknown", remedy=f"Choose one of {', '.join(PROTOCOLS)}"
            )
