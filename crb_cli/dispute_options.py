"""What the commands about disputes share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from crb_core.formats.dispute_files import DisputeFolder
    from crb_core.settings import Settings

__all__ = ["FolderOption", "opened_folder", "text_of", "written"]

FolderOption = Annotated[Path | None, typer.Option("--folder", help="Folder of the disputes; by default in CRB_HOME.")]


def opened_folder(settings: Settings, folder: Path | None) -> DisputeFolder:
    """The folder of the disputes; InputError where what is named is no folder."""
    from crb_core.errors import InputError, Where
    from crb_core.formats.dispute_files import DisputeFolder

    path = folder or settings.disputes_folder
    if path.exists() and not path.is_dir():
        raise InputError("this is no folder", where=Where(file=str(path)), remedy="Name another --folder")
    return DisputeFolder(path)


def text_of(what: str, value: str, most: int) -> str:
    """A text that people give, without blanks around it; InputError for an empty or unusable one."""
    from crb_core.errors import UsageError
    from crb_core.store.operation_log import storable_text

    found = storable_text(what, value, most)
    if found is None:
        raise UsageError(f"The {what} is empty", remedy="Write it in a few words")
    return found


def written(out: Path, text: str) -> None:
    """Write a file that is not there yet; InputError otherwise."""
    from crb_cli.new_file import new_file

    with new_file(out) as stream:
        stream.write(text)
