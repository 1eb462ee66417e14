"""What every request and response goes through: methods, sizes, the host's name, and headers.

The Host header is checked because a page elsewhere can give its own name this machine's address (DNS rebinding) and
would then read the answers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crb_core.errors import CrbError
from crb_web.refusals import refuse

__all__ = ["HEADERS", "MAX_QUERY", "Guard"]

#: Longest query string and path in bytes; the longest useful one names every value of every axis.
MAX_QUERY = 8192
MAX_PATH = 1024
#: Bytes of all headers together. The HTTP parser counts only a head that has not come whole.
MAX_HEAD = 32 * 1024

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

#: Headers that may be there once: of two, a proxy may look at the one and this server at the other.
_SINGLE = (b"host", b"content-length", b"content-type", b"authorization", b"cookie", b"origin")


class Guard:
    """Refuses what no page or program of ours sends, and adds the headers that keep hostile text inert.

    ``hosts`` are names under which the server may be asked for; an empty set takes any. ``takes_posts``: there are
    forms to be sent. ``proxies`` are the only addresses that may connect; empty: any may.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        takes_posts: bool = False,
        proxies: Collection[ipaddress.IPv4Network | ipaddress.IPv6Network] = (),
    ) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.methods = ("GET", "HEAD", "POST") if takes_posts else ("GET", "HEAD")
        self.proxies = tuple(proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        guarded = _Guarded(send, is_head=scope["method"] == "HEAD")
        refusal = self._refusal(scope)
        if refusal is not None:
            status, error = refusal
            headers = {"allow": ", ".join(self.methods)} if status == 405 else {}
            await refuse(scope, receive, guarded, status, error, headers)
            return
        if guarded.is_head:
            scope = {**scope, "method": "GET"}
        await self.app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, CrbError] | None:
        names = [name for name, _ in scope["headers"]]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self.proxies and not _is_within(scope.get("client"), self.proxies):
            return 403, CrbError("This server answers its reverse proxy only", remedy="Ask under the proxy's name")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD:
            return 431, CrbError(f"The headers are too long: at most {MAX_HEAD:,} bytes together")
        if any(names.count(name) > 1 for name in _SINGLE):
            return 400, CrbError("The request has one of its headers twice")
        if scope["method"] not in self.methods:
            remedy = None if len(self.methods) > 2 else "`crb serve --operate` also takes operations"
            return 405, CrbError("This server does not take that method", remedy=remedy)
        has_body = headers.get(b"content-length", b"0") not in {b"0", b""} or b"transfer-encoding" in headers
        if has_body and scope["method"] != "POST":
            return 413, CrbError("A request that reads has no body")
        if len(scope["query_string"]) > MAX_QUERY or len(scope.get("raw_path") or b"") > MAX_PATH:
            return 414, CrbError(f"The address is too long: at most {MAX_PATH} bytes and a query of {MAX_QUERY}")
        if any(b"\0" in unquote_to_bytes(part) for part in (scope.get("raw_path") or b"", scope["query_string"])):
            return 400, CrbError("The address holds a NUL character")
        # A route's pattern would also take a path that ends with a newline.
        if any(byte < 32 for byte in unquote_to_bytes(scope.get("raw_path") or b"")):
            return 400, CrbError("The path of the address holds a control character")
        if self.hosts and _name(headers.get(b"host", b"")) not in self.hosts:
            return 421, CrbError("This server does not answer for that host name")
        return None


class _Guarded:
    """Sends with our headers, and without the body of an answer to HEAD, which ends there even where it streams."""

    def __init__(self, send: Send, *, is_head: bool) -> None:
        self._send = send
        self.is_head = is_head
        self._is_over = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given]
            if b"cache-control" not in given:
                added.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message["headers"], *added]}
        elif self.is_head and message["type"] == "http.response.body":
            if self._is_over:
                return
            self._is_over = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)


def _name(host: bytes) -> str:
    """A Host header without its port, in lower case."""
    text = host.decode("latin-1").lower()
    return text.split("]")[0] + "]" if text.startswith("[") else text.split(":")[0]


def _is_within(
    client: tuple[str, int] | None, networks: Collection[ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> bool:
    if client is None:
        return False
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)
