"""Signing in with a token, and out: a random session id in a cookie that scripts and other sites do not get."""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from crb_web.access import SESSION_SECONDS, Access
from crb_web.errors import NotFoundError, RefusedError
from crb_web.gate import FORM, cookie_of, form_value
from crb_web.limits import client_key
from crb_web.pages import render
from crb_web.sweep_pages import caller_of

__all__ = ["access_of", "router"]

router = APIRouter(include_in_schema=False)

#: Where to go after signing in: a path on this server, in the characters that ours have.
_PATH = re.compile(r"/(?![/\\])[A-Za-z0-9._~%/?=&+:,@!-]*")
#: A form for signing in belongs to a browser before it has a session: the same secret in a cookie and in the form.
_FORM_COOKIE = "crb-sign-in"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")

Next = Annotated[str, Query(alias="next", max_length=1000)]


def access_of(request: Request) -> Access:
    found: Access = request.app.state.access
    return found


@router.get("/sign-in")
def sign_in_page(request: Request, target: Next = "/sweeps") -> Response:
    """The form."""
    access = access_of(request)
    if not access.rules.has_tokens:
        raise NotFoundError("Nobody signs in here: this server only reads", remedy="`crb serve --operate` has tokens")
    secret = cookie_of(dict(request.scope["headers"]), _FORM_COOKIE) or ""
    if not _SECRET.fullmatch(secret):
        secret = secrets.token_urlsafe(32)
    answer = render("sign_in.html", secret=secret, target=_safe(target), visitor=caller_of(request))
    # Under `no-referrer` browsers send forms without the Origin that the gate asks for.
    answer.headers["referrer-policy"] = "same-origin"
    answer.set_cookie(
        _FORM_COOKIE,
        secret,
        max_age=3600,
        path="/sign-in",
        secure=access.rules.is_tls,
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/sign-in")
def sign_in(request: Request) -> Response:
    """Begin a session."""
    access = access_of(request)
    form = request.scope[FORM]
    expected = cookie_of(dict(request.scope["headers"]), _FORM_COOKIE) or ""
    sent = form_value(form, "csrf")
    if not _SECRET.fullmatch(expected) or not hmac.compare_digest(expected.encode(), sent.encode()):
        raise RefusedError(403, "The form is not of your browser", remedy="Load the page again, with cookies allowed")
    session_id = access.sign_in(form_value(form, "token"), client_key(request.scope))
    answer = RedirectResponse(quote(_safe(form_value(form, "next")), safe="/%?=&+:,@!~"), 303)
    answer.set_cookie(
        access.cookie_name,
        session_id,
        max_age=int(SESSION_SECONDS),
        path="/",
        secure=access.rules.is_tls,
        httponly=True,
        samesite="strict",
    )
    answer.delete_cookie(_FORM_COOKIE, path="/sign-in", secure=access.rules.is_tls, httponly=True, samesite="strict")
    return answer


@router.post("/sign-out")
def sign_out(request: Request) -> Response:
    """End the session."""
    access = access_of(request)
    session_id = cookie_of(dict(request.scope["headers"]), access.cookie_name)
    if session_id is not None:
        access.sign_out(session_id)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(access.cookie_name, path="/", secure=access.rules.is_tls, httponly=True, samesite="strict")
    return answer


def _safe(target: str) -> str:
    return target if _PATH.fullmatch(target) else "/sweeps"
