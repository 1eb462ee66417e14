"""``crb backup`` and ``crb restore``: the whole store with its evidence, in one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from crb_cli.home import hold_home, open_home
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.store.backup import Backup

__all__ = ["backup", "restore"]


def backup(
    file: Annotated[Path, typer.Argument(help="File to write, for example crb-2026-01-05.tar; it must not exist.")],
    as_json: JsonFlag = False,
) -> None:
    """Write the store and its evidence to one file, while the farm works. Snapshots and images are not in it."""
    from crb_core.evidence import open_evidence
    from crb_core.store import open_store
    from crb_core.store.backup import write_backup

    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    made = write_backup(store, open_evidence(settings.resolved_evidence_url), file)
    store.close()
    _report("Backed up", file, made, as_json)
    if made.missing_blobs or made.damaged_blobs:
        raise typer.Exit(1)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `crb backup` wrote.")], as_json: JsonFlag = False
) -> None:
    """Restore a backup into an empty CRB_HOME (or CRB_STORE_URL), after every byte of it was checked."""
    from crb_core.evidence import open_evidence
    from crb_core.store import open_store
    from crb_core.store.backup import restore_backup

    settings = load_settings()
    with hold_home(open_home(settings), alone=True):
        # Who kills it finds on the screen what is left of it.
        print(f"Restoring {plain(str(file)).plain}; until it is done the store stays empty.", file=sys.stderr)
        store = open_store(settings.resolved_store_url, migrate=False)
        made = restore_backup(file, store, open_evidence(settings.resolved_evidence_url))
        store.close()
    _report("Restored", file, made, as_json)


def _report(done: str, file: Path, made: Backup, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "format": "crb.backup_report/1",
                "file": str(file),
                "schema": made.revision,
                "content_sha256": made.content_sha256,
                "rows": made.rows,
                "blobs": made.blobs,
                "bytes": made.bytes,
                "missing_blobs": list(made.missing_blobs),
                "damaged_blobs": list(made.damaged_blobs),
            }
        )
        return
    console.print(
        plain(
            f"{done} {sum(made.rows.values())} rows of {len(made.rows)} tables and {made.blobs} blobs "
            f"({decimal(made.bytes)}): {file}"
        ),
        soft_wrap=True,
    )
    console.print(f"content {made.content_sha256}")
    for digests, what in (
        (made.missing_blobs, "missing"),
        (made.damaged_blobs, "damaged, since they do not have their SHA-256 any more"),
    ):
        if digests:
            console.print(
                f"Without {len(digests)} of the blobs that rows name: {what}. The first is {digests[0]}.",
                soft_wrap=True,
            )
