"""Splits a general comment of a review into findings with the model (seed C, step 1).

Every finding quotes the passage that it comes from; a quotation, file or line that the comment does not hold makes the
answer unusable, so nothing that the reviewer did not say becomes a finding.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from crb_core.corpus import fingerprint
from crb_core.errors import InputError
from crb_core.formats.general_comments import Passage
from crb_core.formats.paths import path_problem
from crb_core.prompts import EXTRACTING, PromptSet, bundled_prompts, filled
from crb_worker.judge.base import CallWork, judge_fingerprint
from crb_worker.judge.calls import Asker, CallLimits, LiveCalls
from crb_worker.judge.claude import read_setup
from crb_worker.judge.client import LOOPBACK_MODEL, Endpoint, find_key
from crb_worker.judge.questions import (
    FORMAT,
    AnswerModel,
    ModelParameters,
    UnusableError,
    answer_schema,
    decoded,
    settled,
)
from crb_worker.judge.quoting import element, escaped
from crb_worker.judge.requests import ModelAnswer, ModelRequest

__all__ = ["ExtractAnswer", "Extractor", "ExtractorSetup", "read_extractor"]

#: Characters of a comment that one request shows; a longer comment is cut at a blank line, or where there is none.
_PART = 24_000
_MAX_TOKENS = 16_000
_OPTIONS = ("model", "base_url", "effort")

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


@dataclass(frozen=True, kw_only=True)
class ExtractorSetup:
    """Everything that decides an answer, and ``base_url``, which decides only where it is fetched."""

    parameters: ModelParameters
    base_url: str | None
    named_url: str | None
    prompts: PromptSet

    def describe(self) -> dict[str, Any]:
        """Model, parameters, prompts with version and digest, and schema."""
        return {
            "judge": "claude-extractor",
            "format": FORMAT,
            "fake_model": self.parameters.model == LOOPBACK_MODEL,
            "base_url": self.named_url,
            "extractor": self.parameters.describe(),
            "prompts": {name: prompt.describe() for name, prompt in sorted(self.prompts.by_name.items())},
            "schema": fingerprint(answer_schema(ExtractAnswer)),
        }

    @cached_property
    def fingerprint(self) -> str:
        return judge_fingerprint(self.describe())


def read_extractor(spec: str, prompts: PromptSet | None = None) -> ExtractorSetup:
    """The setup of ``claude`` or ``claude:model=ID,effort=LOW``; InputError names what is wrong."""
    from crb_worker.judge import judge_options

    name, options = judge_options(spec)
    if name != "claude":
        raise InputError(
            f"{name} takes no comments apart", remedy="Only claude does: --extract claude, or claude:model=ID"
        )
    for option in options:
        if option not in _OPTIONS:
            raise InputError(
                f"the splitting of comments has no option {option[:80]!r}", remedy=f"It has {', '.join(_OPTIONS)}"
            )
    setup = read_setup({("effort_match" if name == "effort" else name): value for name, value in options.items()})
    return ExtractorSetup(
        parameters=ModelParameters(model=setup.model, max_tokens=_MAX_TOKENS, effort=setup.effort_match),
        base_url=setup.base_url,
        named_url=setup.named_url,
        prompts=prompts or bundled_prompts(EXTRACTING),
    )


class Extractor:
    """Splits comments with stored calls: the same comment is asked for once, whoever wrote it wherever."""

    def __init__(self, setup: ExtractorSetup, work: CallWork, limits: CallLimits | None = None) -> None:
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
        key = find_key(self.setup.parameters.model, self.setup.base_url)
        asker = LiveCalls(self._work, Endpoint(base_url=self.setup.base_url, key=key), self._limits)
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


def extract_request(asker: Asker, setup: ExtractorSetup, text: str, label: str) -> ModelRequest:
    """The request of one comment, or of one part of a long one."""
    schema = answer_schema(ExtractAnswer)
    content = {
        "format": FORMAT,
        "task": "extract",
        "parameters": setup.parameters.describe(),
        "prompts": {name: setup.prompts[name].sha256 for name in EXTRACTING},
        "schema": fingerprint(schema),
        "comment": text,
    }
    unnamed = ModelRequest(stage="extract", label=f"extract {label}", content=content, body={}, ids={})
    name = asker.ids.of(unnamed.request_hash, "comment", 0)
    asked = filled(setup.prompts["extractor-request"], comment=element("comment", text, {"id": name}, limit=None))
    body = setup.parameters.body(schema) | {
        "system": [
            {"type": "text", "text": setup.prompts.extractor_system, "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": asked}]}],
    }
    return ModelRequest(stage="extract", label=unnamed.label, content=content, body=body, ids={name: "comment 0"})


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
