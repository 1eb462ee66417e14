"""Asks the application in this process, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

__all__ = ["Answer", "ask"]


@dataclass(frozen=True)
class Answer:
    """A response; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


async def ask(app: ASGIApp, address: str) -> Answer:
    """GET of an address (path and query)."""
    path, _, query = address.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 80),
    }
    status = 0
    headers: dict[str, str] = {}
    body: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.update(
                (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message["headers"]
            )
        elif message["type"] == "http.response.body":
            body.append(message.get("body", b""))

    await app(scope, receive, send)
    return Answer(status, headers, b"".join(body))
