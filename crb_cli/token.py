"""``crb token``: who may read a served store from elsewhere, and who may change what runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.clock import utc_now
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crb_core.store import Store

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the access tokens of crb serve.")

TokenName = Annotated[str, typer.Argument(help="Name of the token: it stands in the log of operations.")]


@app.command()
def create(
    name: TokenName,
    role: Annotated[str, typer.Option(help="reader reads; operator also changes sweeps and trials.")],
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 30d, 12h or 90m; without it, never.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a token and show it, this once: the store keeps only its SHA-256."""
    from crb_core.store.access_tokens import create_token, expiry_after

    expires_at = None if expires is None else expiry_after(expires)
    with _opened() as store, store.write() as connection:
        token, secret = create_token(connection, name, role, expires_at=expires_at)
    if as_json:
        print_json(token.to_json(utc_now()) | {"token": secret})
        return
    # On a line of its own, so that it can be copied or piped.
    print(secret)
    until = "" if token.expires_at is None else f" until {_minute(token.expires_at)} UTC"
    console.print(f"This is the token of {token.name} ({token.role}{until}). It is not shown again.", soft_wrap=True)


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """List all tokens, also those that have ended, without their secrets."""
    from crb_core.store.access_tokens import list_tokens

    with _opened() as store, store.read() as connection:
        found = list_tokens(connection)
    now = utc_now()
    if as_json:
        print_json({"tokens": [token.to_json(now) for token in found]})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("token", "role", "state", "created (UTC)", "expires (UTC)"):
        table.add_column(title, overflow="fold")
    for token in found:
        expires = "never" if token.expires_at is None else _minute(token.expires_at)
        table.add_row(plain(token.name), token.role, token.state(now), _minute(token.created_at), expires)
    console.print(table)
    console.print("1 token" if len(found) == 1 else f"{len(found)} tokens")


@app.command()
def revoke(name: TokenName, as_json: JsonFlag = False) -> None:
    """End a token at once, with every session that was begun with it."""
    from crb_core.store.access_tokens import revoke_token

    with _opened() as store, store.write() as connection:
        token, is_new = revoke_token(connection, name)
    if as_json:
        print_json(token.to_json(utc_now()))
        return
    when = "is revoked" if is_new else f"was revoked already, at {_minute(str(token.revoked_at))} UTC"
    console.print(plain(f"The token {token.name} {when}."), soft_wrap=True)


@contextmanager
def _opened() -> Iterator[Store]:
    from crb_core.store import open_store

    store = open_store(load_settings().resolved_store_url)
    try:
        yield store
    finally:
        store.close()


def _minute(stored: str) -> str:
    return stored[:16].replace("T", " ")
