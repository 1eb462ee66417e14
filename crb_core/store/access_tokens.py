"""Tokens with which people and programs reach a server: made, listed, revoked, recognised.

A token is 256 random bits and is shown once; the store keeps its SHA-256. A name is never given twice, so that the log
of operations stays true.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert, select, update

from crb_core.clock import utc_now
from crb_core.errors import InputError, UsageError
from crb_core.store.operation_log import record_operation
from crb_core.store.operations import COMMAND_LINE, FARM
from crb_core.store.tables import AccessTokenRow, core
from crb_core.store.texts import by_characters

__all__ = [
    "AccessToken",
    "Role",
    "create_token",
    "expiry_after",
    "find_token",
    "list_tokens",
    "revoke_token",
    "token_named",
]

tokens = core(AccessTokenRow)

PREFIX = "crb_"
#: Longer texts are no token and are not even hashed.
MAX_TOKEN = 200
#: Letters that look the same everywhere, so that one token cannot be named like another.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
MAX_DAYS = 3650
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Role(StrEnum):
    """What a token allows."""

    READER = "reader"
    #: Reads, and changes sweeps and trials.
    OPERATOR = "operator"


@dataclass(frozen=True, kw_only=True)
class AccessToken:
    """A token without its secret. Times are UTC; None: never."""

    name: str
    role: Role
    created_at: str
    expires_at: str | None
    revoked_at: str | None

    def state(self, now: str) -> str:
        """``valid``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"

    def to_json(self, now: str) -> dict[str, Any]:
        return asdict(self) | {"state": self.state(now)}


def create_token(
    connection: Connection, name: str, role: str, *, expires_at: str | None = None, actor: str = COMMAND_LINE
) -> tuple[AccessToken, str]:
    """A new token and its secret, which nobody can read again. InputError for a name that is odd or not new."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"The name {name!r} is none for a token",
            remedy="Begin with a letter or digit; letters, digits and . _ @ - may follow, 64 in all",
        )
    if name.lower() in {COMMAND_LINE, FARM}:
        raise InputError(f"The name {name} stands for somebody else in the log of operations", remedy="Choose another")
    if role not in list(Role):
        raise UsageError(f"There is no role {role!r}", remedy=f"The roles are {' and '.join(Role)}")
    if name.lower() in {each.lower() for each in connection.execute(select(tokens.c.name)).scalars()}:
        raise InputError(
            f"There is, or was, a token named {name}",
            remedy="Choose another name: the log of operations names tokens, so none is given twice",
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    created = utc_now()
    connection.execute(
        insert(tokens).values(
            name=name, role=role, sha256=_digest(secret), created_at=created, expires_at=expires_at, revoked_at=None
        )
    )
    after = {"token": name, "role": role, "expires_at": expires_at}
    record_operation(connection, "create token", actor, None, after=after)
    made = AccessToken(name=name, role=Role(role), created_at=created, expires_at=expires_at, revoked_at=None)
    return made, secret


def list_tokens(connection: Connection) -> list[AccessToken]:
    """All tokens that were ever made, by name."""
    return [_of(row) for row in connection.execute(select(tokens).order_by(by_characters(tokens.c.name)))]


def revoke_token(connection: Connection, name: str, *, actor: str = COMMAND_LINE) -> tuple[AccessToken, bool]:
    """End a token, and whether it was not ended before. InputError where there is none of that name."""
    found = token_named(connection, name)
    if found is None:
        raise InputError(f"There is no token named {name!r}", remedy="`crb token list` shows them")
    if found.revoked_at is not None:
        return found, False
    at = utc_now()
    connection.execute(update(tokens).where(tokens.c.name == name).values(revoked_at=at))
    record_operation(
        connection, "revoke token", actor, None, before={"token": name}, after={"token": name, "revoked_at": at}
    )
    return AccessToken(**asdict(found) | {"revoked_at": at}), True


def find_token(connection: Connection, secret: str, now: str) -> AccessToken | None:
    """The valid token with that secret. Every stored digest is compared, each in constant time."""
    digest = _digest(secret) if len(secret) <= MAX_TOKEN else ""
    found = None
    for row in connection.execute(select(tokens)).all():
        if hmac.compare_digest(row.sha256, digest):
            found = _of(row)
    return found if found is not None and found.state(now) == "valid" else None


def token_named(connection: Connection, name: str) -> AccessToken | None:
    """The token of a name, valid or not."""
    row = connection.execute(select(tokens).where(tokens.c.name == name)).one_or_none()
    return None if row is None else _of(row)


def expiry_after(duration: str, now: datetime | None = None) -> str:
    """The moment ``30d``, ``12h`` or ``90m`` from now (default: this machine's clock), as times are stored."""
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", duration.strip())
    length = timedelta() if found is None else timedelta(**{_UNITS[found[2]]: int(found[1])})
    if not timedelta() < length <= timedelta(days=MAX_DAYS):
        raise UsageError(
            f"The duration {duration!r} is none that a token can have",
            remedy=f"Give minutes, hours or days, such as 90m, 12h or 30d, and at most {MAX_DAYS}d",
        )
    end = (now or datetime.now(UTC)) + length
    return end.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _of(row: Any) -> AccessToken:
    return AccessToken(
        name=row.name,
        role=Role(row.role),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
