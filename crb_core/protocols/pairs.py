"""What a matcher is shown in one request: a chunk of candidates against a chunk of golden findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["CHUNK", "PairGroup", "chunked", "product"]

#: Most candidates, and most golden findings, in one request (seed A 6.2.1).
CHUNK = 10


@dataclass(frozen=True, slots=True)
class PairGroup:
    """Every position in ``candidates`` is to be compared with every position in ``golden``.

    ``file`` is None where the protocol has no files.
    """

    file: str | None
    candidates: tuple[int, ...]
    golden: tuple[int, ...]


def chunked(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The positions in order, in runs of at most ``CHUNK``."""
    for start in range(0, len(positions), CHUNK):
        yield tuple(positions[start : start + CHUNK])


def product(file: str | None, candidates: Sequence[int], golden: Sequence[int]) -> Iterator[PairGroup]:
    """Every chunk of candidates with every chunk of golden findings; nothing where one side is empty."""
    for some_candidates in chunked(candidates):
        for some_golden in chunked(golden):
            yield PairGroup(file, some_candidates, some_golden)
