"""The arrays of a sweep that runs: each new trial is added to what is there, instead of adding all of them again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from crb_core.scoring_arrays import ArraysBuilder, ScoringArrays
from crb_core.store.judged_trials import JudgedTrial

__all__ = ["GrowingArrays", "LeaveOut", "TrialPlace"]

#: Build id, round, key of the pull request.
TrialPlace: TypeAlias = tuple[str, int, str]
LeaveOut: TypeAlias = Callable[[str], bool] | None


class GrowingArrays:
    """Shared by all loadings of a sweep; ``begin`` gives a builder that knows its pull requests and no trial.

    ``begin`` takes which producers' golden findings are left out.
    """

    def __init__(self, begin: Callable[[LeaveOut], ArraysBuilder], leave_out: LeaveOut = None) -> None:
        self._begin = begin
        self._leave_out = leave_out
        self._lock = threading.Lock()
        self._builder: ArraysBuilder | None = None
        self._added: set[TrialPlace] = set()

    def anew(self, leave_out: LeaveOut) -> GrowingArrays:
        """Of the same pull requests, without any trial yet."""
        return GrowingArrays(self._begin, leave_out)

    def arrays(self, judged: Mapping[TrialPlace, JudgedTrial]) -> ScoringArrays | None:
        """The arrays of exactly these trials; None where a later loading has added more already.

        InputError for a contradictory judgment.
        """
        with self._lock:
            if self._builder is None:
                self._builder, self._added = self._begin(self._leave_out), set()
            if not self._added <= judged.keys():
                return None
            builder, self._builder = self._builder, None
            for place, each in judged.items():
                if place not in self._added:
                    build, number, key = place
                    builder.add_trial((build, number), key, each.candidates, each.matches, each.labels)
                    self._added.add(place)
            # Only now: where a trial could not be added, the next one begins from nothing.
            self._builder = builder
            return builder.build()
