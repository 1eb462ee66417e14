"""What goes over the wire: scripted answers, recorded requests, messages, stream events, and what the API refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Answer",
    "Cut",
    "Fault",
    "Raw",
    "RecordedRequest",
    "Reply",
    "Scripted",
    "error_body",
    "events",
    "message",
    "problem_of",
    "text",
    "tool_use",
]

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
#: What structured output does not take (the documented limits of JSON schemas).
_NO_SCHEMA_KEYS = {"minLength", "maxLength", "minimum", "maximum", "multipleOf", "maxItems", "pattern", "default"}
_MAX_BREAKPOINTS = 4
#: Kinds of blocks that a turn of the assistant may hold.
_SAID = {"text", "thinking", "redacted_thinking", "tool_use"}


def text(value: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": value}


def tool_use(name: str, arguments: Any, identifier: str = "toolu_1") -> dict[str, Any]:
    """A block with which the model calls a tool."""
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments}


def _usage() -> dict[str, Any]:
    return {
        "input_tokens": 100,
        "output_tokens": 10,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


@dataclass(frozen=True)
class Reply:
    """A message. ``stop_reason`` is ``tool_use`` where a block calls a tool, unless it is given.

    ``usage`` None leaves it out; with ``counted`` the server counts tokens and what its cache holds instead.
    """

    content: Sequence[dict[str, Any]]
    stop_reason: str | None = None
    usage: dict[str, Any] | None = field(default_factory=_usage)
    delay: float = 0.0
    counted: bool = False

    @property
    def stop(self) -> str:
        calls = any(block["type"] == "tool_use" for block in self.content)
        return self.stop_reason or ("tool_use" if calls else "end_turn")


@dataclass(frozen=True)
class Fault:
    """An error status, with ``retry-after`` in seconds (or as it is given) where it is given."""

    status: int
    retry_after: float | str | None = None
    message: str = "scripted fault"


@dataclass(frozen=True)
class Cut:
    """The connection is closed: before any answer, or in the middle of one."""

    in_the_middle: bool = False


@dataclass(frozen=True)
class Raw:
    """Any body with status 200, for answers that are no messages. ``drip`` seconds pass between its bytes."""

    body: bytes
    content_type: str = "application/json"
    drip: float = 0.0


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it came: path, headers (lower-case names), decoded JSON body, and the monotonic time."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float

    @property
    def key(self) -> str | None:
        """The API key, which older versions of the SDK send as ``x-api-key`` and newer ones as a bearer token."""
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ") or None


Answer = Reply | Fault | Cut | Raw
Scripted = Answer | Callable[[RecordedRequest], Answer]


def error_body(status: int, said: str) -> dict[str, Any]:
    """The body of an error answer."""
    return {"type": "error", "error": {"type": _ERROR_TYPES.get(status, "api_error"), "message": said}}


def message(reply: Reply, body: dict[str, Any], number: int, usage: dict[str, Any] | None) -> dict[str, Any]:
    """The message that a reply is, to a request with that body."""
    built = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(reply.content),
        "stop_reason": reply.stop,
        "stop_sequence": None,
    }
    return built if usage is None else built | {"usage": usage}


def events(built: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as the events of a stream."""
    usage = built.get("usage") or {}
    start = built | {"content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(built["content"]):
        if block["type"] == "tool_use":
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block.get("text", "")}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": built["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": usage.get("output_tokens", 0)},
    }
    yield {"type": "message_stop"}


def problem_of(body: dict[str, Any]) -> str | None:
    """What the real API refuses in a request, as far as this server knows it; None for a good one."""
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            return f"{name}: field required"
    for name in ("temperature", "top_p", "top_k"):
        if name in body and str(body["model"]).startswith("claude-sonnet-5"):
            return f"{name}: sampling parameters are not supported by this model"
    problem = _conversation_problem(body["messages"]) or _breakpoint_problem(body)
    if problem:
        return problem
    wanted = (body.get("output_config") or {}).get("format")
    if wanted is not None:
        if wanted.get("type") != "json_schema":
            return "output_config.format.type: must be json_schema"
        return _schema_problem(wanted.get("schema"), "output_config.format.schema")
    return None


def _conversation_problem(messages: list[dict[str, Any]]) -> str | None:
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    for number, each in enumerate(messages):
        if not each["content"]:
            return f"messages.{number}: content must not be empty"
        if each["role"] != "assistant" or isinstance(each["content"], str):
            continue
        for block in each["content"]:
            if block["type"] not in _SAID or (block["type"] == "text" and not str(block["text"]).strip()):
                return f"messages.{number}: a block is of no known type, or a text without words"
        called = [block["id"] for block in each["content"] if block["type"] == "tool_use"]
        following = messages[number + 1]["content"] if number + 1 < len(messages) else []
        blocks = [block for block in following if isinstance(block, dict)]
        results = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        if sorted(called) != sorted(results):
            return f"messages.{number}: tool_use ids {called} were answered by tool_result ids {results}"
    return None


def _breakpoint_problem(body: dict[str, Any]) -> str | None:
    def count(value: Any) -> int:
        if isinstance(value, dict):
            return ("cache_control" in value) + sum(count(each) for each in value.values())
        return sum(count(each) for each in value) if isinstance(value, list) else 0

    found = count([body.get("tools"), body.get("system"), body["messages"]])
    return f"cache_control: {found} blocks are marked, at most {_MAX_BREAKPOINTS} may be" if found > 4 else None


def _schema_problem(schema: Any, path: str) -> str | None:
    if isinstance(schema, list):
        return next(filter(None, (_schema_problem(each, path) for each in schema)), None)
    if not isinstance(schema, dict):
        return None
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return f"{path}: additionalProperties must be false"
    refused = _NO_SCHEMA_KEYS & schema.keys()
    if refused and "properties" not in schema:
        return f"{path}: {sorted(refused)[0]} is not supported"
    return next(filter(None, (_schema_problem(value, f"{path}.{key}") for key, value in schema.items())), None)
