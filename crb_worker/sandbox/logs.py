"""What an agent printed, kept to a size: the end is kept, the beginning is what is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["Tail", "log_options", "may_have_lost_lines"]

#: The json-file driver drops the older of two files once the newer one is full. Its JSON takes 80 bytes a line more
#: than the text, so a file has four times the cap; only a flood of very short lines leaves less than the cap.
_FILES = 2
_FILE_FACTOR = 4
#: Longest entry of the driver, in bytes; longer lines are split.
_ENTRY_BYTES = 16 * 1024
#: Bytes that the driver adds to an entry: keys, stream name and a time with nanoseconds.
_ENTRY_OVERHEAD = 80
_BLOCK = 64 * 1024
#: Characters that its JSON writes as six (control characters, ``<``, ``>``, ``&``) or two (quotes and backslash).
_ESCAPED = [chr(code) for code in range(0x20)] + ["<", ">", "&", '"', "\\", "\x7f", "\u2028", "\u2029", "\ufffd"]


class Tail:
    """The last ``cap`` bytes of a stream."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        #: Blocks of _BLOCK bytes or more: a stream of single bytes would cost forty times as much in pieces of its own.
        self._blocks: deque[bytearray] = deque([bytearray()])
        self._kept = 0
        #: Bytes that came in.
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._kept += len(chunk)
        if len(self._blocks[-1]) >= _BLOCK:
            self._blocks.append(bytearray())
        self._blocks[-1] += chunk
        while self._kept - len(self._blocks[0]) >= self._cap:
            self._kept -= len(self._blocks.popleft())

    def extend(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self.add(chunk)

    @property
    def truncated(self) -> bool:
        return self.total > self._cap

    def data(self) -> bytes:
        return b"".join(self._blocks)[-self._cap :]


def log_options(cap: int) -> dict[str, str]:
    """Options of the json-file driver that keep the last ``cap`` bytes of what is printed, in bounded space."""
    return {"max-size": str(_file_bytes(cap)), "max-file": str(_FILES)}


def _file_bytes(cap: int) -> int:
    return _FILE_FACTOR * cap + 1024 * 1024


def may_have_lost_lines(kept: Iterable[bytes], cap: int) -> bool:
    """Whether the driver may have dropped the beginning of what is ``kept`` (one item a stream).

    It drops a file only when the next one is full, so what is left then fills one file or more. The size on disk is
    estimated from above: text with very many escapes can be reported as cut although it is whole, never the reverse.
    """
    return sum(_bytes_on_disk(data) for data in kept) >= _file_bytes(cap)


def _bytes_on_disk(data: bytes) -> int:
    text = data.decode("utf-8", "replace")
    escapes = sum(text.count(character) for character in _ESCAPED)
    entries = data.count(b"\n") + len(data) // _ENTRY_BYTES + 1
    return len(data) + 5 * escapes + _ENTRY_OVERHEAD * entries
