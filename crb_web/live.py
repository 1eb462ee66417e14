"""Sweeps as they run, for any number of readers: one reading of the store for all of them together.

A channel holds a sweep's page in parts, each with the version in which it last changed. A subscriber gets the parts
that are newer than what it has, so a slow one skips versions instead of queueing them, and one that comes back says
with ``Last-Event-ID`` where it was. Nothing is kept for somebody who is not there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from crb_core.errors import CrbError, UnavailableError
from crb_web import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LiveResponse", "LiveSweeps", "Parts"]

#: A page in parts, by the name of the element that shows each.
Parts = Mapping[str, str]

#: Seconds between two readings, of a sweep that runs and of one that has ended.
READ_SECONDS = 1.0
IDLE_SECONDS = 10.0
#: A reading is followed by at least so many times its own duration.
REST_FACTOR = 4.0
#: Subscribers of the server and of one client address; sweeps that are watched at once.
MAX_SUBSCRIBERS = 100
MAX_OF_CLIENT = 25
MAX_SWEEPS = 20
#: A stream ends after this and the browser begins the next, which has to pass the gate anew.
STREAM_SECONDS = 120.0
#: Seconds between two signs of life where nothing changes, and in which a client must take what it is sent.
PING_SECONDS = 15
SEND_SECONDS = 20
#: The part that says what is wrong with the reading itself, or with what would bring the next one.
NOTICE = "notice"

_log = logging.getLogger("crb.web")


class _Channel:
    """One sweep: its parts, the versions in which they changed, and who waits for the next."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.version = 0
        self.parts: dict[str, tuple[int, str]] = {}
        self.subscribers = 0
        self.due = 0.0
        self._changed = asyncio.Event()

    def publish(self, parts: Parts) -> None:
        changed = {name: text for name, text in parts.items() if self.parts.get(name, (0, None))[1] != text}
        if not changed:
            return
        self.version += 1
        self.parts |= {name: (self.version, text) for name, text in changed.items()}
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def newer(self, version: int) -> dict[str, str]:
        return {name: text for name, (changed, text) in self.parts.items() if changed > version}

    async def wait(self, version: int) -> None:
        while self.version <= version:
            await self._changed.wait()


class LiveSweeps:
    """Reads watched sweeps once a second while anybody watches; no task and no memory is left when nobody does.

    ``read`` gives a sweep's parts and whether it has ended; it is called in a thread, and by nobody else at the time.
    """

    def __init__(
        self,
        read: Callable[[str], tuple[Parts, bool]],
        *,
        read_seconds: float = READ_SECONDS,
        stream_seconds: float = STREAM_SECONDS,
        max_subscribers: int = MAX_SUBSCRIBERS,
        max_of_client: int = MAX_OF_CLIENT,
    ) -> None:
        self._read = read
        self._read_seconds = read_seconds
        self._stream_seconds = stream_seconds
        self._max_subscribers = max_subscribers
        self._max_of_client = max_of_client
        self._channels: dict[str, _Channel] = {}
        self._clients: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        #: How often a sweep was read, for tests and for whoever looks.
        self.readings = 0

    @property
    def subscribers(self) -> int:
        return sum(channel.subscribers for channel in self._channels.values())

    @property
    def is_idle(self) -> bool:
        """Whether nobody watches and nothing is left of those who did."""
        return not self._channels and not self._clients and self._task is None

    @contextmanager
    def place(self, sweep_id: str, client: str) -> Iterator[_Channel]:
        """A subscriber's place, for as long as it watches. UnavailableError where too many watch already.

        The reading begins with the first subscriber and ends with the last.
        """
        if self.subscribers >= self._max_subscribers or self._clients[client] >= self._max_of_client:
            raise UnavailableError("Too many pages follow sweeps live", remedy="This page can be loaded again by hand")
        channel = self._channels.get(sweep_id)
        if channel is None:
            if len(self._channels) >= MAX_SWEEPS:
                raise UnavailableError("Too many sweeps are followed live", remedy="Load this page again by hand")
            channel = self._channels[sweep_id] = _Channel(secrets.token_hex(8))
        channel.subscribers += 1
        self._clients[client] += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield channel
        finally:
            channel.subscribers -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]
            if not channel.subscribers:
                self._channels.pop(sweep_id, None)

    async def events(self, channel: _Channel, last_event_id: str | None) -> AsyncIterator[ServerSentEvent]:
        """What is newer than ``last_event_id``, and then every change, until the stream has lasted long enough."""
        seen = _version(channel, last_event_id)
        ends = time.monotonic() + self._stream_seconds
        while True:
            try:
                await asyncio.wait_for(channel.wait(seen), ends - time.monotonic())
            except TimeoutError:
                return
            parts, seen = channel.newer(seen), channel.version
            yield ServerSentEvent(json.dumps(parts), event="parts", id=f"{channel.epoch}-{seen}", retry=3000)

    async def close(self) -> None:
        """End the reading."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        try:
            while self._channels:
                took = 0.0
                for sweep_id, channel in list(self._channels.items()):
                    began = time.monotonic()
                    # What failed cost a wait, which is no reason to come back later.
                    if channel.due <= began and await self._update(sweep_id, channel):
                        took += time.monotonic() - began
                await asyncio.sleep(max(self._read_seconds, REST_FACTOR * took))
        finally:
            self._task = None

    async def _update(self, sweep_id: str, channel: _Channel) -> bool:
        """Read a sweep for its subscribers; False where it could not be read."""
        self.readings += 1
        # The reading is for everybody: one sweep that cannot be read or drawn must not end it.
        (found,) = await asyncio.gather(run_in_threadpool(self._read, sweep_id), return_exceptions=True)
        if isinstance(found, BaseException):
            channel.publish({NOTICE: _what_is_wrong(sweep_id, found)})
            return False
        parts, has_ended = found
        channel.publish({NOTICE: "", **parts})
        channel.due = time.monotonic() + IDLE_SECONDS if has_ended else 0.0
        return True


def _what_is_wrong(sweep_id: str, error: BaseException) -> str:
    if isinstance(error, SQLAlchemyError):
        error = errors.of_database(error)
    if isinstance(error, CrbError):
        return f"{error.problem}; it is asked again"
    _log.error("sweep %s cannot be shown", sweep_id, exc_info=error)
    return "The server made a mistake; its log says more. It is tried again"


def _version(channel: _Channel, last_event_id: str | None) -> int:
    """The version that a subscriber has; 0 where its id is of another process or of no event of ours."""
    epoch, _, number = (last_event_id or "").rpartition("-")
    if epoch != channel.epoch or not number.isascii() or not number.isdigit() or len(number) > 12:
        return 0
    return min(int(number), channel.version)


class LiveResponse(Response):
    """The events of a sweep as an answer. A subscriber's place is taken and given back with the answer itself."""

    media_type = "text/event-stream"

    def __init__(self, live: LiveSweeps, sweep_id: str, client: str, last_event_id: str | None) -> None:
        super().__init__()
        self._live = live
        self._sweep_id = sweep_id
        self._client = client
        self._last_event_id = last_event_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._live.place(self._sweep_id, self._client) as channel:
            events = self._live.events(channel, self._last_event_id)
            await EventSourceResponse(events, ping=PING_SECONDS, send_timeout=SEND_SECONDS, sep="\n")(
                scope, receive, send
            )
