"""Findings and their labels (seed A 2, 4.3, 5.2).

A finding is an atomic review remark on lines of a file. It is *golden* when it belongs to a corpus and *candidate*
when an agent produced it. Severity and category are plain strings here: their vocabularies belong to the protocol.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

__all__ = [
    "JUSTIFIED_AXES",
    "LABEL_AXES",
    "Actionability",
    "CandidateFinding",
    "ContextRequired",
    "Difficulty",
    "Finding",
    "GoldenFinding",
    "Label",
    "Scope",
    "TpFp",
]

NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
Line = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Record(BaseModel):
    """A frozen record that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class TpFp(StrEnum):
    """Whether a competent senior reviewer would expect the author to address the finding before merge."""

    TP = "tp"
    FP = "fp"


class Scope(StrEnum):
    """Whether the pull request caused the issue. Informational: no factor in the tp/fp decision."""

    INTRODUCED = "introduced-by-pr"
    EXACERBATED = "exacerbated-by-pr"
    PRE_EXISTING = "pre-existing"
    UNRELATED = "unrelated"


class Difficulty(StrEnum):
    """How likely a competent author would notice the issue without being told."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class ContextRequired(StrEnum):
    """How much has to be read to verify the finding."""

    DIFF_ONLY = "diff-only"
    RELATED_FILES = "diff-plus-related-files"
    PROJECT = "broader-project-context"


class Actionability(StrEnum):
    """Whether a concrete change exists that would improve the pull request."""

    ACTIONABLE = "actionable"
    NOT_ACTIONABLE = "not-actionable"


#: The axes a label can carry, in the order in which tables show them.
LABEL_AXES = ("tp_fp", "severity", "category", "scope", "difficulty", "context_required", "actionability")
#: Those of them that have a justification beside them.
JUSTIFIED_AXES = ("tp_fp", "severity", "category")


class Label(Record):
    """The tp/fp label of a finding with its auxiliary axes and justifications (seed A 5.2).

    ``provenance`` maps an axis to ``human``, ``human-corrected`` or the fingerprint of the classifier that set it.
    """

    tp_fp: TpFp
    severity: NonBlank | None = None
    category: NonBlank | None = None
    scope: Scope | None = None
    difficulty: Difficulty | None = None
    context_required: ContextRequired | None = None
    actionability: Actionability | None = None
    tp_fp_justification: str | None = None
    severity_justification: str | None = None
    category_justification: str | None = None
    provenance: dict[str, NonBlank] = Field(default_factory=dict)


class Finding(Record):
    """One review remark. ``file``, ``start_line`` and ``end_line`` (from 1, inclusive) are all given or all absent;

    they are absent only where a protocol has no locations (golden-comments).
    """

    file: NonBlank | None = None
    start_line: Line | None = None
    end_line: Line | None = None
    message: NonBlank
    producer: NonBlank

    @model_validator(mode="after")
    def _location_is_whole(self) -> Finding:
        if self.file is None and (self.start_line is not None or self.end_line is not None):
            raise ValueError("lines are given without a file")
        if (self.start_line is None) != (self.end_line is None):
            raise ValueError("start_line and end_line are given together or not at all")
        if self.start_line is not None and self.end_line is not None and self.end_line < self.start_line:
            raise ValueError("end_line is before start_line")
        return self

    @property
    def lines(self) -> str:
        """``12`` or ``12-15``, or empty where there is no location."""
        if self.start_line is None:
            return ""
        return f"{self.start_line}" if self.start_line == self.end_line else f"{self.start_line}-{self.end_line}"

    def bare(self) -> dict[str, Any]:
        """Place, message and producer: what findings of every kind have, without a label or a source."""
        return {name: getattr(self, name) for name in ("file", "start_line", "end_line", "message", "producer")}

    def content_digest(self, pull_request_key: str) -> str:
        """12 hex digits over place and message.

        The producer is no part of it: the same remark on the same lines is the same, whoever makes it.
        """
        content = [pull_request_key, self.file, self.start_line, self.end_line, self.message]
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


class GoldenFinding(Finding):
    """A finding of the golden set, with its label and where it came from."""

    label: Label
    source: dict[str, Any] = Field(default_factory=dict)

    def finding_id(self, pull_request_key: str) -> str:
        """The stable, content-derived id that a dispute cites (rule 2): ``g-`` and 12 hex digits."""
        return f"g-{self.content_digest(pull_request_key)}"


class CandidateFinding(Finding):
    """A finding that an agent reported. ``in_diff`` is None where the diff is unknown (imported reviews)."""

    in_diff: bool | None = None
