"""``crb export site``: the pages of the store as a folder that works from any web server and from disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crb_cli.export_private import private_of
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.agent import AgentBuild

__all__ = ["export_site"]


def export_site(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write; a new or an empty one.")],
    as_json: JsonFlag = False,
) -> None:
    """Write leaderboards, comparisons, pull requests, trials, judges and their evidence as a static site.

    The same store gives the same bytes. `crb verify DIR` checks them.
    """
    # Read once, when numpy is imported: drawings take the other cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from crb_web.site.export import export_site as write

    settings = load_settings()
    private = private_of(settings, _builds(settings))
    if as_json or not console.is_terminal:
        exported = write(settings, private, folder)
    else:
        with console.status("Writing pages") as status:
            exported = write(
                settings, private, folder, lambda done, known: status.update(f"{done:,} of {known:,} known pages")
            )
    if as_json:
        print_json(
            {
                "format": "crb.export-site/1",
                "folder": str(folder),
                "content_sha256": exported.content_sha256,
                "files": exported.files,
                "bytes": exported.bytes,
                "pages": exported.pages,
                "evidence_missing": list(exported.missing),
                "evidence_withheld": list(exported.withheld),
            }
        )
        return
    console.print(
        plain(
            f"{folder}: {exported.pages:,} pages, {exported.files:,} files, {exported.bytes / 1e6:.1f} MB, "
            f"content {exported.content_sha256}"
        ),
        soft_wrap=True,
    )
    for digests, why in (
        (exported.missing, "are missing or damaged in the evidence store"),
        (exported.withheld, "name folders of this machine or hold a secret"),
    ):
        if digests:
            text = f"{len(digests)} blobs {why} and were left out; the pages say so"
            console.print(plain(text), style="yellow", soft_wrap=True)


def _builds(settings: Settings) -> list[AgentBuild]:
    from crb_core.store.audit import sweep_records
    from crb_core.store.sweeps import sweep_builds
    from crb_web.sources import Sources

    # Neither made nor upgraded: an export only reads.
    sources = Sources(settings)
    try:
        with sources.store().read() as connection:
            return [build for each in sweep_records(connection) for build in sweep_builds(connection, each["id"])]
    finally:
        sources.close()
