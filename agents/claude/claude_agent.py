"""The reviewer: a conversation in which the model looks around and then reports its findings."""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import Any, NoReturn, cast
from urllib.parse import urlsplit

import anthropic
from anthropic.types import Message
from changes import Change, read_changes
from contract import CONTRACT_BROKEN, Finding, Job, fail, note
from repo_tools import TOOLS, RepositoryTools, ToolError, annotated
from report import REPORT_TOOL, check
from usage import Usage

__all__ = ["main"]

#: Exit status when the API refuses, fails or cannot be reached, after the SDK's retries.
API_FAILED = 4
#: Exit status when the model ends without a review: it refused, was cut, ran out of budget or did not report.
NO_REVIEW = 5

DEFAULT_API = "https://api.anthropic.com"
EFFORTS = ("low", "medium", "high", "xhigh", "max")
#: Tokens of one reply.
MAX_TOKENS = 16_000
#: Retries of one request by the SDK (429, 5xx, 529, timeouts, cut connections), which keeps to ``retry-after``.
MAX_RETRIES = 5
#: Patience with one request, in seconds.
REQUEST_SECONDS = 300.0
#: Characters of the diff that are shown at once; the rest is for ``show_diff``.
MAX_DIFF = 200_000
#: Characters of the pull request's description that are shown.
MAX_BODY = 20_000

LAST_CALL = "Your budget for this review is used up. Call report_findings now, with what you have found so far."
REPORT_NOW = "The review is handed in by calling report_findings only. Call it now, with everything you have found."
BE_BRIEF = "Your last reply was longer than a reply may be, and is lost. Reply again, much more briefly."


def main() -> int:
    """Review the pull request in the environment."""
    job = Job.from_environment()
    return Review(job).run()


class Review:
    """One review: the conversation so far, what it has used, and the chances that are left to the model."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._key = os.environ.get("ANTHROPIC_API_KEY", "").strip()
        if not self._key:
            fail(CONTRACT_BROKEN, "ANTHROPIC_API_KEY is not set; it is the secret that agent.toml declares")
        if not (self._key.isascii() and self._key.isprintable()):
            fail(CONTRACT_BROKEN, "ANTHROPIC_API_KEY holds characters that no key has")
        self._model = job.setting("MODEL", "")
        if not self._model:
            fail(CONTRACT_BROKEN, "RB_CONFIG_MODEL is not set; it names the model")
        self._effort = job.setting("EFFORT", "none")
        if self._effort not in (*EFFORTS, "none"):
            fail(CONTRACT_BROKEN, f"RB_CONFIG_EFFORT is {self._effort!r}; it is one of {', '.join(EFFORTS)} or none")
        self._turns = job.number_setting("MAX_TURNS", 40, low=1, high=500)
        self._budget = job.number_setting("TOKEN_BUDGET", 600_000, low=1, high=100_000_000)
        try:
            changes = read_changes(job.diff.read_bytes())
            about = json.loads(job.pr_json.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            fail(CONTRACT_BROKEN, f"the pull request cannot be read: {error}")
        if not isinstance(about, dict):
            fail(CONTRACT_BROKEN, "the pull request cannot be read: RB_PR_JSON holds no object")
        self._tools = RepositoryTools(job.repo, changes)
        self._deleted = {change.path for change in changes if change.is_deleted}
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": _opening(about, changes)}]
        self._system = (Path(__file__).resolve().parent / "system.md").read_text(encoding="utf-8")
        self._usage = Usage()
        self._last_call = False
        self._was_reminded = False
        self._was_cut = False
        self._was_corrected = False

    def run(self) -> int:
        """Talk until the model reports; status 0 with a findings file, or another one without."""
        client = anthropic.Anthropic(
            api_key=self._key,
            base_url=_api_url(),
            max_retries=MAX_RETRIES,
            timeout=REQUEST_SECONDS,
        )
        turn = 0
        while True:
            turn += 1
            if not self._last_call and (turn == self._turns or self._usage.spent >= self._budget):
                self._last_call = True
                self._say(LAST_CALL)
            findings = self._take(self._ask(client))
            if findings is not None:
                self._job.write(findings, self._usage.report())
                note(f"{len(findings)} findings in {turn} turns, {self._usage.spent} tokens beside the cache")
                return 0
            if self._last_call:
                self._give_up("the budget is used up, and the model did not report its findings")

    def _ask(self, client: anthropic.Anthropic) -> Message:
        options: dict[str, Any] = {} if self._effort == "none" else {"output_config": {"effort": self._effort}}
        start = time.monotonic()
        try:
            reply = client.messages.create(
                model=self._model,
                max_tokens=MAX_TOKENS,
                system=[{"type": "text", "text": self._system, "cache_control": {"type": "ephemeral"}}],
                tools=cast("Any", [*TOOLS, REPORT_TOOL]),
                messages=_with_cache_mark(self._messages),
                **options,
            )
        except anthropic.APIStatusError as error:
            self._api_failed(f"the API answered status {error.status_code}: {_reason(error)}")
        except anthropic.APITimeoutError:
            self._api_failed(f"the API did not answer within {REQUEST_SECONDS:.0f} s")
        except anthropic.APIConnectionError as error:
            self._api_failed(f"the API cannot be reached: {error.__cause__ or error}")
        except (anthropic.AnthropicError, ValueError) as error:
            self._api_failed(f"the API's answer cannot be read: {error}")
        if not isinstance(reply, Message) or not isinstance(reply.content, list):
            self._api_failed("the API's answer is not a message")
        spent = (time.monotonic() - start) * 1000
        self._usage.add(getattr(reply, "usage", None), spent, getattr(reply, "model", None))
        self._job.write_usage(self._usage.report())
        return reply

    def _take(self, reply: Message) -> list[Finding] | None:
        """The findings, if the reply reports them; else the conversation is made ready for the next turn."""
        match reply.stop_reason:
            case "refusal":
                self._give_up("the model refused to review this pull request (stop_reason refusal)")
            case "model_context_window_exceeded":
                self._give_up("the conversation is longer than the model can read (model_context_window_exceeded)")
            case "max_tokens":
                # A cut reply may end inside a tool call, which cannot be answered.
                if self._was_cut:
                    self._give_up(f"the model's reply was cut at {MAX_TOKENS} tokens twice (stop_reason max_tokens)")
                note(f"a reply was cut at {MAX_TOKENS} tokens (stop_reason max_tokens); asked again")
                self._was_cut = True
                self._say(BE_BRIEF)
                return None
            case "tool_use" | "end_turn" | "stop_sequence" | "pause_turn":
                pass
            case other:
                self._give_up(f"the model stopped for a reason that this agent does not know: {other!r}")
        calls = [block for block in reply.content if block.type == "tool_use"]
        if reply.content:
            self._messages.append({"role": "assistant", "content": reply.content})
        if not calls:
            if reply.stop_reason == "pause_turn":
                return None
            if self._was_reminded:
                self._give_up("the model ended its turn twice without reporting findings")
            self._was_reminded = True
            self._say(REPORT_NOW)
            return None
        results: list[dict[str, Any]] = []
        for call in calls:
            if call.name == REPORT_TOOL["name"]:
                findings, problems = check(call.input, self._tools, self._deleted)
                if not problems or self._was_corrected or self._last_call:
                    return self._accept(findings, problems)
                self._was_corrected = True
                answer = "Nothing is handed in yet. Correct these and report all findings again:\n" + "\n".join(
                    problems
                )
                results.append(_result(call.id, answer, is_error=True))
            elif self._last_call:
                results.append(_result(call.id, LAST_CALL, is_error=True))
            else:
                results.append(self._look(call.id, call.name, call.input))
        self._messages.append({"role": "user", "content": results})
        return None

    def _accept(self, findings: list[Finding], problems: list[str]) -> list[Finding]:
        """The findings of the last report there can be; what is still wrong is left out and named in the log."""
        for problem in problems:
            note(f"left out: {problem}")
        if problems and not findings:
            self._give_up("the model reported findings of a wrong shape only")
        return findings

    def _look(self, identifier: str, name: str, arguments: Any) -> dict[str, Any]:
        try:
            return _result(identifier, self._tools.call(name, arguments), is_error=False)
        except ToolError as error:
            return _result(identifier, str(error), is_error=True)

    def _say(self, text: str) -> None:
        """Add a text for the model, in the open message if it is ours."""
        block = {"type": "text", "text": text}
        if self._messages[-1]["role"] == "user":
            self._messages[-1]["content"].append(block)
        else:
            self._messages.append({"role": "user", "content": [block]})

    def _api_failed(self, problem: str) -> NoReturn:
        note(f"used so far: {json.dumps(self._usage.report())}")
        fail(API_FAILED, " ".join(problem.replace(self._key, "[key]").split())[:1000])

    def _give_up(self, problem: str) -> NoReturn:
        note(f"used so far: {json.dumps(self._usage.report())}")
        fail(NO_REVIEW, problem)


def _api_url() -> str:
    """The API's address without the version that the SDK adds."""
    url = os.environ.get("RB_MODEL_BASE_URL") or DEFAULT_API
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        fail(CONTRACT_BROKEN, f"RB_MODEL_BASE_URL is {url[:200]!r}, not the address of an API")
    return url.rstrip("/").removesuffix("/v1")


