"""Refusals before any page or endpoint is reached: JSON for the API, a plain page for everything else."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from crb_core.errors import CrbError
from crb_web import errors
from crb_web.json_text import json_bytes
from crb_web.pages import render

__all__ = ["is_api", "refuse"]


def is_api(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.startswith("/api/")


async def refuse(
    scope: Scope, receive: Receive, send: Send, status: int, error: CrbError, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with a status and a sentence. A HEAD gets the headers only."""
    if is_api(scope):
        answer = Response(json_bytes(errors.as_json(error, status)), status, media_type="application/json")
    else:
        answer = render("error.html", status, error=error, code=status)
    answer.headers.update(headers or {})
    await answer(scope, receive, send)
