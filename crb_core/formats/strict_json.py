"""JSON from outside, read strictly: what Python's parser lets pass is refused here, with its place.

Refused: invalid UTF-8, a byte-order mark, NaN and Infinity, numbers too large for a double, two equal keys in one
object, lone surrogates, nesting deeper than a limit, files larger than a limit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from crb_core.errors import InputError, Where

__all__ = ["MAX_BYTES", "MAX_DEPTH", "field_path", "load_json", "read_bytes"]

#: Largest file that is read, in bytes.
MAX_BYTES = 256 * 1024 * 1024
#: Deepest nesting of arrays and objects; a bare number has depth 0, ``[]`` has depth 1.
MAX_DEPTH = 64

# A double ends near 1.8e308, so no longer run of digits can be a usable integer.
_MAX_INTEGER_CHARACTERS = 309
_MAX_PATH = 240
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]++|\\.)*+(?:"|\Z))"""
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<colon>:)|(?P<comma>,)"""
    r"""|(?P<constant>-?Infinity|NaN)|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)""",
    re.DOTALL,
)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_PLAIN_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{0,99}$")


class _RefusedError(Exception):
    """The fast pass met something that is not allowed; the slow pass finds out what and where."""


def field_path(parts: Sequence[str | int]) -> str:
    """``("findings", 3, "a b")`` as ``findings[3]["a b"]``: safe to print whatever the keys hold."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            path += f".{part}" if path else part
        else:
            path += f"[{json.dumps(part if len(part) <= 100 else part[:100] + '...')}]"
    return path if len(path) <= _MAX_PATH else f"{path[: _MAX_PATH // 2]} ... {path[-_MAX_PATH // 2 :]}"


def load_json(
    source: Path | bytes, name: str | None = None, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> Any:
    """The value of a JSON text.

    ``source`` is a file or the bytes themselves; ``name`` is what errors call it (by default the file's path).
    ``max_bytes`` is the largest size in bytes, ``max_depth`` the deepest nesting of arrays and objects.
    Raises InputError with file, line and column (from 1) and, where it is known, the field path.
    """
    if isinstance(source, Path):
        name = name or str(source)
        data = read_bytes(source, name, max_bytes)
    else:
        name = name or "JSON text"
        data = source
    if len(data) > max_bytes:
        raise InputError(
            f"the file is larger than {max_bytes} bytes", where=Where(file=name), remedy="Split it or remove data"
        )
    text = _decode(data, name)
    if not text.strip(" \t\r\n"):
        raise InputError("the file is empty", where=Where(file=name), remedy="Write one JSON value into it")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        _Locator(text, name, max_depth).check(end=error.pos)
        raise _syntax_error(text, name, error.pos, error.msg) from None
    except (_RefusedError, RecursionError):
        _Locator(text, name, max_depth).check(end=len(text))
        raise InputError("the JSON text cannot be read", where=Where(file=name)) from None
    if _SURROGATE_ESCAPE.search(text) or _is_deeper(value, max_depth):
        _Locator(text, name, max_depth).check(end=len(text))
    return value


def read_bytes(path: Path, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The file's bytes, one more than ``max_bytes`` at most; InputError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except FileNotFoundError:
        raise InputError("the file does not exist", where=Where(file=name), remedy="Check the path") from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a file", where=Where(file=name), remedy="Name a JSON file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the file cannot be read: {reason}", where=Where(file=name)) from None


def _decode(data: bytes, name: str) -> str:
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            "the file starts with a byte-order mark",
            where=Where(file=name, line=1, column=1),
            remedy="Save it as UTF-8 without one",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _line_and_column(data[: error.start].decode("utf-8"), None)
        raise InputError(
            f"the file is not UTF-8: byte 0x{data[error.start]:02x} cannot be read",
            where=Where(file=name, line=line, column=column),
            remedy="Save it as UTF-8",
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _RefusedError
    return result


def _constant(_text: str) -> NoReturn:
    raise _RefusedError


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError
    return value


def _integer(text: str) -> int:
    if len(text) > _MAX_INTEGER_CHARACTERS:
        raise _RefusedError
    return int(text)


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _line_and_column(text: str, position: int | None) -> tuple[int, int]:
    end = len(text) if position is None else position
    return text.count("\n", 0, end) + 1, end - (text.rfind("\n", 0, end) + 1) + 1


def _syntax_error(text: str, name: str, position: int, message: str) -> InputError:
    line, column = _line_and_column(text, position)
    found = "the end of the file" if position >= len(text) else f"{text[position]!r}"
    return InputError(
        f"the file is not valid JSON: {message[:1].lower()}{message[1:].removesuffix(' at')}, found {found}",
        where=Where(file=name, line=line, column=column),
        remedy="Correct the file at this place",
    )


class _Frame:
    """One open array or object."""

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        self.keys: set[str] = set()
        self.at: str | int | None = None if is_object else 0
        self.expects_key = is_object


class _Locator:
    """The slow pass: walks the tokens of a text that is well formed up to ``end`` and raises at the first refusal."""

    def __init__(self, text: str, name: str, max_depth: int) -> None:
        self._text = text
        self._name = name
        self._max_depth = max_depth
        self._stack: list[_Frame] = []

    def check(self, *, end: int) -> None:
        for token in _TOKEN.finditer(self._text):
            if token.start() >= end or (token.lastgroup == "string" and token.end() > end):
                return
            self._take(token)

    def _take(self, token: re.Match[str]) -> None:
        top = self._stack[-1] if self._stack else None
        match token.lastgroup:
            case "open":
                self._stack.append(_Frame(is_object=token[0] == "{"))
                if len(self._stack) > self._max_depth:
                    self._stack.pop()
                    self._refuse(
                        token,
                        f"arrays and objects are nested deeper than {self._max_depth} levels",
                        "Flatten the data",
                    )
            case "close" if self._stack:
                self._stack.pop()
            case "comma" if top is not None:
                top.expects_key = top.is_object
                if isinstance(top.at, int):
                    top.at += 1
            case "string":
                self._take_string(token, top)
            case "constant":
                self._refuse(token, f"{token[0]} is not a JSON number", "Write null where a value is missing")
            case "number":
                self._take_number(token)
            case _:
                pass

    def _take_string(self, token: re.Match[str], top: _Frame | None) -> None:
        value = json.loads(token[0])
        is_key = top is not None and top.expects_key
        if any("\ud800" <= character <= "\udfff" for character in value):
            self._refuse(token, "a \\u escape is half of a surrogate pair", "Write the whole character")
        if top is not None and is_key:
            top.expects_key = False
            top.at = value
            if value in top.keys:
                self._refuse(token, "the same key appears twice in one object", "Keep one of them")
            top.keys.add(value)

    def _take_number(self, token: re.Match[str]) -> None:
        too_large = len(token[0]) > _MAX_INTEGER_CHARACTERS if token[0].lstrip("-").isdigit() else False
        if not too_large and not token[0].lstrip("-").isdigit():
            too_large = math.isinf(float(token[0]))
        if too_large:
            self._refuse(token, "the number is too large", "Write null where a value is missing")

    def _refuse(self, token: re.Match[str], problem: str, remedy: str) -> NoReturn:
        line, column = _line_and_column(self._text, token.start())
        path = field_path([frame.at for frame in self._stack if frame.at is not None])
        raise InputError(
            problem, where=Where(file=self._name, line=line, column=column, field=path or None), remedy=remedy
        )
