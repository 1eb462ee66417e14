"""Infers from a commit after the review which problems of the reviewed code it answers (seed A 4.1).

What the model answers has to name lines that the commit modified and quote one of them; anything else makes the answer
unusable. How sure it is decides what is proposed.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from crb_core.follow_ups import ModifiedFile, only_words
from crb_core.prompts import INFERRING, PromptSet, filled
from crb_core.pull_request import PullRequest
from crb_worker.judge.base import CallWork
from crb_worker.judge.calls import Asker, CallLimits
from crb_worker.judge.questions import AnswerModel, Reason, UnusableError, decoded, settled
from crb_worker.judge.quoting import element, escaped
from crb_worker.judge.requests import ModelAnswer, ModelRequest
from crb_worker.judge.text_reading import ReadingSetup, ReadingTask, reading_setup

__all__ = ["ActionReader", "Confidence", "Inferred", "InferredAnswer", "infer_request", "read_actions"]

#: Characters of a commit's diff that one request shows; a larger commit says too much to infer one problem from it.
MAX_SHOWN = 60_000


class Confidence(StrEnum):
    """How sure it is that the change answers this problem."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class _Finding(AnswerModel):
    file: str
    start_line: int
    end_line: int
    quote: Reason
    reason: Reason
    statement: Reason
    confidence: Confidence


class InferredAnswer(AnswerModel):
    """What the model answers: the problems that one commit shows, each with the line that shows it."""

    commit_id: str
    findings: list[_Finding]


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """One problem; its lines are those before the commit. ``request_hash`` is the stored request that gave it."""

    file: str
    start_line: int
    end_line: int
    statement: str
    quote: str
    reason: str
    confidence: Confidence
    request_hash: str


_TASK = ReadingTask(
    stage="infer",
    judge="claude-author-actions",
    role="reader",
    answer=InferredAnswer,
    prompts=INFERRING,
    name="the reading of commits",
    cannot="reads no commits",
    flag="--judge",
)


def read_actions(spec: str, prompts: PromptSet | None = None) -> ReadingSetup:
    """The setup of ``claude`` or ``claude:model=ID,effort=LOW``; InputError names what is wrong."""
    return reading_setup(_TASK, spec, prompts)


class ActionReader:
    """Reads commits with stored calls: the same commit is asked about once."""

    def __init__(self, setup: ReadingSetup, work: CallWork, limits: CallLimits | None = None) -> None:
        self.setup = setup
        self._work = work
        self._limits = limits or CallLimits()

    def infer(
        self, pull_request: PullRequest, message: str, files: Sequence[ModifiedFile], label: str
    ) -> tuple[Inferred, ...]:
        """The problems that one commit shows, in the answer's order; ``label`` names the commit for people.

        UnavailableError where this machine has no key for the model.
        """
        asker = self.setup.calls(self._work, self._limits)
        request = infer_request(asker, self.setup, pull_request, message, files, label)
        answer = settled(asker, request, lambda given: _checked(given, files), self.setup.prompts)
        paths = {each.path for each in files}
        return tuple(
            Inferred(
                file=each.file if each.file in paths else html.unescape(each.file),
                start_line=each.start_line,
                end_line=each.end_line,
                statement=each.statement,
                quote=each.quote,
                reason=each.reason,
                confidence=each.confidence,
                request_hash=request.request_hash,
            )
            for each in answer.findings
        )


def infer_request(
    asker: Asker,
    setup: ReadingSetup,
    pull_request: PullRequest,
    message: str,
    files: Sequence[ModifiedFile],
    label: str,
) -> ModelRequest:
    """The request of one commit."""
    content = setup.content(
        {
            "pull_request": {"title": pull_request.title, "body": pull_request.body},
            "message": message,
            "files": [{"path": each.path, "text": each.text} for each in files],
        }
    )
    unnamed = ModelRequest(stage=_TASK.stage, label=f"infer {label}", content=content, body={}, ids={})
    name = asker.ids.of(unnamed.request_hash, "commit", 0)
    parts = [
        element("title", message, {"id": name}),
        element("body", f"{pull_request.title}\n\n{pull_request.body}".strip()),
        *(element("diff", each.text, {"file": each.path}, limit=None) for each in files),
    ]
    asked = filled(setup.prompts["actions-request"], commit="\n".join(parts))
    body = setup.body(setup.prompts.actions_system, asked)
    return ModelRequest(stage=_TASK.stage, label=unnamed.label, content=content, body=body, ids={name: "commit 0"})


def _checked(given: ModelAnswer, files: Sequence[ModifiedFile]) -> InferredAnswer:
    """The answer, if it is about this commit, at lines that it modified and in its words."""
    answer = decoded(given, InferredAnswer)
    known = {each.path: each for each in files}
    problems = []
    if answer.commit_id not in given.ids:
        problems.append("commit_id is not the id of the commit.")
    for place, found in enumerate(answer.findings):
        field = f"findings.{place}"
        file = known.get(found.file) or known.get(html.unescape(found.file))
        if file is None:
            problems.append(f"{field}.file is not the path of a diff element.")
            continue
        if found.end_line < found.start_line:
            problems.append(f"{field}.end_line is before start_line.")
        elif found.start_line not in file.anchors or found.end_line not in file.anchors:
            problems.append(f"{field}: start_line and end_line are not lines that the commit modified.")
        quoted = {only_words(found.quote), only_words(html.unescape(found.quote))} - {""}
        said = {only_words(file.changed), only_words(escaped(file.changed))}
        if not any(each in whole for each in quoted for whole in said):
            problems.append(f"{field}.quote is not a line that the commit took away or wrote in this file.")
    if problems:
        raise UnusableError(problems)
    return answer
