"""The engine's own formats: its times, and its stream of what a container printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

__all__ = ["engine_milliseconds", "engine_nanoseconds", "log_frames"]

_FRAME_HEADER = 8
_ENGINE_TIME = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$")


def log_frames(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Pairs of 1 for stdout or 2 for stderr, and bytes. A frame is one byte for the stream, three of padding, four of

    length, then the text.
    """
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        at = 0
        while len(buffer) - at >= _FRAME_HEADER:
            end = at + _FRAME_HEADER + int.from_bytes(buffer[at + 4 : at + 8], "big")
            if len(buffer) < end:
                break
            if buffer[at] in {1, 2}:
                yield buffer[at], bytes(buffer[at + _FRAME_HEADER : end])
            at = end
        del buffer[:at]


def engine_milliseconds(started: str | None, finished: str | None) -> float | None:
    """Between two of the engine's times (RFC 3339 with nanoseconds); None where one is its zero."""
    first, last = engine_nanoseconds(started), engine_nanoseconds(finished)
    if first is None or last is None or last < first:
        return None
    return (last - first) / 1_000_000


def engine_nanoseconds(text: str | None) -> int | None:
    """One of the engine's times in nanoseconds since the epoch; None where it is its zero or no time."""
    match = _ENGINE_TIME.match(text or "")
    if match is None or match[1].startswith("0001-"):
        return None
    whole = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    offset = timedelta()
    if match[3] != "Z":
        hours, minutes = match[3][1:].split(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if match[3][0] == "-" else 1)
    return int((whole - offset).timestamp()) * 1_000_000_000 + int((match[2] or "").ljust(9, "0"))
