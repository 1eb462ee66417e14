"""The HTTP side: Messages (streaming too), token counting, Batches, faults on demand, every request kept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from crb_core.clock import utc_now
from crb_worker.judge.loopback.accounting import PromptCache, tokens_of
from crb_worker.judge.loopback.wire import (
    Answer,
    Cut,
    Fault,
    Raw,
    RecordedRequest,
    Reply,
    Scripted,
    error_body,
    events,
    message,
    problem_of,
)

__all__ = ["AnthropicServer"]

_MESSAGES = "/v1/messages"
_BATCHES = "/v1/messages/batches"


@dataclass
class _Batch:
    id: str
    requests: list[dict[str, Any]]
    headers: dict[str, str]
    looks: int
    results: list[dict[str, Any]] = field(default_factory=list)
    created_at: str = field(default_factory=utc_now)

    def shown(self, base_url: str) -> dict[str, Any]:
        ended = self.looks <= 0
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        counts["processing"] = 0 if ended else len(self.requests)
        for result in self.results if ended else ():
            counts[result["result"]["type"]] += 1
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": self.created_at,
            "expires_at": "2100-01-01T00:00:00Z",
            "ended_at": self.created_at if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{base_url}{_BATCHES}/{self.id}/results" if ended else None,
        }


class AnthropicServer:
    """Serves the API on loopback while its ``with`` block runs.

    ``script`` is one answer a request, or one function that answers all of them; a request beyond the script gets
    status 400. A request without ``api_key`` gets 401. ``batch_looks`` is how often a batch is looked at before it has
    ended. ``requests`` are all message requests, those of batches too; ``all_requests`` are really all.
    """

    def __init__(
        self,
        script: Sequence[Scripted] | Callable[[RecordedRequest], Answer],
        *,
        api_key: str = "test-key",
        batch_looks: int = 1,
        port: int = 0,
    ) -> None:
        self._script = script
        self._api_key = api_key
        self._batch_looks = batch_looks
        self._lock = threading.Lock()
        self._cache = PromptCache()
        self._batches: dict[str, _Batch] = {}
        self.requests: list[RecordedRequest] = []
        self.all_requests: list[RecordedRequest] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
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

    def refusal(self, request: RecordedRequest) -> Fault | None:
        """What is wrong with the headers of any request."""
        if request.key != self._api_key:
            return Fault(401, message="invalid API key")
        if "anthropic-version" not in request.headers:
            return Fault(400, message="anthropic-version: header is required")
        return None

    def answer(self, request: RecordedRequest) -> Answer:
        """Record a message request and say what the script has for it."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        refusal = self.refusal(request)
        if refusal is not None:
            return refusal
        problem = problem_of(request.body)
        if problem:
            return Fault(400, message=problem)
        if callable(self._script):
            return self._script(request)
        if number > len(self._script):
            return Fault(400, message=f"the script has {len(self._script)} answers, and this is request {number}")
        scripted = self._script[number - 1]
        return scripted(request) if callable(scripted) else scripted

    def message(self, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
        """The message of a reply, with its usage."""
        usage = self._cache.usage(body, list(reply.content)) if reply.counted else reply.usage
        return message(reply, body, len(self.requests), usage)

    def batch(self, method: str, path: str, request: RecordedRequest) -> tuple[int, Any]:
        """Status and answer of a request to the Batches API; a list is an answer of JSON lines."""
        parts = path.removeprefix(_BATCHES).strip("/").split("/")
        if method == "POST" and parts == [""]:
            return self._create_batch(request)
        if method == "GET" and parts == [""]:
            newest = [self._looked_at(batch) for batch in reversed(list(self._batches.values()))]
            return 200, {"data": newest, "has_more": False, "first_id": None, "last_id": None}
        batch = self._batches.get(parts[0])
        if batch is None:
            return 404, error_body(404, "there is no such batch")
        if method == "GET" and len(parts) == 1:
            return 200, self._looked_at(batch)
        if method == "GET" and parts[1:] == ["results"]:
            return (200, batch.results) if batch.looks <= 0 else (404, error_body(404, "the batch has not ended"))
        if method == "POST" and parts[1:] == ["cancel"]:
            batch.looks = 0
            canceled = {"type": "canceled"}
            batch.results = [{"custom_id": each["custom_id"], "result": canceled} for each in batch.requests]
            return 200, batch.shown(self.base_url)
        return 404, error_body(404, f"no such path: {path}")

    def _create_batch(self, request: RecordedRequest) -> tuple[int, Any]:
        wanted = request.body.get("requests")
        if not isinstance(wanted, list) or not wanted:
            return 400, error_body(400, "requests: field required")
        names = [each.get("custom_id") for each in wanted]
        if len(set(names)) != len(names) or not all(isinstance(name, str) and 0 < len(name) <= 64 for name in names):
            return 400, error_body(400, "custom_id: must be unique texts of 1 to 64 characters")
        with self._lock:
            identifier = f"msgbatch_{len(self._batches) + 1}"
            batch = _Batch(identifier, wanted, request.headers, self._batch_looks + 1)
            self._batches[identifier] = batch
        return 200, batch.shown(self.base_url)

    def _looked_at(self, batch: _Batch) -> dict[str, Any]:
        batch.looks -= 1
        if batch.looks <= 0 and not batch.results:
            batch.results = [self._batch_result(each, batch) for each in batch.requests]
        return batch.shown(self.base_url)

    def _batch_result(self, each: dict[str, Any], batch: _Batch) -> dict[str, Any]:
        """The script answers a batch's requests one by one; a fault is an errored result, a cut an expired one."""
        answer = self.answer(RecordedRequest(_BATCHES, batch.headers, each["params"], time.monotonic()))
        if isinstance(answer, Reply):
            result: dict[str, Any] = {"type": "succeeded", "message": self.message(answer, each["params"])}
        elif isinstance(answer, Fault):
            result = {"type": "errored", "error": error_body(answer.status, answer.message)}
        else:
            result = {"type": "expired"}
        return {"custom_id": each["custom_id"], "result": result}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(_Handler):
            farm = server

        return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    farm: AnthropicServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the requests are kept in the server."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def _serve(self, method: str) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, json.loads(data or b"{}"), time.monotonic())
        self.farm.all_requests.append(request)
        if path == _MESSAGES and method == "POST":
            self._answer(request, self.farm.answer(request))
        elif (refusal := self.farm.refusal(request)) is not None:
            self._fault(refusal)
        elif path.startswith(_BATCHES):
            status, answer = self.farm.batch(method, path, request)
            lines = isinstance(answer, list)
            body = "".join(json.dumps(each) + "\n" for each in answer) if lines else json.dumps(answer)
            self._send(status, body.encode(), "application/x-jsonl" if lines else "application/json")
        elif path == f"{_MESSAGES}/count_tokens" and method == "POST":
            counted = tokens_of([request.body.get(name) for name in ("tools", "system", "messages")])
            self._send(200, json.dumps({"input_tokens": counted}).encode())
        else:
            self._fault(Fault(404, message=f"no such path: {self.path}"))

    def _answer(self, request: RecordedRequest, answer: Answer) -> None:
        if isinstance(answer, Reply):
            time.sleep(answer.delay)
            built = self.farm.message(answer, request.body)
            if request.body.get("stream"):
                self._stream(events(built))
            else:
                self._send(200, json.dumps(built).encode())
        elif isinstance(answer, Fault):
            self._fault(answer)
        elif isinstance(answer, Raw):
            self._send(200, answer.body, answer.content_type, drip=answer.drip)
        else:
            self._cut(answer)

    def _cut(self, cut: Cut) -> None:
        if cut.in_the_middle:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"id": "msg')
        self.close_connection = True

    def _fault(self, fault: Fault) -> None:
        extra: dict[str, Any] = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        self._send(fault.status, json.dumps(error_body(fault.status, fault.message)).encode(), **extra)

    def _send(
        self, status: int, body: bytes, content_type: str = "application/json", drip: float = 0.0, **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("request-id", f"req_{len(self.farm.requests)}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for part in [body[place : place + 1] for place in range(len(body))] if drip else [body]:
                self.wfile.write(part)
                time.sleep(drip)
        except OSError:
            # The client went away, as it may.
            self.close_connection = True

    def _stream(self, stream: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in stream:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True
