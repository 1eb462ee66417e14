"""The application: API, pages, the guard around both, and every error as a sentence."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from ipaddress import IPv4Network, IPv6Network

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from crb_core.errors import CrbError
from crb_core.settings import Settings
from crb_scheduler.broker_watch import BrokerWatch
from crb_web import (
    compare_page,
    errors,
    judge_page,
    leaderboard_pages,
    operation_forms,
    pages,
    pull_request_page,
    sign_in_page,
    sweep_pages,
    trial_page,
)
from crb_web.access import Access, AccessRules
from crb_web.api import audit, operations, v1
from crb_web.boards import Boards
from crb_web.comparisons import Comparisons
from crb_web.gate import Gate
from crb_web.guard import HEADERS, Guard
from crb_web.limits import LIMITS, LimitRules, Limits
from crb_web.live import LiveSweeps
from crb_web.operating import CheckUnchanged, Operator
from crb_web.parameters import check_parameters
from crb_web.renderer import HERE
from crb_web.sources import Sources
from crb_web.sweep_view import SweepViews
from crb_web.validators import Validators

__all__ = ["LOOPBACK", "create_app", "reading_app"]

#: Names of this machine for itself.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})

#: Reads only, for everybody who reaches it.
OPEN = AccessRules()

_log = logging.getLogger("crb.web")


def create_app(
    settings: Settings,
    *,
    hosts: Collection[str] = LOOPBACK,
    rules: AccessRules = OPEN,
    limits: LimitRules = LIMITS,
    proxies: Collection[IPv4Network | IPv6Network] = (),
    check_unchanged: CheckUnchanged | None = None,
) -> FastAPI:
    """The application over the store and evidence of ``settings``; it answers for ``hosts`` only.

    A server that operates needs ``check_unchanged``: what is asked before a review is tried again. ``proxies`` are
    the only addresses that may connect, where there are any; they say for whom.
    """
    app = reading_app(settings)
    sources: Sources = app.state.sources
    access = app.state.access = Access(rules, sources.store)
    if rules.operate:
        if check_unchanged is None:
            raise ValueError("a server that operates needs check_unchanged")
        app.description = "Sweeps, leaderboards, every finding and blob behind a number; operations with a token."
        app.state.operator = Operator(sources, check_unchanged)
        app.include_router(operations.router)
        app.include_router(operation_forms.router)
    # From the inside outwards. Who may not read an answer is not told either that it is still the same.
    app.add_middleware(Validators)
    app.add_middleware(Gate, access=access)
    app.add_middleware(Limits, rules=limits)
    if proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=[str(each) for each in proxies])
    app.add_middleware(Guard, hosts=hosts, takes_posts=rules.has_tokens, proxies=proxies)
    return app


def reading_app(settings: Settings) -> FastAPI:
    """Every page and document, without the guard: what ``crb export site`` asks, in this process."""
    sources = Sources(settings)
    boards = Boards(sources)
    broker = None if settings.broker_url is None else BrokerWatch(settings.broker_url)
    views = SweepViews(sources, settings.lease_seconds, broker=broker)
    live = LiveSweeps(views.live)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await live.close()
        boards.close()
        sources.close()

    app = FastAPI(
        title="crb",
        version="1",
        description="Read-only: sweeps, leaderboards, and every finding and blob behind a number.",
        openapi_url="/api/v1/openapi.json",
        # Both would load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(check_parameters)],
    )
    app.state.sources = sources
    app.state.boards = boards
    app.state.comparisons = Comparisons(boards)
    app.state.access = Access(OPEN, sources.store)
    app.state.sweep_views = views
    app.state.live = live
    app.state.renderer = HERE
    app.include_router(v1.router)
    app.include_router(audit.router)
    app.include_router(operations.reading_router)
    app.include_router(pages.router)
    for page in (leaderboard_pages, compare_page, judge_page, pull_request_page, trial_page, sweep_pages, sign_in_page):
        app.include_router(page.router)
    app.add_exception_handler(CrbError, _of_ours)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_routing)
    app.add_exception_handler(SQLAlchemyError, _of_database)
    app.add_exception_handler(Exception, _unexpected)
    return app


def _answer(request: Request, error: CrbError, status: int) -> Response:
    if request.url.path.startswith("/api/"):
        return v1.JsonAnswer(errors.as_json(error, status), status_code=status)
    return pages.render("error.html", status, error=error, code=status)


def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, CrbError)
    answer = _answer(request, error, errors.status_of(error))
    if isinstance(error, errors.RefusedError) and error.wait:
        answer.headers["retry-after"] = str(math.ceil(error.wait))
    return answer


def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _answer(request, errors.of_validation(error.errors()), 400)


def _of_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = "There is no such page" if error.status_code == 404 else str(error.detail)
    return _answer(request, CrbError(problem), error.status_code)


def _of_database(request: Request, error: Exception) -> Response:
    assert isinstance(error, SQLAlchemyError)
    return _answer(request, errors.of_database(error), 503)


def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    answer = _answer(request, CrbError("The server made a mistake", remedy="Its log says more"), 500)
    # This handler runs outside the guard.
    answer.headers.update(HEADERS)
    return answer
