"""The classifier: one session a finding, reading the frozen repository with tools (seed A 5.2, 6.3; facts A8).

A session knows one finding only, so no text of another can touch its label. The guidelines and the pull request are a
shared prefix that the service caches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from crb_core.corpus import fingerprint
from crb_core.finding import (
    LABEL_AXES,
    Actionability,
    CandidateFinding,
    ContextRequired,
    Difficulty,
    Label,
    Scope,
    TpFp,
)
from crb_core.prompts import CLASSIFYING, PromptSet, filled
from crb_core.protocols import Protocol
from crb_worker.judge.calls import Asker, guessed_tokens
from crb_worker.judge.questions import (
    FORMAT,
    AnswerError,
    AnswerModel,
    ModelParameters,
    Reason,
    UnusableError,
    answer_schema,
    decoded,
    repaired,
    settled,
)
from crb_worker.judge.quoting import MAX_TEXT, element, escaped, opening
from crb_worker.judge.repo_tools import TOOLS, RepoTools
from crb_worker.judge.requests import ModelAnswer, ModelRequest
from crb_worker.snapshot import Snapshot

__all__ = ["SessionBudget", "Verdict", "classify_finding"]

#: Characters of the diff that every request shows; the rest is read with show_diff.
MAX_DIFF = 120_000
#: Tool calls of one answer that are run.
_MAX_TOOL_CALLS = 8
_CACHED = {"type": "ephemeral"}


class FpMode(StrEnum):
    """How a false positive fails (guidelines, section 1)."""

    INCORRECT = "incorrect"
    UNVERIFIABLE = "unverifiable"
    OUT_OF_BOUNDS = "out-of-bounds"
    DUPLICATE = "duplicate"
    TRIVIAL = "trivial"
    HARMFUL_ADVICE = "harmful-advice"
    NO_CLAIM = "no-claim"
    #: Not an fp.
    NONE = "none"


class Verdict(AnswerModel):
    """What the classifier answers: the claim and the evidence first, then the axes with their reasons."""

    finding_id: str
    claim: Reason
    evidence: Reason
    tp_fp_justification: Reason
    tp_fp: TpFp
    fp_mode: FpMode
    severity_justification: Reason
    severity: str
    category_justification: Reason
    category: str
    other_categories: list[str]
    #: Why ``category`` is the primary one of several (A 5.2); of no use where there are no others.
    primary_category_reason: Reason | None
    scope: Scope
    difficulty: Difficulty
    context_required: ContextRequired
    actionability: Actionability


@dataclass(frozen=True, kw_only=True)
class SessionBudget:
    """What one session may use: answers, tokens (input, cached or not, and output), seconds.

    When one is used up the model is asked for its answer without tools.
    """

    turns: int = 12
    tokens: int = 600_000
    seconds: float = 900.0

    def describe(self) -> dict[str, Any]:
        return {"turns": self.turns, "tokens": self.tokens, "seconds": self.seconds}


@dataclass
class _Session:
    messages: list[dict[str, Any]]
    content: dict[str, Any]
    used_tokens: int = 0


def classify_finding(
    asker: Asker,
    parameters: ModelParameters,
    prompts: PromptSet,
    snapshot: Snapshot,
    finding: CandidateFinding,
    *,
    position: int,
    protocol: Protocol,
    budget: SessionBudget,
    provenance: str,
) -> Label:
    """The label of one finding. ``provenance`` is the judge's fingerprint, noted beside every axis."""
    tools = RepoTools(snapshot)
    label = f"classify {snapshot.pull_request.key}: candidate {position}"
    base = _Base(parameters, prompts, protocol, label)
    session, ids = _opened(asker, base, snapshot, finding)
    started = time.monotonic()
    for turn in range(1, budget.turns + 1):
        going_on = base.request(session, ids, tools.read, last=False)
        ending = base.request(session, ids, tools.read, last=True)
        must_end = turn == budget.turns or session.used_tokens >= budget.tokens
        if not must_end and not asker.known(going_on):
            # Time is not replayed, so what a recording did decides before the clock does.
            must_end = asker.known(ending) or time.monotonic() - started > budget.seconds
        # Something is read before time or tokens end a session, unless a single turn is all there is.
        request = ending if must_end and (turn > 1 or budget.turns == 1) else going_on
        answer = asker.ask(request)
        cut = answer.stop_reason == "max_tokens"
        if cut:
            request = repaired(request, answer, UnusableError(["It was cut off."], cut=True), prompts)
            answer = asker.ask(request)
        if not answer.tool_calls or answer.stop_reason != "tool_use":
            verdict = settled(
                asker, request, lambda given: _checked(given, protocol), prompts, asked=answer, repair=not cut
            )
            return _label(verdict, provenance)
        if request.content.get("last") or must_end:
            break
        _go_on(session, request, answer, tools)
    asker.reject([answer], "it called tools although none were left")
    raise AnswerError(
        f"No judgment: the model went on reading after its budget ({label}, request {request.request_hash})",
        remedy="Retry the judgment; the answers are kept as evidence",
    )


