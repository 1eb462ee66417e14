"""Access tokens: what is stored of them, which are valid, and that no name is given twice."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from crb_core.clock import utc_now
from crb_core.errors import InputError
from crb_core.store.access_tokens import (
    Role,
    create_token,
    expiry_after,
    find_token,
    list_tokens,
    revoke_token,
    token_named,
)
from crb_core.store.operations import list_operations
from crb_core.store.tables import AccessTokenRow, core

LATER = "2999-01-01T00:00:00.000Z"


def made(store, name="bo", role="operator", expires_at=None):
    with store.write() as connection:
        return create_token(connection, name, role, expires_at=expires_at)


def found(store, secret, now=None):
    with store.read() as connection:
        return find_token(connection, secret, now or utc_now())


def test_the_store_keeps_the_digest_and_nothing_of_the_token(store):
    """It is shown once; the row and the log have the name, role and dates."""
    token, secret = made(store)
    assert (token.name, token.role, token.expires_at) == ("bo", Role.OPERATOR, None)
    assert len(secret) >= 43
    with store.read() as connection:
        row = connection.execute(select(core(AccessTokenRow))).one()
        logged = list_operations(connection)
    assert row.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert all(secret not in str(each) for each in (*row, *logged))
    assert [(each.action, each.after["token"]) for each in logged] == [("create token", "bo")]


def test_only_the_whole_token_is_recognised(store):
    """Not a part, another case, its digest, nothing, or a text of any length."""
    token, secret = made(store)
    assert found(store, secret) == token
    digest = hashlib.sha256(secret.encode()).hexdigest()
    for other in ("", secret[:-1], secret + "a", secret.upper(), digest, "x" * 100_000, "\ud800", "ü" * 43):
        assert found(store, other) is None


def test_a_token_ends_when_it_expires_or_is_revoked(store):
    """At the stored moment itself it is over; revoking twice says so and changes nothing."""
    _, secret = made(store, expires_at="2030-01-01T00:00:00.000Z")
    assert found(store, secret, "2029-12-31T23:59:59.999Z") is not None
    assert found(store, secret, "2030-01-01T00:00:00.000Z") is None
    _, other = made(store, "bea")
    with store.write() as connection:
        revoked, is_new = revoke_token(connection, "bea")
    assert is_new
    assert found(store, other) is None
    with store.write() as connection:
        assert revoke_token(connection, "bea") == (revoked, False)
    with store.read() as connection:
        assert [each.state(LATER) for each in list_tokens(connection)] == ["revoked", "expired"]
        assert token_named(connection, "nobody") is None


def test_no_name_is_given_twice_nor_one_that_stands_for_somebody_else(store):
    """Not even after it was revoked, nor in other letters."""
    made(store)
    with store.write() as connection:
        revoke_token(connection, "bo")
    for name in ("bo", "Bo", "command line", "farm", "FARM", "", "a b", "-x", "x" * 65, "bo\n", "b\u043e", "<b>", "\0"):
        with pytest.raises(InputError):
            made(store, name)
    with pytest.raises(InputError, match="reader and operator"):
        made(store, "x", role="admin")
    with store.write() as connection, pytest.raises(InputError, match="no token named"):
        revoke_token(connection, "nobody")


def test_durations_of_tokens():
    """Minutes, hours and days; anything else is a sentence."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert expiry_after("30d", now) == "2026-01-31T00:00:00.000Z"
    assert expiry_after("12h", now) == "2026-01-01T12:00:00.000Z"
    assert expiry_after("90m", now) == "2026-01-01T01:30:00.000Z"
    for text in ("", "0d", "-1d", "1.5d", "30", "d", "3651d", "9999999d", "1w", "٣d"):
        with pytest.raises(InputError):
            expiry_after(text, now)
