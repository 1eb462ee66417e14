"""Which examples a judge was tuned on, so that nothing is measured on them unseen (seed A 5.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

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
    """The record of a judge: the training sets of its model and its parts; ``keys`` are further pull requests."""
    examples: set[str] = set()
    for part in _parts(judge):
        if isinstance(part, OfflineJudge):
            examples.update(part.model.training.examples)
    return TuningRecord(examples=frozenset(examples), keys=frozenset(keys))


def _parts(judge: Any) -> Iterator[Any]:
    """The judge, the offline part of a hybrid one, and those of a council's members."""
    yield judge
    if hasattr(judge, "offline"):
        yield judge.offline
    for member in getattr(judge, "members", ()):
        yield from _parts(member)
