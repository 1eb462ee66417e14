"""Damage to a valid document: bytes, tokens and, where it is JSON, its parts. Everything is decided by one seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["mutated"]

#: Bytes that parsers trip over: syntax, encodings, numbers without end, controls, markup, paths.
TOKENS = (
    b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * 400, b"0x10", b"1_000", b"null", b"true", b'""', b"{}", b"[]",
    b"[" * 200, b'{"a":' * 200, b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x00",
    b"\x1b[31m", b"\\ud800", b"\\u0000", b"\r\n", b"\n", b"\t", b"\"", b"'", b"\\", b"#", b"=", b",", b";",
    b"../../etc/passwd", b"/", b"<script>", b"=cmd|' /C calc'!A0", "\u202e".encode(), "\u2028".encode(), "é".encode(),
    b"@@ -1,1 +1,999999999 @@",
    b"diff --git a/x b/x", b"--- a/x", b"+++ /dev/null", b"Binary files differ", b"\\ No newline at end of file",
)  # fmt: skip
#: Values that take the place of any part of a JSON document.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**300, 0.5, -0.0, 1e308, "", " ", "a\0b", "\ud800", "x" * 5000, "../x",
    "/etc/passwd", "1", "tp", [], [[]], {}, {"": {}}, "\u202eevil", "C:\\x", "a" * 40, "\n", "https://[", "//", ".",
    [None],
)  # fmt: skip


def mutated(seed: bytes, number: int) -> bytes:
    """``seed`` with one to six damages, the ``number``-th of endlessly many."""
    draw = random.Random(number)
    data = seed
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        data = draw.choice((_token, _token, _bytes, _cut, _twice, _part, _part, _part, _swap))(data, draw)
    return data


def _token(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    drop = draw.choice((0, 0, 1, 5))
    return data[:at] + draw.choice(TOKENS) + data[at + drop :]


def _bytes(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 2, 8))):
        if changed:
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _cut(data: bytes, draw: random.Random) -> bytes:
    first, last = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    return data[:first] + data[last:] if draw.random() < 0.7 else data[:first]


def _twice(data: bytes, draw: random.Random) -> bytes:
    first, last = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    return data[:last] + data[first:last] * draw.choice((1, 1, 2, 50)) + data[last:]


def _swap(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _part(data: bytes, draw: random.Random) -> bytes:
    """One part of a JSON document replaced, removed, renamed, doubled or moved; other documents get a token."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _token(data, draw)
    places = list(_places(document))
    if not places:
        return json.dumps(draw.choice(VALUES)).encode("utf-8", "surrogatepass")
    holder, key = draw.choice(places)
    change: Callable[[Any, Any, random.Random, Any], None] = draw.choice((_replace, _replace, _remove, _rename, _move))
    change(holder, key, draw, places)
    return json.dumps(document, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _replace(holder: Any, key: Any, draw: random.Random, _: Any) -> None:
    holder[key] = copy.deepcopy(draw.choice(VALUES))


def _remove(holder: Any, key: Any, _: random.Random, __: Any) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, draw: random.Random, _: Any) -> None:
    if isinstance(holder, dict):
        holder[draw.choice(("", "x", "__proto__", "a\0b", "FILE", f"{key} "))] = holder.pop(key)
    else:
        holder.insert(draw.randrange(len(holder) + 1), copy.deepcopy(holder[key]))


def _move(holder: Any, key: Any, draw: random.Random, places: list[tuple[Any, Any]]) -> None:
    other, at = draw.choice(places)
    holder[key] = copy.deepcopy(other[at]) if at in other or isinstance(other, list) else None
