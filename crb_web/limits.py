"""How much one client, and all of them together, may ask of the server: rate, body, time, work at once."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crb_core.errors import CrbError, InputError, UnavailableError
from crb_web.refusals import refuse

__all__ = ["BODY", "LIMITS", "Buckets", "LimitRules", "Limits", "client_key"]

#: Where a request's whole body stands in its scope.
BODY = "crb.body"
#: Clients whose rate is remembered; beyond that the one that was quiet for longest is forgotten.
MAX_CLIENTS = 10_000
#: What is computed from a whole sweep. Everything else is some rows, a blob or a file of ours.
_EXPENSIVE = ("/leaderboard", "/compare", "/pictures", "/api/v1/leaderboard", "/api/v1/compare", "/judges/")
#: How much the newest turn counts in the mean seconds of a turn.
_NEWEST = 0.1


@dataclass(frozen=True, kw_only=True)
class LimitRules:
    """Limits of a server; rates are for each client address."""

    #: Requests a second in the long run, and at once after a pause.
    per_second: float = 500.0
    burst: int = 2000
    #: Largest body in bytes, and seconds in which it must have come.
    body_bytes: int = 64 * 1024
    body_seconds: float = 10.0
    #: Seconds after which an answer must have begun.
    answer_seconds: float = 120.0
    #: Requests that compute from a whole sweep at once, and how many more may wait for their turn.
    expensive: int = 4
    waiting: int = 256
    #: Seconds that a request would wait for its turn above which it is refused at once: people have gone by then.
    patience_seconds: float = 20.0


LIMITS = LimitRules()


class Buckets:
    """Token buckets by key: ``burst`` at once, then ``per_second``."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one, and return 0, or the seconds until there is one."""
        level = self._level(key)
        if level < 1:
            return (1 - level) / self._per_second
        self._levels[key] = (level - 1, self._clock())
        self._levels.move_to_end(key)
        while len(self._levels) > MAX_CLIENTS:
            self._levels.popitem(last=False)
        return 0.0

    def wait(self, key: str) -> float:
        """The seconds until there is one, without taking it."""
        level = self._level(key)
        return 0.0 if level >= 1 else (1 - level) / self._per_second

    def _level(self, key: str) -> float:
        level, seen = self._levels.get(key, (float(self._burst), self._clock()))
        return min(float(self._burst), level + (self._clock() - seen) * self._per_second)


class Limits:
    """Refuses what goes beyond the rules. The body of a POST is read here, whole, and handed on as one piece."""

    def __init__(self, app: ASGIApp, rules: LimitRules = LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.rules = rules
        self._rates = Buckets(rules.per_second, rules.burst, clock)
        self._turns = asyncio.Semaphore(rules.expensive)
        self._waiting = 0
        self._clock = clock
        self._turn_seconds = 0.0
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if wait := self._rates.take(client_key(scope)):
            error = UnavailableError("There are too many requests from your address", remedy="Ask again later")
            await refuse(scope, receive, send, 429, error, {"retry-after": str(math.ceil(wait))})
            return
        if scope["method"] == "POST":
            try:
                body = await self._body(scope, receive)
            except _RefusedError as refused:
                await refuse(scope, receive, send, refused.status, refused.error, {"connection": "close"})
                return
            scope = {**scope, BODY: body}
            receive = _Replay(body, receive)
        if _is_expensive(scope["path"]):
            await self._in_turn(scope, receive, send)
        else:
            await self._in_time(scope, receive, send, lambda: None)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        too_long = _RefusedError(413, InputError(f"The body is longer than {self.rules.body_bytes:,} bytes"))
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 12 or int(declared) > self.rules.body_bytes:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(self.rules.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _RefusedError(400, InputError("The body ends early"))
                    body += message.get("body", b"")
                    if len(body) > self.rules.body_bytes:
                        raise too_long
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            error = InputError(f"The body did not come within {self.rules.body_seconds:g} s")
            raise _RefusedError(408, error) from None

    @property
    def _expected_wait(self) -> float:
        """Seconds until a request that comes now has its turn, as the last ones went."""
        return (self._waiting + 1) * self._turn_seconds / self.rules.expensive if self._turns.locked() else 0.0

    async def _busy(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Half of those before it will have gone by then.
        wait = min(60, max(2, math.ceil(self._expected_wait / 2)))
        error = UnavailableError("The server is busy with other leaderboards", remedy=f"Ask again in {wait} s")
        await refuse(scope, receive, send, 503, error, {"retry-after": str(wait)})

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_full = self._turns.locked() and self._waiting >= self.rules.waiting
        if is_full or self._expected_wait > self.rules.patience_seconds:
            await self._busy(scope, receive, send)
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(self.rules.answer_seconds):
                await self._turns.acquire()
        except TimeoutError:
            await self._busy(scope, receive, send)
            return
        finally:
            self._waiting -= 1
        began = self._clock()

        def over() -> None:
            took = self._clock() - began
            self._turn_seconds += (took - self._turn_seconds) * (_NEWEST if self._turn_seconds else 1.0)
            self._turns.release()

        # A request that is late keeps its turn until its work is really over.
        await self._in_time(scope, receive, send, over)

    async def _in_time(self, scope: Scope, receive: Receive, send: Send, after: Callable[[], None]) -> None:
        begun = asyncio.get_running_loop().create_future()
        is_late = False

        async def watched(message: Message) -> None:
            if is_late:
                # Its client has been answered.
                return
            if not begun.done():
                begun.set_result(None)
            await send(message)

        async def answer() -> None:
            try:
                await self.app(scope, receive, watched)
            finally:
                after()

        work = asyncio.ensure_future(answer())
        try:
            await asyncio.wait({work, begun}, timeout=self.rules.answer_seconds, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not begun.done():
                is_late = True
                self._late.add(work)
                work.add_done_callback(self._late.discard)
                error = UnavailableError(
                    f"The answer was not ready within {self.rules.answer_seconds:g} s", remedy="Ask for less at once"
                )
                await refuse(scope, receive, send, 503, error, {"retry-after": "10"})
                return
            await work
        except asyncio.CancelledError:
            work.cancel()
            raise


class _RefusedError(Exception):
    def __init__(self, status: int, error: CrbError) -> None:
        super().__init__(error.problem)
        self.status = status
        self.error = error


class _Replay:
    """Gives the body once, then what the connection says: that the client has gone."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def client_key(scope: Scope) -> str:
    """A client's address; of IPv6 the network of 64 bits, because one client has all of it."""
    client = scope.get("client")
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_expensive(path: str) -> bool:
    return path == "/" or path.startswith(_EXPENSIVE) or "/rows/" in path or "/pull-requests/" in path
