"""A small server on loopback that speaks the Messages API over real HTTP, scripted by a test.

The real SDK talks to it. It keeps every request, so that a test asserts what was really sent.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

__all__ = ["Answer", "AnthropicServer", "Cut", "Fault", "Raw", "RecordedRequest", "Reply", "text", "tool_use"]

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


def text(value: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": value}


def tool_use(name: str, arguments: Any, identifier: str = "toolu_1") -> dict[str, Any]:
    """A block with which the model calls a tool."""
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments}


def _usage() -> dict[str, int]:
    return {
        "input_tokens": 100,
        "output_tokens": 10,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


@dataclass(frozen=True)
class Reply:
    """A message. ``stop_reason`` is ``tool_use`` where a block calls a tool, unless it is given."""

    content: Sequence[dict[str, Any]]
    stop_reason: str | None = None
    usage: dict[str, Any] | None = field(default_factory=_usage)
    delay: float = 0.0

    @property
    def stop(self) -> str:
        calls = any(block["type"] == "tool_use" for block in self.content)
        return self.stop_reason or ("tool_use" if calls else "end_turn")


@dataclass(frozen=True)
class Fault:
    """An error status, with ``retry-after`` in seconds where it is given."""

    status: int
    retry_after: float | None = None
    message: str = "scripted fault"


@dataclass(frozen=True)
class Cut:
    """The connection is closed: before any answer, or in the middle of one."""

    in_the_middle: bool = False


@dataclass(frozen=True)
class Raw:
    """Any body with status 200, for answers that are no messages."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it came: path, headers (lower-case names) and decoded JSON body."""

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


class AnthropicServer:
    """Serves ``POST /v1/messages`` (streaming where the request asks for it) while its ``with`` block runs.

    ``script`` is one answer a request, or one function that answers all of them; a request beyond the script gets
    status 400. A request without ``api_key`` gets 401.
    """

    def __init__(
        self, script: Sequence[Scripted] | Callable[[RecordedRequest], Answer], *, api_key: str = "test-key"
    ) -> None:
        self._script = script
        self._api_key = api_key
        self._lock = threading.Lock()
        self.requests: list[RecordedRequest] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> AnthropicServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, request: RecordedRequest) -> Answer:
        """Record a request and say what the script has for it."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        if request.key != self._api_key:
            return Fault(401, message="invalid API key")
        if "anthropic-version" not in request.headers:
            return Fault(400, message="anthropic-version: header is required")
        missing = [name for name in ("model", "max_tokens", "messages") if name not in request.body]
        if missing:
            return Fault(400, message=f"{missing[0]}: field required")
        problem = _conversation_problem(request.body["messages"])
        if problem:
            return Fault(400, message=problem)
        if callable(self._script):
            return self._script(request)
        if number > len(self._script):
            return Fault(400, message=f"the script has {len(self._script)} answers, and this is request {number}")
        scripted = self._script[number - 1]
        return scripted(request) if callable(scripted) else scripted

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(_Handler):
            farm = server

        return Handler


def _conversation_problem(messages: list[dict[str, Any]]) -> str | None:
    """What the real API refuses: a tool call that the next message leaves without its result."""
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    for number, message in enumerate(messages):
        if message["role"] != "assistant" or isinstance(message["content"], str):
            continue
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        following = messages[number + 1]["content"] if number + 1 < len(messages) else []
        results = [
            block["tool_use_id"]
            for block in following
            if isinstance(block, dict) and block.get("type") == "tool_result"
        ]
        if sorted(calls) != sorted(results):
            return f"messages.{number}: tool_use ids {calls} were answered by tool_result ids {results}"
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    farm: AnthropicServer

    def log_message(self, *args: Any) -> None:
        """Nothing: the requests are kept in the server."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(length)
        if self.path.partition("?")[0] != "/v1/messages":
            self._fault(Fault(404, message=f"no such path: {self.path}"), number=0)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, json.loads(data), time.monotonic())
        answer = self.farm.answer(request)
        number = len(self.farm.requests)
        if isinstance(answer, Reply):
            time.sleep(answer.delay)
            if request.body.get("stream"):
                self._stream(_events(answer, request.body, number))
            else:
                self._send(200, json.dumps(_message(answer, request.body, number)).encode(), number)
        elif isinstance(answer, Fault):
            self._fault(answer, number)
        elif isinstance(answer, Raw):
            self._send(200, answer.body, number, answer.content_type)
        else:
            if answer.in_the_middle:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'{"id": "msg')
            self.close_connection = True

    def _fault(self, fault: Fault, number: int) -> None:
        error = {"type": _ERROR_TYPES.get(fault.status, "api_error"), "message": fault.message}
        extra = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        self._send(fault.status, json.dumps({"type": "error", "error": error}).encode(), number, **extra)

    def _send(
        self, status: int, body: bytes, number: int, content_type: str = "application/json", **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("request-id", f"req_{number}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True


def _message(reply: Reply, body: dict[str, Any], number: int) -> dict[str, Any]:
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(reply.content),
        "stop_reason": reply.stop,
        "stop_sequence": None,
    }
    if reply.usage is not None:
        message["usage"] = reply.usage
    return message


def _events(reply: Reply, body: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    usage = reply.usage or {}
    start = _message(reply, body, number) | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": start | {"usage": {**usage, "output_tokens": 1}}}
    for index, block in enumerate(reply.content):
        if block["type"] == "tool_use":
            empty, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
            )
        else:
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block.get("text", "")}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop, "stop_sequence": None},
        "usage": {"output_tokens": usage.get("output_tokens", 0)},
    }
    yield {"type": "message_stop"}
