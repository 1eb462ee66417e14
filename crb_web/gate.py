"""The gate before every page and endpoint: who asks, may they, and is it really they who sent this form.

Whatever is not a GET is decided here, so that no handler can forget it: the API takes a Bearer token and nothing else;
pages take a session, the secret of that session in the form, and an Origin that is this server's.
"""

from __future__ import annotations

import math
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from crb_core.errors import CrbError, InputError
from crb_web import errors
from crb_web.access import Access, Caller
from crb_web.errors import RefusedError
from crb_web.limits import BODY, client_key
from crb_web.refusals import is_api, refuse

__all__ = ["CALLER", "FORM", "SIGN_IN", "Gate", "cookie_of", "form_value"]

#: Where the caller and the fields of a form stand in a request's scope.
CALLER = "crb.caller"
FORM = "crb.form"

SIGN_IN = "/sign-in"
_SIGN_OUT = "/sign-out"
#: What those who are not known need in order to sign in.
_OPEN = re.compile(r"/sign-in|/static/[a-z.]+")
#: Fields of one form.
MAX_FIELDS = 50


class Gate:
    """Puts the caller into the scope, or refuses."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            caller, form = await self._admit(scope)
        except RefusedError as error:
            await self._refuse(scope, receive, send, error)
        except SQLAlchemyError as error:
            await refuse(scope, receive, send, 503, errors.of_database(error))
        except CrbError as error:
            await refuse(scope, receive, send, errors.status_of(error), error)
        else:
            await self.app({**scope, CALLER: caller, FORM: form}, receive, send)

    async def _admit(self, scope: Scope) -> tuple[Caller | None, dict[str, list[str]]]:
        if not self.access.rules.has_tokens:
            return None, {}
        headers: dict[bytes, bytes] = dict(scope["headers"])
        writes = scope["method"] == "POST"
        if writes:
            scheme = b"https" if self.access.rules.is_tls else b"http"
            _check_origin(headers, scheme, must_be_there=not is_api(scope))
        caller = await self._caller(scope, headers)
        path = scope["path"]
        if caller is None and self.access.rules.read_with_token and not _OPEN.fullmatch(path):
            raise RefusedError(401, "Reading needs a token here", remedy="Ask whoever runs this server for one")
        if not writes:
            return caller, {}
        if is_api(scope):
            if caller is None or caller.csrf is not None:
                raise RefusedError(401, "This needs an operator's token", remedy="Send it as `Authorization: Bearer`")
            _check_operator(caller)
            return caller, {}
        form = _form(headers, scope[BODY])
        if path == SIGN_IN:
            return caller, form
        if caller is None or caller.csrf is None:
            raise RefusedError(401, "You are not signed in, or not any more", remedy="Sign in and do it again")
        if not self.access.is_csrf(caller, form_value(form, "csrf")):
            raise RefusedError(403, "The form is not of your session", remedy="Load its page again and send it anew")
        if path != _SIGN_OUT:
            _check_operator(caller)
        return caller, form

    async def _caller(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller | None:
        given = headers.get(b"authorization")
        if given is not None:
            kind, _, secret = given.decode("latin-1").partition(" ")
            if kind.lower() != "bearer":
                raise RefusedError(401, "This server takes `Authorization: Bearer` and a token")
            return await run_in_threadpool(self.access.of_bearer, secret.strip(), client_key(scope))
        session = cookie_of(headers, self.access.cookie_name)
        return None if session is None else await run_in_threadpool(self.access.of_session, session)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: RefusedError) -> None:
        is_page = not is_api(scope) and not scope["path"].endswith("/events")
        if error.status == 401 and is_page and scope["method"] == "GET" and self.access.rules.read_with_token:
            target = scope["path"] + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
            await RedirectResponse(f"{SIGN_IN}?next={quote(target, safe='')}", 303)(scope, receive, send)
            return
        headers = {"www-authenticate": 'Bearer realm="crb"'} if error.status == 401 else {}
        if error.wait:
            headers["retry-after"] = str(math.ceil(error.wait))
        await refuse(scope, receive, send, error.status, error, headers)


def cookie_of(headers: dict[bytes, bytes], name: str) -> str | None:
    """A cookie's value; None where it is not there or the header is not readable."""
    try:
        found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def form_value(form: dict[str, list[str]], name: str) -> str:
    """A form's field, empty where it is not there. InputError where it is there twice."""
    values = form.get(name, [])
    if len(values) > 1:
        raise InputError(f"The form gives {name} {len(values)} times")
    return values[0] if values else ""


def _check_operator(caller: Caller) -> None:
    if not caller.may_operate:
        raise RefusedError(
            403, f"The token {caller.name} may only read", remedy="Changing anything needs a token of role operator"
        )


def _check_origin(headers: dict[bytes, bytes], scheme: bytes, *, must_be_there: bool) -> None:
    """Browsers name the page that sends a form; one elsewhere cannot make them say otherwise."""
    origin = headers.get(b"origin")
    if origin is None and not must_be_there:
        return
    if origin is None or origin.lower() != scheme + b"://" + headers.get(b"host", b"").lower():
        raise RefusedError(403, "The form was sent from another site, or its browser does not say from where")
    if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        raise RefusedError(403, "The form was sent from another site")


def _form(headers: dict[bytes, bytes], body: bytes) -> dict[str, list[str]]:
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        raise InputError("A form comes as application/x-www-form-urlencoded")
    try:
        return parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict", encoding="utf-8"
        )
    except ValueError:
        raise InputError("The form cannot be read") from None
