"""Splits a general comment of a review into findings with the model (seed C, step 1).

Every finding quotes the passage that it comes from; a quotation, file or line that the comment does not hold makes the
answer unusable, so nothing that the reviewer did not say becomes a finding.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from crb_core.formats.general_comments import Passage
from crb_core.formats.paths import path_problem
from crb_core.prompts import EXTRACTING, PromptSet, filled
from crb_worker.judge.base import CallWork
from crb_worker.judge.calls import Asker, CallLimits
from crb_worker.judge.questions import AnswerModel, UnusableError, decoded, settled
from crb_worker.judge.quoting import element, escaped
from crb_worker.judge.requests import ModelAnswer, ModelRequest
from crb_worker.judge.text_reading import ReadingSetup, ReadingTask, reading_setup

__all__ = ["ExtractAnswer", "Extractor", "extract_request", "read_extractor"]

#: Characters of a comment that one request shows; a longer comment is cut at a blank line, or where there is none.
_PART = 24_000

Sentence = Annotated[str, Field(min_length=1)]


class _Found(AnswerModel):
    quote: Sentence
    statement: Sentence
    file: str | None
    line: int | None


class ExtractAnswer(AnswerModel):
    """What the model answers: the findings of one comment, each with the words that report it."""

    comment_id: str
    findings: list[_Found]


_TASK = ReadingTask(
    stage="extract",
    judge="claude-extractor",
    role="extractor",
    answer=ExtractAnswer,
    prompts=EXTRACTING,
    name="the splitting of comments",
    cannot="takes no comments apart",
    flag="--extract",
)


def read_extractor(spec: str, prompts: PromptSet | None = None) -> ReadingSetup:
    """The setup of ``claude`` or ``claude:model=ID,effort=LOW``; InputError names what is wrong."""
    return reading_setup(_TASK, spec, prompts)


class Extractor:
    """Splits comments with stored calls: the same comment is asked for once, whoever wrote it wherever."""

    def __init__(self, setup: ReadingSetup, work: CallWork, limits: CallLimits | None = None) -> None:
        self.setup = setup
        self._work = work
        self._limits = limits or CallLimits()

    @property
    def fingerprint(self) -> str:
        return self.setup.fingerprint

    def split(self, text: str, label: str) -> tuple[Passage, ...]:
        """The findings of one comment, in its order; ``label`` names it for people. May be called from any thread.

        UnavailableError where this machine has no key for the model.
        """
        asker = self.setup.calls(self._work, self._limits)
        parts = _parts(text)
        found: list[Passage] = []
        for number, part in enumerate(parts, start=1):
            name = label if len(parts) == 1 else f"{label}, part {number} of {len(parts)}"
            found += self._split_part(asker, part, name)
        return tuple(found)

    def _split_part(self, asker: Asker, text: str, label: str) -> list[Passage]:
        request = extract_request(asker, self.setup, text, label)
        answer = settled(asker, request, lambda given: _checked(given, text), self.setup.prompts)
        return [
            Passage(
                statement=found.statement,
                quote=found.quote,
                file=found.file,
                line=found.line,
                request_hash=request.request_hash,
            )
            for found in answer.findings
        ]


def extract_request(asker: Asker, setup: ReadingSetup, text: str, label: str) -> ModelRequest:
    """The request of one comment, or of one part of a long one."""
    content = setup.content({"comment": text})
    unnamed = ModelRequest(stage=_TASK.stage, label=f"extract {label}", content=content, body={}, ids={})
    name = asker.ids.of(unnamed.request_hash, "comment", 0)
    asked = filled(setup.prompts["extractor-request"], comment=element("comment", text, {"id": name}, limit=None))
    body = setup.body(setup.prompts.extractor_system, asked)
    return ModelRequest(stage=_TASK.stage, label=unnamed.label, content=content, body=body, ids={name: "comment 0"})


def _checked(given: ModelAnswer, text: str) -> ExtractAnswer:
    """The answer, if it is about this comment and everything that it names stands there."""
    answer = decoded(given, ExtractAnswer)
    said = {_words(escaped(text)), _words(html.unescape(escaped(text))), _words(text), _words(html.unescape(text))}
    problems = []
    if answer.comment_id not in given.ids:
        problems.append("comment_id is not the id of the comment.")
    for place, found in enumerate(answer.findings):
        field = f"findings.{place}"
        quoted = {_words(found.quote), _words(html.unescape(found.quote))} - {""}
        if not quoted:
            problems.append(f"{field}.quote holds no word.")
        elif not any(each in whole for each in quoted for whole in said):
            problems.append(f"{field}.quote does not stand in the comment as it is written there.")
        if not found.statement.strip():
            problems.append(f"{field}.statement is blank.")
        problems += [f"{field}.{problem}" for problem in _place_problems(found.file, found.line, text)]
    if problems:
        raise UnusableError(problems)
    return answer


def _place_problems(file: str | None, line: int | None, text: str) -> list[str]:
    if file is None:
        return [] if line is None else ["line is given without a file."]
    found = []
    if not file.strip() or file not in text:
        found.append("file does not stand in the comment.")
    elif path_problem(file) is not None:
        found.append("file is no path inside a repository: give null.")
    if line is not None and not (line > 0 and re.search(rf"(?<![0-9]){line}(?![0-9])", text)):
        found.append("line does not stand in the comment.")
    return found


def _words(text: str) -> str:
    """The letters and digits of a text: what copying it keeps, however it treats blanks and hidden characters."""
    return "".join(character for character in text if character.isalnum())


def _parts(text: str) -> Sequence[str]:
    parts: list[str] = []
    rest = text
    while len(rest) > _PART:
        at = rest.rfind("\n\n", _PART // 2, _PART)
        end = at + 2 if at >= 0 else _PART
        parts.append(rest[:end])
        rest = rest[end:]
    return [part for part in (*parts, rest) if part.strip()]