def _opening(about: dict[str, Any], changes: list[Change]) -> list[dict[str, Any]]:
    """The first message: title, description and diff, each between markers that the text cannot foresee."""
    code = secrets.token_hex(16)
    shown: list[str] = []
    left = []
    size = 0
    for change in changes:
        text = annotated(change)
        size += len(text)
        if size > MAX_DIFF:
            left.append(change.path)
        else:
            shown.append(text)
    parts = [
        "Review this pull request.",
        _marked("title", str(about.get("title") or ""), code),
        _marked("description", str(about.get("body") or "")[:MAX_BODY], code),
        _marked("diff", "\n".join(shown), code),
    ]
    if left:
        parts.append(
            "The diff is too long to be shown whole. These files changed too; see them with show_diff:\n"
            + _marked("files", "\n".join(left), code)
        )
    # Names of other bytes than UTF-8 hold lone surrogates, which no request can carry.
    text = "\n\n".join(parts).encode("utf-8", "replace").decode("utf-8")
    return [{"type": "text", "text": text}]


def _marked(name: str, text: str, code: str) -> str:
    return f"[{name} {code} begins]\n{text}\n[{name} {code} ends]"


def _with_cache_mark(messages: list[dict[str, Any]]) -> Any:
    """The messages with a cache mark at their end, so that the next turn reads all of this one from the cache."""
    *earlier, last = messages
    if last["role"] != "user":
        return messages
    *blocks, final = last["content"]
    return [*earlier, {**last, "content": [*blocks, {**final, "cache_control": {"type": "ephemeral"}}]}]


def _result(identifier: str, text: str, *, is_error: bool) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": identifier, "content": text.encode("utf-8", "replace").decode()}
    return {**result, "is_error": True} if is_error else result


def _reason(error: anthropic.APIStatusError) -> str:
    body = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return str(message or error.message)
