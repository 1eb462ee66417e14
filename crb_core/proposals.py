"""Findings that are proposed for a golden set, before anyone has labelled them (seed A 4).

They come from producers of four kinds. A golden set is made from them by labelling (``crb_core.golden_sets``).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import Field

from crb_core.corpus import Producer
from crb_core.diff import DiffIndex
from crb_core.errors import InputError
from crb_core.finding import Finding, NonBlank, Record

__all__ = ["Alignment", "LeftOut", "Origin", "Proposal", "Proposals", "merged_producers", "on_changed_lines"]


class Origin(StrEnum):
    """What kind of producer proposes findings (seed A 4.1, 4.2)."""

    #: A comment that a person made at lines.
    HUMAN_REVIEW = "human_review"
    #: An issue that a commit of the author after the reviewed head says without words.
    AUTHOR_ACTION = "inferred_author_action"
    #: A rule violation of a linter, type checker or static analyser on a changed line.
    TOOL = "deterministic_tool"
    #: A finding of a review agent.
    LLM_REVIEW = "llm_review"

    @property
    def source_type(self) -> str:
        """``type`` in the finding's ``source``, by ReviewBench's names."""
        return {
            Origin.HUMAN_REVIEW: "review_comment",
            Origin.AUTHOR_ACTION: "follow_up_commit",
            Origin.TOOL: "tool",
            Origin.LLM_REVIEW: "llm_review",
        }[self]


class Alignment(StrEnum):
    """How a remark that was made on some commit came to its lines at the reviewed head."""

    ON_HEAD = "on_chosen_head"
    REMAPPED = "remapped_unchanged"
    CODE_CHANGED = "code_changed"


class Proposal(Record):
    """One proposed finding of a pull request; ``source`` says where it comes from and holds the record it is from."""

    pull_request: NonBlank
    finding: Finding
    source: dict[str, Any] = Field(default_factory=dict)


class LeftOut(Record):
    """Something that was read and is not proposed: ``kind`` groups what is alike, ``problem`` says why."""

    kind: NonBlank
    problem: NonBlank
    file: str
    field: str | None = None


class Proposals(Record):
    """What one source proposes for a corpus, with its producers and what was left out."""

    corpus: NonBlank
    corpus_fingerprint: NonBlank
    origin: Origin
    producers: tuple[Producer, ...]
    proposals: tuple[Proposal, ...]
    left_out: tuple[LeftOut, ...] = ()


def on_changed_lines(diff: DiffIndex, finding: Finding) -> bool:
    """Whether a finding's lines hold one that the diff wrote; context lines are none (seed A 4.2)."""
    changed = diff.files.get(finding.file) if finding.file is not None else None
    if changed is None or finding.start_line is None or finding.end_line is None:
        return False
    return any(finding.start_line <= line <= finding.end_line for line in changed.added)


def merged_producers(known: Iterable[Producer], more: Iterable[Producer]) -> tuple[Producer, ...]:
    """Both, each once; InputError where one name stands for two versions or configurations (seed A 9, item 2)."""
    found = {producer.name: producer for producer in known}
    for producer in more:
        first = found.setdefault(producer.name, producer)
        if (first.version, first.configuration) != (producer.version, producer.configuration):
            raise InputError(
                f"the producer {producer.name!r} is in the corpus with another version or configuration: "
                f"{first.version} and {producer.version}",
                remedy="Give it another name with --producer, such as one with its version",
            )
    return tuple(found.values())
