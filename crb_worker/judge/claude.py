"""The judge ``claude``: matcher and classifier on the Messages API (seed A 5.3, 6.2, 6.3).

Options: ``model``, ``base_url``, ``effort_match``, ``effort_classify`` (low to max, or ``none`` where a model has no
such setting), ``turns``, ``tokens`` and ``seconds`` of one classifier session, ``batch=true`` for the Batches API.
Without the first two, the settings ``judge_model`` and ``judge_base_url`` decide. The key is ``ANTHROPIC_API_KEY``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from crb_core.corpus import fingerprint
from crb_core.errors import InputError, UsageError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence
from crb_core.prompts import PromptSet, bundled_prompts
from crb_core.protocols import protocol_named
from crb_core.settings import load_settings
from crb_worker.judge.base import JudgeWork, judge_fingerprint
from crb_worker.judge.batches import BatchCalls
from crb_worker.judge.calls import Asker, CallLimits, LiveCalls
from crb_worker.judge.classifier import SessionBudget, Verdict, classify_finding
from crb_worker.judge.client import LOOPBACK_MODEL, Endpoint, find_key
from crb_worker.judge.matcher import MatchAnswer, match_pull_request
from crb_worker.judge.prices import TABLE, price_of
from crb_worker.judge.questions import FORMAT, ModelParameters, answer_schema
from crb_worker.judge.repo_tools import TOOLS
from crb_worker.snapshot import Snapshot

__all__ = ["DEFAULT_MODEL", "ClaudeJudge", "ClaudeSetup"]

DEFAULT_MODEL = "claude-sonnet-5"
#: Most tokens of an answer, thinking included. A matcher answers for at most twenty findings.
_MATCH_TOKENS, _CLASSIFY_TOKENS = 16_000, 12_000
_EFFORTS = ("low", "medium", "high", "xhigh", "max", "none")
_MODEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,119}$")
_URL = re.compile(r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")
_BUDGETS = {"turns": (1, 50), "tokens": (1_000, 10_000_000), "seconds": (1, 86_400)}


@dataclass(frozen=True, kw_only=True)
class ClaudeSetup:
    """Everything that decides an answer, and ``base_url`` and ``batch``, which decide only how it is fetched.

    ``named_url`` is the base URL where the judge's options name one: then it is part of what the judge is.
    """

    model: str
    base_url: str | None
    named_url: str | None
    effort_match: str | None
    effort_classify: str | None
    budget: SessionBudget
    batch: bool
    prompts: PromptSet

    @property
    def name(self) -> str:
        """``claude``, with the model where it is not the default; the loopback model is always named as fake."""
        if self.model == LOOPBACK_MODEL:
            return "claude-fake-model"
        return "claude" if self.model == DEFAULT_MODEL else f"claude:{self.model}"

    @property
    def matcher(self) -> ModelParameters:
        return ModelParameters(model=self.model, max_tokens=_MATCH_TOKENS, effort=self.effort_match)

    @property
    def classifier(self) -> ModelParameters:
        return ModelParameters(model=self.model, max_tokens=_CLASSIFY_TOKENS, effort=self.effort_classify)

    def describe(self) -> dict[str, Any]:
        """Model, parameters, prompts with version and digest, tools and schemas."""
        return {
            "judge": "claude",
            "format": FORMAT,
            "fake_model": self.model == LOOPBACK_MODEL,
            "base_url": self.named_url,
            "matcher": self.matcher.describe(),
            "classifier": self.classifier.describe() | {"budget": self.budget.describe()},
            "prompts": {name: prompt.describe() for name, prompt in sorted(self.prompts.by_name.items())},
            "tools": fingerprint(TOOLS),
            "schemas": fingerprint([answer_schema(MatchAnswer), answer_schema(Verdict)]),
        }

    @cached_property
    def fingerprint(self) -> str:
        return judge_fingerprint(self.describe())

    def match(
        self,
        asker: Asker,
        key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """Match with the model that ``asker`` reaches."""
        return match_pull_request(asker, self.matcher, self.prompts, key, candidates, golden, protocol=protocol)

    def classify(
        self,
        asker: Asker,
        snapshot: Callable[[], Snapshot],
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,
    ) -> tuple[Classification, ...]:
        """Classify with the model that ``asker`` reaches; no snapshot is made where there is nothing to classify."""
        if not positions:
            return ()
        frozen = snapshot()
        rules = protocol_named(protocol)
        labels = []
        for position in positions:
            with asker.unit():
                label = classify_finding(
                    asker,
                    self.classifier,
                    self.prompts,
                    frozen,
                    candidates[position],
                    position=position,
                    protocol=rules,
                    budget=self.budget,
                    provenance=self.fingerprint,
                )
                labels.append(Classification(candidate=position, label=label))
        asker.finish()
        return tuple(labels)


def read_setup(options: Mapping[str, str], prompts: PromptSet | None = None) -> ClaudeSetup:
    """The setup that options and settings describe; InputError names the option that is wrong."""
    known = ("model", "base_url", "effort_match", "effort_classify", *_BUDGETS, "batch")
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UsageError(f"the claude judge has no option {unknown[0][:80]!r}", remedy=f"It has {', '.join(known)}")
    settings = load_settings()
    model = options.get("model") or settings.judge_model or DEFAULT_MODEL
    if not _MODEL.match(model):
        raise InputError(f"{model[:80]!r} is no model id", remedy=f"Name one, for example {DEFAULT_MODEL}")
    base_url = options.get("base_url") or settings.judge_base_url
    if base_url is not None and not _URL.match(base_url):
        raise InputError(
            "the claude judge's base_url is no http or https URL without credentials and query",
            remedy="Write it as https://HOST/PATH; the key is taken from ANTHROPIC_API_KEY",
        )
    batch = options.get("batch", "false")
    if batch not in {"true", "false"}:
        raise InputError(f"the option batch is {batch[:80]!r}", remedy="Write batch=true or leave it out")
    return ClaudeSetup(
        model=model,
        base_url=base_url,
        named_url=options.get("base_url"),
        effort_match=_effort(options, "effort_match", "low"),
        effort_classify=_effort(options, "effort_classify", "medium"),
        budget=SessionBudget(**_budget(options)),
        batch=batch == "true",
        prompts=prompts or bundled_prompts(),
    )


class ClaudeJudge:
    """A judge that works on one step at a time: ``for_step`` gives it the store of its calls and the snapshot."""

    classifies = True

    def __init__(
        self,
        setup: ClaudeSetup,
        limits: CallLimits | None = None,
        *,
        asker: Asker | None = None,
        snapshot: Callable[[], Snapshot] | None = None,
    ) -> None:
        self.setup = setup
        self.limits = limits or CallLimits()
        self.name = setup.name
        self.fingerprint = setup.fingerprint
        self._asker = asker
        self._snapshot = snapshot

    @classmethod
    def load(cls, options: Mapping[str, str]) -> ClaudeJudge:
        """The judge for options; the key is asked for when it works, not before."""
        return cls(read_setup(options))

    def describe(self) -> dict[str, Any]:
        return self.setup.describe()

    def check(self) -> None:
        """UnavailableError where this machine has no key for the model."""
        find_key(self.setup.model, self.setup.base_url)

    def check_price(self) -> None:
        """InputError where the model has no list price, so that no limit of cost can be kept."""
        if price_of(self.setup.model) is None:
            raise InputError(
                f"there is a limit of cost, but the model {self.setup.model} is not in the table of prices ({TABLE})",
                remedy="Take the limit away (of a sweep: crb sweep set SWEEP --max-cost none), or name another model",
            )

    def for_step(self, work: JudgeWork) -> ClaudeJudge:
        """The judge of one step. LaterError while a batch of that step is under way."""
        endpoint = Endpoint(base_url=self.setup.base_url, key=find_key(self.setup.model, self.setup.base_url))
        asker = (BatchCalls if self.setup.batch else LiveCalls)(work, endpoint, self.limits)
        return ClaudeJudge(self.setup, self.limits, asker=asker, snapshot=work.snapshot)

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """One record a candidate; AnswerError where the model gives no usable answer."""
        if self._asker is None:
            raise _unbound()
        return self.setup.match(self._asker, pull_request_key, candidates, golden, protocol=protocol)

    def classify(
        self,
        pull_request_key: str,  # noqa: ARG002
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,
    ) -> tuple[Classification, ...]:
        """A label for each position; AnswerError where the model gives no usable answer."""
        if self._asker is None or self._snapshot is None:
            raise _unbound()
        return self.setup.classify(self._asker, self._snapshot, candidates, positions, protocol=protocol)


def _unbound() -> InputError:
    return InputError("the claude judge works inside a step, which stores its calls")


def _effort(options: Mapping[str, str], name: str, default: str) -> str | None:
    value = options.get(name, default)
    if value not in _EFFORTS:
        raise InputError(f"the option {name} is {value[:80]!r}", remedy=f"Choose one of {', '.join(_EFFORTS)}")
    return None if value == "none" else value


def _budget(options: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (least, most) in _BUDGETS.items():
        if name in options:
            if not re.fullmatch(r"[0-9]{1,9}", options[name]) or not least <= int(options[name]) <= most:
                raise InputError(
                    f"the option {name} is {options[name][:80]!r}", remedy=f"Give an integer from {least} to {most}"
                )
            values[name] = int(options[name])
    return values
