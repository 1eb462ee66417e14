"""HTTP connections that may not be held open for nothing: a whole request head within seconds, or the end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "ImpatientProtocol"]

#: From the first byte of a connection, or of a request on it, to the end of that request's head.
HEAD_SECONDS = 10.0


class ImpatientProtocol(H11Protocol):
    """uvicorn's own protocol has a time limit between requests, but none for the head of one (slow loris)."""

    head_seconds = HEAD_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before or self._is_answering():
            self._stop()
        elif self._deadline is None:
            self._await_head()

    def _should_upgrade(self) -> bool:
        # There are no WebSockets here. uvicorn would log two lines for whoever asks, with advice that helps nobody.
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_answering():
            self.transport.close()

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
