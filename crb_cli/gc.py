"""``crb gc``: makes room. Lists what would go, and removes it when told to."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import CrbError, UnavailableError, UsageError
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.store import Store
    from crb_worker.housekeeping import Found

__all__ = ["gc"]

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
#: Rows of the list on the terminal; --json has all.
_SHOWN = 40


class Kind(StrEnum):
    EVIDENCE = "evidence"
    SNAPSHOTS = "snapshots"
    IMAGES = "images"


def gc(
    kind: Annotated[
        list[Kind] | None, typer.Option(help="What to look at (repeatable); evidence and snapshots by default.")
    ] = None,
    older_than: Annotated[str, typer.Option(help="Unused for this long: 30m, 12h, 7d, 4w.")] = "7d",
    max_size: Annotated[
        str | None, typer.Option(help="Also the longest unused of each kind until it holds at most this: 500MB, 20GiB.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what is listed; without it nothing is.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List, and with --delete remove, what can be made again or nobody names.

    Evidence that no row of this store names, snapshots of pull requests without open steps, and, where asked for,
    images that crb built and no build of this store names. Nothing that was used within the last hour goes. What
    another store names is not known here: evidence belongs to one store, and images to it where the engine does.
    """
    from crb_core.evidence import YOUNG_SECONDS
    from crb_core.housekeeping import choose_removals
    from crb_core.store import open_store

    age = _seconds(older_than)
    if age < YOUNG_SECONDS:
        raise UsageError("--older-than is under an hour", remedy="What is younger may be in use; name at least 1h")
    most = None if max_size is None else _bytes(max_size)
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    look: dict[Kind, Callable[[Settings, Store], Found]] = {
        Kind.EVIDENCE: _evidence,
        Kind.SNAPSHOTS: _snapshots,
        Kind.IMAGES: _images,
    }
    kinds = []
    failed = False
    for wanted in kind or (Kind.EVIDENCE, Kind.SNAPSHOTS):
        record: dict[str, Any] = {"kind": wanted.value, "problem": None, "count": 0, "bytes": 0, "remove": []}
        kinds.append(record)
        try:
            found = look[wanted](settings, store)
        except UnavailableError as error:
            # A machine without an engine still has evidence and snapshots to look at.
            record["problem"] = f"{wanted.value} were not looked at: {error}"
            failed = True
            continue
        record["problem"] = found.problem
        failed = failed or found.problem is not None
        record["count"] = len(found.things)
        record["bytes"] = sum(thing.size for thing in found.things)
        for thing in choose_removals(
            found.things, now=time.time(), older_than=age, max_bytes=most, young=YOUNG_SECONDS
        ):
            kept = None
            if delete:
                try:
                    kept = found.remove(thing.name)
                except CrbError as error:
                    kept = str(error)
                failed = failed or kept is not None
            record["remove"].append(
                {
                    "name": thing.name,
                    "shown_as": thing.shown_as,
                    "bytes": thing.size,
                    "unused_seconds": round(time.time() - (thing.last_used or 0)),
                    "removed": delete and kept is None,
                    "kept_because": kept,
                }
            )
    store.close()
    if as_json:
        print_json({"format": "crb.gc/1", "deleted": delete, "kinds": kinds})
    else:
        _print(kinds, delete)
    if failed:
        raise typer.Exit(1)


def _evidence(settings: Settings, store: Store) -> Found:
    from crb_core.evidence import open_evidence
    from crb_worker.housekeeping import evidence_things

    return evidence_things(store, open_evidence(settings.resolved_evidence_url))


def _snapshots(settings: Settings, store: Store) -> Found:
    from crb_worker.housekeeping import snapshot_things
    from crb_worker.snapshot import SnapshotCache

    return snapshot_things(store, SnapshotCache(settings.snapshots_folder))


def _images(_: Settings, store: Store) -> Found:
    from crb_worker.housekeeping import image_things
    from crb_worker.sandbox.engine import Engine

    engine = Engine(1)
    try:
        return image_things(store, engine)
    except UnavailableError:
        engine.close()
        raise


def _print(kinds: list[dict[str, Any]], delete: bool) -> None:
    total = count = 0
    for record in kinds:
        if record["problem"]:
            console.print(plain(record["problem"]), soft_wrap=True)
            if not record["count"]:
                continue
        gone = [entry for entry in record["remove"] if entry["removed"] or not delete]
        total += sum(entry["bytes"] for entry in gone)
        count += len(gone)
        console.print(
            f"{record['kind']}: {record['count']} with {decimal(record['bytes'])}, "
            f"{len(gone)} with {decimal(sum(entry['bytes'] for entry in gone))} "
            f"{'removed' if delete else 'to remove'}"
        )
        table = Table(box=None, pad_edge=False, show_header=False)
        for justify in ("right", "right", "left"):
            table.add_column(justify=justify, overflow="fold")
        for entry in record["remove"][:_SHOWN]:
            note = f" (kept: {entry['kept_because']})" if entry["kept_because"] else ""
            table.add_row(
                f"  {decimal(entry['bytes'])}",
                _age(entry["unused_seconds"]),
                plain(f"{_short(entry['shown_as'])}{note}"),
            )
        if record["remove"]:
            console.print(table)
        if len(record["remove"]) > _SHOWN:
            console.print(f"  and {len(record['remove']) - _SHOWN} more; --json lists them all")
    if delete:
        console.print(f"Removed {count} things, {decimal(total)}.")
    elif count:
        console.print(f"Nothing was removed. `crb gc --delete` removes these {count} things, {decimal(total)}.")
    else:
        console.print("There is nothing to remove.")


def _short(name: str) -> str:
    return name if len(name) <= 50 else f"{name[:47]}..."


def _age(seconds: int) -> str:
    return f"{seconds // 86400} d" if seconds >= 86400 else f"{seconds // 3600} h"


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if match is None:
        raise UsageError(f"--older-than {text[:40]!r} is no duration", remedy="Write for example 12h, 7d or 4w")
    return int(match[1]) * _UNITS[match[2]]


def _bytes(text: str) -> int:
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = TypeAdapter(ByteSize).validate_python(text)
    except (ValidationError, OverflowError):
        size = None
    if size is None or size < 0:
        raise UsageError(f"--max-size {text[:40]!r} is no size", remedy="Write for example 500MB or 20GiB")
    return int(size)
