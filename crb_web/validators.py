"""Entity tags: who has an answer already is told so, instead of being sent it again.

A tag is a digest of the answer itself, made after the gate has let the request through. So it cannot be right for
another store, filter, judge or reader than the answer is, and nothing has to know when to forget it.
"""

from __future__ import annotations

import hashlib
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crb_web.gate import CALLER
from crb_web.refusals import is_api

__all__ = ["Validators"]

#: Programs may keep an answer of the API, and have to ask before they use it. Browsers keep no page: on the way back
#: through their history they would show it without asking, beside numbers of today.
ASK_FIRST = b"private, no-cache"
_TAG = re.compile(rb'(?:W/)?("[^"]*")')
#: What an answer without a body does not have.
_OF_BODY = (b"content-length", b"content-type", b"content-disposition")


class Validators:
    """Adds an ETag to every whole answer to a GET, and answers 304 to ``If-None-Match``; events pass as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        wanted = b",".join(value for name, value in scope["headers"] if name == b"if-none-match")
        may_keep = is_api(scope) and scope.get(CALLER) is None
        start: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] == 200:
                start = message
                return
            if start is None or message["type"] != "http.response.body":
                await send(message)
                return
            begun, start = start, None
            if message.get("more_body", False):
                await send(begun)
                await send(message)
                return
            body = message.get("body", b"")
            tag = b'"%s"' % hashlib.blake2b(body, digest_size=16).hexdigest().encode()
            headers = [*begun["headers"], (b"etag", tag), (b"vary", b"authorization, cookie")]
            if may_keep and not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", ASK_FIRST))
            if not _has(wanted, tag):
                await send({**begun, "headers": headers})
                await send(message)
                return
            kept = [each for each in headers if each[0] not in _OF_BODY]
            await send({"type": "http.response.start", "status": 304, "headers": kept})
            await send({"type": "http.response.body", "body": b""})

        await self.app(scope, receive, tagged)


def _has(wanted: bytes, tag: bytes) -> bool:
    """Whether ``If-None-Match`` names the tag. Weak tags count: a proxy that compresses makes ours weak."""
    return wanted.strip() == b"*" or tag in _TAG.findall(wanted)
