"""Who asks: tokens in the Authorization header, and the sessions of browsers that signed in with one.

Sessions are random ids in this process's memory, so a restart signs everybody out. A session is as good as its token:
each request looks at the store, so that a token that was revoked or has expired ends its sessions at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from crb_core.clock import utc_now
from crb_core.store import Store
from crb_core.store.access_tokens import Role, find_token, token_named
from crb_web.errors import RefusedError
from crb_web.limits import Buckets

__all__ = ["SESSION_SECONDS", "Access", "AccessRules", "Caller"]

#: A session ends after this, however busy it is.
SESSION_SECONDS = 12 * 3600.0
#: Sessions at once; beyond that the oldest is signed out.
MAX_SESSIONS = 1000
#: Wrong tokens that an address may send at once, and a second later on.
TRIES = 10
TRIES_PER_SECOND = 0.1


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """What a server asks of its clients. By default it only reads, for everybody who reaches it."""

    #: Whether operators may change sweeps and trials.
    operate: bool = False
    #: Whether reading needs a token too.
    read_with_token: bool = False
    #: Whether browsers reach it over TLS only; their cookies are then sent over nothing else.
    is_tls: bool = False

    @property
    def has_tokens(self) -> bool:
        return self.operate or self.read_with_token


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody with a valid token. ``csrf`` is the secret of the forms of a session; None for a program."""

    name: str
    role: Role
    csrf: str | None = None

    @property
    def may_operate(self) -> bool:
        return self.role is Role.OPERATOR


@dataclass(frozen=True, kw_only=True)
class _Session:
    name: str
    csrf: str
    ends: float


class Access:
    """Recognises callers. ``store`` opens the store; ``clock`` counts seconds, ``now`` gives stored times."""

    def __init__(
        self,
        rules: AccessRules,
        store: Callable[[], Store],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self.rules = rules
        self._store = store
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        #: By the SHA-256 of a session's id: finding one by its id takes no time that tells of the id.
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._tries = Buckets(TRIES_PER_SECOND, TRIES, clock)

    @property
    def cookie_name(self) -> str:
        """With TLS a name that browsers take from this host alone."""
        return "__Host-crb-session" if self.rules.is_tls else "crb-session"

    def of_bearer(self, secret: str, client: str) -> Caller:
        """Who sends that token. RefusedError where it is not valid, and where ``client`` sent too many of those."""
        with self._lock:
            wait = self._tries.wait(client)
        if wait:
            raise RefusedError(429, "Too many wrong tokens came from your address", remedy="Try again later", wait=wait)
        with self._store().read() as connection:
            token = find_token(connection, secret, self._now())
        if token is None:
            with self._lock:
                self._tries.take(client)
            raise RefusedError(
                401, "The token is not valid", remedy="`crb token list` shows which are; `crb token create` makes one"
            )
        return Caller(name=token.name, role=token.role)

    def of_session(self, session_id: str) -> Caller | None:
        """Who signed in with that session, as long as it and its token hold."""
        key = _key(session_id)
        with self._lock:
            session = self._sessions.get(key)
        if session is None:
            return None
        with self._store().read() as connection:
            token = token_named(connection, session.name)
        if session.ends <= self._clock() or token is None or token.state(self._now()) != "valid":
            with self._lock:
                self._sessions.pop(key, None)
            return None
        return Caller(name=token.name, role=token.role, csrf=session.csrf)

    def sign_in(self, secret: str, client: str) -> str:
        """A new session's id for a token's secret. RefusedError as of ``of_bearer``."""
        caller = self.of_bearer(secret.strip(), client)
        session_id = secrets.token_urlsafe(32)
        session = _Session(name=caller.name, csrf=secrets.token_urlsafe(32), ends=self._clock() + SESSION_SECONDS)
        with self._lock:
            self._sessions[_key(session_id)] = session
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session_id

    def sign_out(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(_key(session_id), None)

    @staticmethod
    def is_csrf(caller: Caller, sent: str) -> bool:
        """Whether a form carries the secret of the caller's own session; compared in constant time."""
        expected = (caller.csrf or "").encode()
        return bool(expected) and hmac.compare_digest(expected, sent.encode("utf-8", "surrogatepass"))


def _key(session_id: str) -> str:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
