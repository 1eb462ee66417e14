"""``crb verify``: check an archive and make its numbers again, or check a site; needs no store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import InputError, Where

__all__ = ["verify"]

_SHOWN = 50


def verify(
    archive: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE|DIR", help="An archive of `crb export sweep`, or a folder of `crb export site`."
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Check the SHA-256 of every file; of an archive make every number again too. Name each difference.

    Exits with 1 where anything differs.
    """
    if not archive.exists():
        raise InputError("there is no such file or folder", where=Where(file=str(archive)), remedy="Check the path")
    if archive.is_dir():
        _verify_site(archive, as_json)
        return
    from crb_core.formats.archive_verify import verify_archive

    if as_json or not console.is_terminal:
        result = verify_archive(archive)
    else:
        with console.status("Verifying"):
            result = verify_archive(archive)
    if as_json:
        print_json(result.to_json())
    else:
        for difference in result.differences[:_SHOWN]:
            console.print(plain(str(difference)), soft_wrap=True)
        more = len(result.differences) + result.unlisted - _SHOWN
        if more > 0:
            console.print(f"... and {more} more; --json lists them", style="dim")
        for note in dict.fromkeys(result.notes):
            console.print(plain(f"note: {note}"), style="dim", soft_wrap=True)
        if result.ok:
            console.print(
                plain(
                    f"{archive} is sound: {result.files} files, {result.trials} trials, {result.findings} findings, "
                    f"{result.judgments} judgments, {result.numbers} values made again, content {result.content_sha256}"
                ),
                soft_wrap=True,
            )
        else:
            count = len(result.differences) + result.unlisted
            console.print(f"{count} difference{'s' if count != 1 else ''}", style="red")
    if not result.ok:
        raise typer.Exit(1)


def _verify_site(folder: Path, as_json: bool) -> None:
    from crb_web.site.manifest import verify_site

    result = verify_site(folder)
    if as_json:
        print_json(result.to_json())
    else:
        for difference in result.differences[:_SHOWN]:
            console.print(plain(str(difference)), soft_wrap=True)
        if len(result.differences) > _SHOWN:
            console.print(f"... and {len(result.differences) - _SHOWN} more; --json lists them", style="dim")
        if result.ok:
            text = (
                f"{folder} is sound: {result.files} files, {result.bytes / 1e6:.1f} MB, content {result.content_sha256}"
            )
            console.print(plain(text), soft_wrap=True)
        else:
            count = len(result.differences)
            console.print(f"{count} difference{'s' if count != 1 else ''}", style="red")
    if not result.ok:
        raise typer.Exit(1)
