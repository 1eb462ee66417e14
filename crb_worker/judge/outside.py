"""Judging outside of a farm's steps: many pull requests, several at once, waiting where a farm would defer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from crb_core.corpus import CorpusEntry
from crb_worker.judge.base import Judge, JudgeWork, LaterError, StepBound, bound

__all__ = ["Lend", "judged_each"]

#: Makes what a judge with calls or a snapshot needs for one pull request.
Lend = Callable[[CorpusEntry], JudgeWork]
R = TypeVar("R")


def judged_each(
    judge: Judge,
    work: Sequence[tuple[Callable[[], JudgeWork], Callable[[Judge], R]]],
    *,
    slots: int = 1,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[R]:
    """Every task's result, in order; each stands beside what makes the work that a judge with calls needs for it.

    Such a judge works on ``slots`` tasks at once. The first error ends all.
    """

    def one(item: tuple[Callable[[], JudgeWork], Callable[[Judge], R]]) -> R:
        lend, task = item
        return _patiently(lambda: task(bound(judge, lend)))

    done: list[R] = []
    with ThreadPoolExecutor(max_workers=slots if isinstance(judge, StepBound) else 1) as pool:
        futures = [pool.submit(one, item) for item in work]
        try:
            for future in futures:
                done.append(future.result())
                progress(len(done), len(work))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return done


def _patiently(task: Callable[[], R]) -> R:
    """Do a task again where its judge asks to wait, as a farm would defer its step."""
    while True:
        try:
            return task()
        except LaterError as error:
            time.sleep(error.seconds)