@dataclass(frozen=True)
class _Base:
    """What all requests of a session share."""

    parameters: ModelParameters
    prompts: PromptSet
    protocol: Protocol
    label: str

    @property
    def schema(self) -> dict[str, Any]:
        """The answer's schema, with the protocol's vocabularies."""
        return answer_schema(Verdict, {"severity": self.protocol.severities, "category": self.protocol.categories})

    def request(
        self, session: _Session, ids: Mapping[str, str], read: Sequence[Mapping[str, Any]], *, last: bool
    ) -> ModelRequest:
        """The next request. The cache's last mark moves to the end of the conversation."""
        messages = [dict(message) for message in session.messages]
        newest = list(messages[-1]["content"])
        if last:
            newest.append({"type": "text", "text": self.prompts["last-turn"].text})
        newest[-1] = {**newest[-1], "cache_control": _CACHED}
        messages[-1]["content"] = newest
        body = self.parameters.body(self.schema) | {
            "system": [{"type": "text", "text": self.prompts.classifier_system, "cache_control": _CACHED}],
            "tools": list(TOOLS),
            "messages": messages,
        }
        if last:
            body["tool_choice"] = {"type": "none"}
        content = {**session.content, "last": last}
        return ModelRequest(stage="classify", label=self.label, content=content, body=body, ids=ids, read=tuple(read))


def _opened(
    asker: Asker, base: _Base, snapshot: Snapshot, finding: CandidateFinding
) -> tuple[_Session, Mapping[str, str]]:
    pull_request = snapshot.pull_request
    diff = (snapshot.pr_files / "diff.patch").read_bytes()
    shown = {"file": finding.file, "lines": finding.lines, "message": finding.message}
    content: dict[str, Any] = {
        "format": FORMAT,
        "task": "classify",
        "parameters": base.parameters.describe(),
        "prompts": {name: base.prompts[name].sha256 for name in CLASSIFYING},
        "tools": fingerprint(TOOLS),
        "schema": fingerprint(base.schema),
        "protocol": base.protocol.name,
        "pull_request": {
            "repo": pull_request.repo,
            "number": pull_request.number,
            "base": pull_request.base,
            "head": pull_request.head,
            "title": pull_request.title,
            "body": pull_request.body,
            "diff": fingerprint(diff.decode("utf-8", "backslashreplace")),
        },
        "finding": shown,
    }
    request_hash = ModelRequest(stage="classify", label=base.label, content=content, body={}, ids={}).request_hash
    name = asker.ids.of(request_hash, "finding", 0)
    question = filled(
        base.prompts["classifier-request"],
        finding=element("finding", finding.message, {"id": name, "file": finding.file, "lines": finding.lines or None}),
        severities=", ".join(base.protocol.severities),
        categories=", ".join(base.protocol.categories),
    )
    context = filled(base.prompts["pull-request"], pull_request=_context(snapshot, diff))
    first = [{"type": "text", "text": context, "cache_control": _CACHED}, {"type": "text", "text": question}]
    return _Session([{"role": "user", "content": first}], content), {name: "finding 0"}


