"""What a judge says of one pull request: correspondences and classifications (seed A 6.2, 6.3).

Positions are 0-based places in the candidate list and in the golden list of that pull request.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crb_core.finding import CandidateFinding, GoldenFinding, Label, Record

__all__ = ["Classification", "Correspondence", "JudgedPullRequest"]

Position = Annotated[int, Field(ge=0)]


class Correspondence(Record):
    """The golden findings that one candidate raw-matches; kept for audit, many-to-many.

    ``probabilities`` (0 to 1) stand beside ``golden`` where the judge gives them.
    """

    candidate: Position
    golden: tuple[Position, ...]
    probabilities: tuple[float, ...] | None = None
    reasoning: str | None = None


class Classification(Record):
    """A judge's label for a candidate that claims no golden finding."""

    candidate: Position
    label: Label


class JudgedPullRequest(Record):
    """One pull request of one trial with everything a score is computed from."""

    key: str
    golden: tuple[GoldenFinding, ...]
    candidates: tuple[CandidateFinding, ...]
    correspondences: tuple[Correspondence, ...] = ()
    classifications: tuple[Classification, ...] = ()
