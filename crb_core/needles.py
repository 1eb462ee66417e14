"""Finding many byte strings in a long text, in time that hardly depends on how many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

__all__ = ["Needles"]

#: Bytes of a sample.
_SAMPLE = 8
#: Shorter needles are searched for one by one.
_LONG = 16


class Needles:
    """A set of byte strings to look for.

    Of the text one piece of eight bytes in every few is looked up among the first pieces of the long needles; only
    needles that have one of those pieces are then searched for. Short needles always are.
    """

    def __init__(self, needles: Iterable[bytes]) -> None:
        whole = frozenset(needles)
        self._short = frozenset(needle for needle in whole if len(needle) < _LONG)
        long = whole - self._short
        #: Bytes from one sample to the next: every long needle covers at least one sample whole.
        self._step = min(map(len, long), default=_LONG) - _SAMPLE + 1
        self._with_piece: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for needle in long:
            for at in range(self._step):
                self._with_piece[needle[at : at + _SAMPLE]].add(needle)
        self._pieces = frozenset(self._with_piece)

    def find(self, text: bytes) -> list[tuple[int, int]]:
        """Where they are: (start, end). Places of one needle that overlap are one."""
        wanted = set(self._short)
        if self._pieces:
            starts = range(0, len(text), self._step)
            ends = range(_SAMPLE, len(text) + _SAMPLE, self._step)
            for piece in self._pieces.intersection(map(text.__getitem__, map(slice, starts, ends))):
                wanted |= self._with_piece[piece]
        return [place for needle in wanted for place in _places(text, needle)]


def _places(text: bytes, needle: bytes) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    start = end = -1
    at = text.find(needle)
    while at >= 0:
        if at > end:
            if end > 0:
                places.append((start, end))
            start = at
        end = at + len(needle)
        at = text.find(needle, at + 1)
    if end > 0:
        places.append((start, end))
    return places