def _context(snapshot: Snapshot, diff: bytes) -> str:
    """Title, body and diff. What does not fit of the diff is left out file by file, and named."""
    pull_request = snapshot.pull_request
    parts = [
        opening("pull_request", {"repository": pull_request.nwo, "number": pull_request.number}),
        element("title", pull_request.title),
        element("body", pull_request.body, limit=2 * MAX_TEXT),
        "<diff>",
    ]
    used = 0
    left_out = []
    sections = [b"diff --git " + part for part in (b"\n" + diff).split(b"\ndiff --git ")[1:]] or [diff]
    for section in sections:
        raw = section.decode("utf-8", "surrogateescape").rstrip("\n")
        # Escaping makes no text shorter, and what is far too long need not be escaped.
        text = escaped(raw) if used + len(raw) <= MAX_DIFF else ""
        if used + max(len(raw), len(text)) > MAX_DIFF:
            left_out.append(section.split(b"\n", 1)[0].decode("utf-8", "surrogateescape"))
            continue
        used += len(text)
        parts.append(text)
    parts.append("</diff>")
    if left_out:
        parts.append(element("listing", "\n".join(left_out), {"diff_left_out": "read these with show_diff"}))
    return "\n".join([*parts, "</pull_request>"])


def _go_on(session: _Session, request: ModelRequest, answer: ModelAnswer, tools: RepoTools) -> None:
    """Run the tools that an answer calls and add both to the conversation."""
    results: list[dict[str, Any]] = []
    digests = []
    for number, call in enumerate(answer.tool_calls):
        if number < _MAX_TOOL_CALLS:
            result = tools.call(call.get("name"), call.get("input"))
            text, is_error = result.text, result.is_error
        else:
            text, is_error = f"Not run: at most {_MAX_TOOL_CALLS} calls in one answer.", True
        results.append({"type": "tool_result", "tool_use_id": call.get("id"), "content": text, "is_error": is_error})
        digests.append(fingerprint([text, is_error]))
    session.used_tokens += _used(request, answer)
    session.messages = [
        *session.messages,
        {"role": "assistant", "content": answer.said_again(with_tools=True)},
        {"role": "user", "content": results},
    ]
    session.content = {
        "format": FORMAT,
        "follows": request.request_hash,
        "answer": fingerprint(answer.message.get("content")),
        "results": digests,
    }


def _used(request: ModelRequest, answer: ModelAnswer) -> int:
    """Tokens of a call as its answer reports them; guessed where it does not, because a session has to end."""
    usage = answer.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return guessed_tokens(request) + len(answer.text) // 4
    return usage.input_tokens + usage.output_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)


def _checked(given: ModelAnswer, protocol: Protocol) -> Verdict:
    verdict = decoded(given, Verdict)
    problems = []
    if verdict.finding_id not in given.ids:
        problems.append("finding_id is not the id of the finding.")
    if verdict.severity not in protocol.severities:
        problems.append(f"severity is not one of {', '.join(protocol.severities)}.")
    for category in (verdict.category, *verdict.other_categories):
        if category not in protocol.categories:
            problems.append(f"A category is not one of {', '.join(protocol.categories)}.")
            break
    if _others(verdict) and verdict.primary_category_reason is None:
        problems.append("primary_category_reason does not say why category is the primary one of several.")
    if (verdict.tp_fp is TpFp.FP) == (verdict.fp_mode is FpMode.NONE):
        problems.append("fp_mode names how an fp fails, and is none for a tp.")
    if problems:
        raise UnusableError(problems)
    return verdict


def _others(verdict: Verdict) -> list[str]:
    return [category for category in dict.fromkeys(verdict.other_categories) if category != verdict.category]


def _label(verdict: Verdict, provenance: str) -> Label:
    others = _others(verdict)
    also = (
        f" Also concerns {', '.join(others)}; {verdict.category} is the primary category: "
        f"{verdict.primary_category_reason}"
        if others
        else ""
    )
    mode = "" if verdict.fp_mode is FpMode.NONE else f"[{verdict.fp_mode}] "
    label = Label(
        tp_fp=verdict.tp_fp,
        severity=verdict.severity,
        category=verdict.category,
        scope=verdict.scope,
        difficulty=verdict.difficulty,
        context_required=verdict.context_required,
        actionability=verdict.actionability,
        tp_fp_justification=f"{mode}{verdict.tp_fp_justification} Evidence: {verdict.evidence}",
        severity_justification=verdict.severity_justification,
        category_justification=verdict.category_justification + also,
    )
    return label.model_copy(update={"provenance": dict.fromkeys(LABEL_AXES, provenance)})
