"""A PostgreSQL server that keeps its connections open and answers nothing: a stopped process, a machine cut off.

No time limit of libpq's ends such a wait: the kernel of a stopped server goes on confirming what it receives. A limit
on every statement would end long ones of a server that works, so whoever has waited for long asks the server a question
that costs it nothing, and gives up only where that has no answer either.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Generator
from typing import Any

import psycopg

__all__ = ["LONGEST_STATEMENT_SECONDS", "PROBE_SECONDS", "SILENT_SECONDS", "Server"]

#: A wait that hears nothing for this long asks whether the server lives.
SILENT_SECONDS = 10.0
#: How long the server may take to answer that.
PROBE_SECONDS = 5.0
#: No statement of crb's takes so long: one server process hangs although its server answers.
LONGEST_STATEMENT_SECONDS = 900.0

#: PostgreSQL's SSLRequest: its length and its number. The answer is one byte, before any password (PostgreSQL manual,
#: "Frontend/Backend Protocol", SSL Session Encryption).
_QUESTION = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


class Server:
    """What the connections of one pool know of their server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = float("-inf")
        self._answered = False

    def connect(self, *arguments: Any, **parameters: Any) -> psycopg.Connection[Any]:
        """A connection whose waits end where the server is silent. Takes and raises what ``psycopg.connect`` does."""
        connection = _Connection.connect(*arguments, **parameters)
        connection.server = self
        return connection

    def answers(self, descriptor: int) -> bool:
        """Whether the server at the other end of an open socket answers; asked once for all who wait meanwhile."""
        wanted = time.monotonic()
        with self._lock:
            if self._asked < wanted:
                self._answered = _answers(descriptor)
                self._asked = time.monotonic()
            return self._answered


class _Connection(psycopg.Connection[Any]):
    server: Server | None = None

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        return super().wait(self._while_it_answers(gen), *arguments, **named)

    def _while_it_answers(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """``work``, which waits for the socket at each yield, until it is done or the server is silent.

        psycopg resumes it several times a second, with nothing where the socket was not ready.
        """
        asked = heard = time.monotonic()
        try:
            wanted = next(work)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    asked = heard = now
                elif now - asked >= SILENT_SECONDS:
                    if now - heard >= LONGEST_STATEMENT_SECONDS or not self._server_answers():
                        # Nobody reads what it might still say.
                        self.close()
                        raise psycopg.OperationalError(f"the server has been silent for {now - heard:.0f} s")
                    asked = time.monotonic()
                wanted = work.send(ready)
        except StopIteration as end:
            return end.value

    def _server_answers(self) -> bool:
        return self.server is None or self.server.answers(self.fileno())


def _answers(descriptor: int) -> bool:
    """Whether the address that a socket is connected to answers a new connection, with whatever byte."""
    with socket.socket(fileno=os.dup(descriptor)) as known:
        family = known.family
        try:
            address = known.getpeername()
        except OSError:
            return False
    with socket.socket(family, socket.SOCK_STREAM) as asking:
        asking.settimeout(PROBE_SECONDS)
        try:
            asking.connect(address)
            asking.sendall(_QUESTION)
            return bool(asking.recv(1))
        except OSError:
            return False
