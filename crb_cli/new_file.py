"""A file that a command writes for people to work on: never over one that is there, never half of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from crb_core.errors import InputError, Where

__all__ = ["new_file"]


@contextmanager
def new_file(out: Path, *, newline: str | None = None) -> Iterator[TextIO]:
    """Open a new file for writing as UTF-8. InputError where it is there already or cannot be written.

    It is removed again where writing it fails, so that the same command can be given again.
    """
    where = Where(file=str(out))
    try:
        with out.open("x", encoding="utf-8", newline=newline) as stream:
            try:
                yield stream
                stream.flush()
            except BaseException:
                out.unlink(missing_ok=True)
                raise
    except FileExistsError:
        raise InputError("the file is already there", where=where, remedy="Name another --out") from None
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", where=where) from None
