"""CRB_HOME: made, checked, and held by the processes that use it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from crb_core.errors import InputError, SettingsError, StoreError
from crb_core.settings import Settings

__all__ = ["hold_home", "holder_of", "open_home", "require_a_place_to_run", "require_own_store"]


def open_home(settings: Settings) -> Path:
    """Make CRB_HOME and check that it can be written; StoreError otherwise."""
    home = settings.home_folder
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe = home / ".write-probe"
        try:
            probe.write_bytes(b"crb")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"CRB_HOME {home} cannot be written: {error.strerror}",
            remedy="Set CRB_HOME to a folder that can be written and has space",
        ) from None
    return home


def hold_home(home: Path, *, alone: bool) -> IO[str]:
    """Hold a home until the returned stream is closed or the process ends; InputError when that is not possible.

    A local run holds it ``alone``: it takes every running step for its own and gives back what it finds. The
    processes of a farm share it.
    """
    stream = (home / "farm.lock").open("a+")
    try:
        fcntl.flock(stream, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        stream.seek(0)
        holder = stream.read().strip()
        stream.close()
        raise InputError(
            f"Another crb run{f' (process {holder})' if holder else ''} is using {home}",
            remedy="Wait for it or end it, or set CRB_HOME to another folder",
        ) from None
    # Where several share it, the last one is named.
    stream.seek(0)
    stream.truncate()
    stream.write(str(os.getpid()))
    stream.flush()
    return stream


def holder_of(home: Path) -> str | None:
    """The process number of the local run that holds a home alone, or "" where it did not say; None where none does."""
    with (home / "farm.lock").open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            return stream.read().strip()
        return None


def require_own_store(settings: Settings) -> None:
    """SettingsError where a local run would take the steps of a store that a farm shares for its own."""
    if not settings.resolved_store_url.startswith("sqlite"):
        raise SettingsError(
            "A run on this machine alone needs a store of its own, and CRB_STORE_URL names a server's",
            remedy="Unset CRB_STORE_URL, or let that store's workers do it: `crb sweep start` with CRB_BROKER_URL set",
        )


def require_a_place_to_run(settings: Settings) -> None:
    """Check, before rows are written, that a sweep's steps can be worked on: by a farm's broker, or here."""
    if settings.broker_url is not None:
        from crb_worker.app import check_broker

        check_broker(settings.broker_url)
        return
    from crb_core.evidence import open_evidence

    require_own_store(settings)
    open_evidence(settings.resolved_evidence_url)
    hold_home(open_home(settings), alone=True).close()
