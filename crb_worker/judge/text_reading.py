"""Reading a text that no trial has with the model: what decides an answer, and how its one question is put.

Comments are taken apart and commits are read this way, each with prompts and an answer of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from crb_core.corpus import fingerprint
from crb_core.errors import InputError
from crb_core.prompts import PromptSet, bundled_prompts
from crb_worker.judge.base import CallWork, judge_fingerprint
from crb_worker.judge.calls import CallLimits, LiveCalls
from crb_worker.judge.claude import read_setup
from crb_worker.judge.client import LOOPBACK_MODEL, Endpoint, find_key
from crb_worker.judge.questions import FORMAT, AnswerModel, ModelParameters, answer_schema

__all__ = ["ReadingSetup", "ReadingTask", "reading_setup"]

_MAX_TOKENS = 16_000
_OPTIONS = ("model", "base_url", "effort")


@dataclass(frozen=True, kw_only=True)
class ReadingTask:
    """One kind of reading: ``stage`` names its requests, ``judge`` and ``role`` name it in descriptions.

    ``name`` and ``cannot`` word refusals, ``flag`` is the option that chooses the model.
    """

    stage: str
    judge: str
    role: str
    answer: type[AnswerModel]
    prompts: tuple[str, ...]
    name: str
    cannot: str
    flag: str


@dataclass(frozen=True, kw_only=True)
class ReadingSetup:
    """Everything that decides an answer, and ``base_url``, which decides only where it is fetched."""

    task: ReadingTask
    parameters: ModelParameters
    base_url: str | None
    named_url: str | None
    prompts: PromptSet

    def describe(self) -> dict[str, Any]:
        """Model, parameters, prompts with version and digest, and schema."""
        return {
            "judge": self.task.judge,
            "format": FORMAT,
            "fake_model": self.parameters.model == LOOPBACK_MODEL,
            "base_url": self.named_url,
            self.task.role: self.parameters.describe(),
            "prompts": {name: prompt.describe() for name, prompt in sorted(self.prompts.by_name.items())},
            "schema": fingerprint(answer_schema(self.task.answer)),
        }

    @cached_property
    def fingerprint(self) -> str:
        return judge_fingerprint(self.describe())

    def calls(self, work: CallWork, limits: CallLimits) -> LiveCalls:
        """Stored calls of the model; UnavailableError where this machine has no key for it."""
        key = find_key(self.parameters.model, self.base_url)
        return LiveCalls(work, Endpoint(base_url=self.base_url, key=key), limits)

    def content(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """The hashed content of one request that shows ``shown``."""
        return {
            "format": FORMAT,
            "task": self.task.stage,
            "parameters": self.parameters.describe(),
            "prompts": {name: self.prompts[name].sha256 for name in self.task.prompts},
            "schema": fingerprint(answer_schema(self.task.answer)),
            **shown,
        }

    def body(self, system: str, asked: str) -> dict[str, Any]:
        """The body of one request."""
        return self.parameters.body(answer_schema(self.task.answer)) | {
            "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": asked}]}],
        }


def reading_setup(task: ReadingTask, spec: str, prompts: PromptSet | None = None) -> ReadingSetup:
    """The setup of ``claude`` or ``claude:model=ID,effort=LOW``; InputError names what is wrong."""
    from crb_worker.judge import judge_options

    name, options = judge_options(spec)
    if name != "claude":
        raise InputError(
            f"{name[:80]} {task.cannot}", remedy=f"Only claude does: {task.flag} claude, or claude:model=ID"
        )
    for option in options:
        if option not in _OPTIONS:
            raise InputError(f"{task.name} has no option {option[:80]!r}", remedy=f"It has {', '.join(_OPTIONS)}")
    setup = read_setup({("effort_match" if name == "effort" else name): value for name, value in options.items()})
    return ReadingSetup(
        task=task,
        parameters=ModelParameters(model=setup.model, max_tokens=_MAX_TOKENS, effort=setup.effort_match),
        base_url=setup.base_url,
        named_url=setup.named_url,
        prompts=prompts or bundled_prompts(task.prompts),
    )
