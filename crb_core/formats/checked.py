"""Reading outside data so that every problem is found, each with its place, before anything is refused."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from crb_core.errors import CrbError, InputError, Where
from crb_core.formats.strict_json import field_path, load_json, read_bytes

__all__ = ["Problems", "load_toml"]

Model = TypeVar("Model", bound=BaseModel)

_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


class Problems:
    """The problems met so far, in the order of reading."""

    def __init__(self) -> None:
        self.found: list[CrbError] = []

    def add(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        field: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Note one problem with its place and remedy."""
        where = Where(file=str(file) if file is not None else None, line=line, field=field)
        self.found.append(InputError(problem, where=where, remedy=remedy))

    def note(self, error: CrbError) -> None:
        """Note a problem that was raised as an error."""
        self.found.append(error)

    def raise_first(self) -> None:
        """Raise the first problem, saying how many more there are; nothing if there is none."""
        if not self.found:
            return
        first, more = self.found[0], len(self.found) - 1
        if not more:
            raise first
        count = "1 more problem was" if more == 1 else f"{more} more problems were"
        remedy = f"{first.remedy}. {count} found" if first.remedy else f"{count} found".capitalize()
        raise InputError(first.problem, where=first.where, remedy=remedy)

    def json(self, path: Path) -> Any:
        """The value of a JSON file, or None after noting why it cannot be read."""
        try:
            _refuse_devices(path)
            return load_json(path)
        except CrbError as error:
            self.note(error)
            return None

    def content(self, path: Path) -> bytes | None:
        """The bytes of a file, one more than is allowed at most, or None after noting why it cannot be read."""
        try:
            _refuse_devices(path)
            return read_bytes(path, str(path))
        except CrbError as error:
            self.note(error)
            return None

    def toml(self, path: Path) -> dict[str, Any] | None:
        """The table of a TOML file, or None after noting why it cannot be read."""
        try:
            return load_toml(path)
        except CrbError as error:
            self.note(error)
            return None

    def record(
        self, model: type[Model], data: Any, *, file: Path | str, field: str = "", flat: str = ""
    ) -> Model | None:
        """``data`` as a record, types taken strictly, or None after noting every field that is wrong.

        ``flat`` names a part of the record whose fields the file keeps one level higher.
        """
        try:
            return model.model_validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_context=False, include_input=False):
                parts = detail["loc"]
                place = field_path(parts[1:] if parts[:1] == (flat,) and parts[1:] else parts)
                self.add(_sentence(detail["type"], detail["msg"]), file=file, field=_join(field, place) or None)
        except (TypeError, ValueError) as error:
            self.add(f"the value has no place in this format: {error}", file=file, field=field or None)
        return None


def load_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file; InputError with file, line and column where it is not one."""
    name = str(path)
    _refuse_devices(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError("the file does not exist", where=Where(file=name), remedy="Check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"the file is not UTF-8 at byte {error.start}", where=Where(file=name), remedy="Save it as UTF-8"
        ) from None
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=Where(file=name)) from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("the file nests values too deeply", where=Where(file=name)) from None
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _TOML_PLACE.search(message)
        raise InputError(
            f"the file is not valid TOML: {_TOML_PLACE.sub('', message)}",
            where=Where(file=name, line=int(place[1]) if place else None, column=int(place[2]) if place else None),
            remedy="Correct the file at this place",
        ) from None


def _refuse_devices(path: Path) -> None:
    """Opening a pipe would wait for ever."""
    try:
        there = path.exists()
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=Where(file=str(path))) from None
    if there and not path.is_file():
        raise InputError("this is no regular file", where=Where(file=str(path)), remedy="Replace it by a file")


def _join(outer: str, inner: str) -> str:
    if not outer or not inner:
        return outer or inner
    return outer + inner if inner.startswith("[") else f"{outer}.{inner}"


def _sentence(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "this field is unknown"
    if kind == "missing":
        return "this field is missing"
    return message.removeprefix("Value error, ")
