"""What every request and response goes through: methods, sizes, the host's name, and headers.

The server only reads and only answers browsers of its own machine. The Host header is checked because a page
elsewhere can give its own name this machine's address (DNS rebinding) and would then read the answers.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "MAX_QUERY", "Guard"]

#: Longest query string and path in bytes; the longest useful one names every value of every axis.
MAX_QUERY = 8192
MAX_PATH = 1024

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-frame-options": "DENY",
}


class Guard:
    """Refuses what no page or program of ours sends, and adds the headers that keep hostile text inert.

    ``hosts`` are names under which the server may be asked for; an empty set takes any.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app = app
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = [
                    (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given
                ]
                if b"cache-control" not in given:
                    added.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *added]}
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(guarded, *refusal)
            return
        if is_head:
            scope = {**scope, "method": "GET"}
        await self.app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "This server only reads: GET and HEAD"
        if headers.get(b"content-length", b"0") not in {b"0", b""} or b"transfer-encoding" in headers:
            return 413, "A request to this server has no body"
        if len(scope["query_string"]) > MAX_QUERY or len(scope.get("raw_path") or b"") > MAX_PATH:
            return 414, f"The address is too long: at most {MAX_PATH} bytes and a query of {MAX_QUERY}"
        if any(b"\0" in unquote_to_bytes(part) for part in (scope.get("raw_path") or b"", scope["query_string"])):
            return 400, "The address holds a NUL character"
        if self.hosts and _name(headers.get(b"host", b"")) not in self.hosts:
            return 421, "This server does not answer for that host name"
        return None


def _name(host: bytes) -> str:
    """A Host header without its port, in lower case."""
    text = host.decode("latin-1").lower()
    return text.split("]")[0] + "]" if text.startswith("[") else text.split(":")[0]


async def _refuse(send: Send, status: int, problem: str) -> None:
    error = {"status": status, "problem": problem, "field": None, "remedy": None}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
