"""Which examples a judge was tuned on, so that nothing is measured on them unseen (seed A 5.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from crb_core.corpus import CorpusEntry
from crb_worker.calibration.references import pull_request_name
from crb_worker.judge.base import Judge
from crb_worker.judge.offline import OfflineJudge

__all__ = ["TuningRecord", "tuning_record"]


@dataclass(frozen=True, kw_only=True)
class TuningRecord:
    """Pull requests that a judge's tuning used. ``examples`` are the first 12 hex digits of the SHA-256 of their URLs;

    ``keys`` are named by the one who calibrates.
    """

    examples: frozenset[str]
    keys: frozenset[str] = frozenset()

    def names(self, entry: CorpusEntry) -> bool:
        """Whether the pull request motivated the judge's tuning."""
        if entry.pull_request.key in self.keys:
            return True
        digest = hashlib.sha256(pull_request_name(entry).encode("utf-8", "surrogatepass")).hexdigest()
        return digest[:12] in self.examples


def tuning_record(judge: Judge, keys: Collection[str] = ()) -> TuningRecord:
    """The record of a judge: the training set of its model; ``keys`` are further pull requests."""
    examples: frozenset[str] = frozenset()
    part = getattr(judge, "offline", judge)
    if isinstance(part, OfflineJudge):
        examples = frozenset(part.model.training.examples)
    return TuningRecord(examples=examples, keys=frozenset(keys))
