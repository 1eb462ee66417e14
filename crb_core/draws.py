"""What resampling draws, from the raw stream of PCG64, which NumPy's policy fixes (its distributions are not fixed)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from crb_core.errors import InputError

__all__ = ["has_all_exchanges", "swaps", "weights"]

#: Numbers that are drawn at once; keeps memory near that of the result, however many pull requests there are.
_AT_ONCE = 4_000_000


def has_all_exchanges(n: int, resamples: int) -> bool:
    """Whether all 2^n exchanges of ``n`` pull requests are at most ``resamples``, so that ``swaps`` lists each once."""
    return 1 << min(n, 64) <= resamples


@lru_cache(maxsize=8)
def swaps(n: int, resamples: int, seed: int, first: int = 0) -> NDArray[np.uint16]:
    """Which of ``n`` pull requests each exchange takes: 0 or 1.

    Of random ones those from number ``first`` on: several parts of one stream are as good as a longer one.
    """
    if has_all_exchanges(n, resamples):
        everyone = np.arange(2**n, dtype=np.uint64)[:, None]
        return ((everyone >> np.arange(n, dtype=np.uint64)) & np.uint64(1)).astype(np.uint16)
    # A stream of its own, so that exchanges are independent of the resamples.
    stream = np.random.PCG64(seed + 1).advance(first * n)
    found = np.empty((resamples, n), dtype=np.uint16)
    for part in _parts(resamples, n):
        found[part] = (stream.random_raw(found[part].size) >> np.uint64(63)).reshape(-1, n)
    return found


@lru_cache(maxsize=8)
def weights(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each of ``n`` pull requests is drawn in each resample; every row sums to ``n``."""
    if n >= 2**16:
        raise InputError(f"intervals are made for fewer than {2**16} pull requests, not {n}")
    stream = np.random.PCG64(seed)
    found = np.empty((resamples, n), dtype=np.uint16)
    for part in _parts(resamples, n):
        rows, size = len(found[part]), found[part].size
        drawn = ((stream.random_raw(size) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)
        row = np.repeat(np.arange(rows, dtype=np.int64), n)
        found[part] = np.bincount(row * n + drawn.astype(np.int64), minlength=size).reshape(-1, n)
    return found


def _parts(rows: int, columns: int) -> Iterator[slice]:
    """Runs of rows of at most ``_AT_ONCE`` numbers, one row at least."""
    step = max(1, _AT_ONCE // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, start + step)
