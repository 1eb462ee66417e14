"""Which examples a judge was tuned on, so that nothing is measured on them unseen (seed A 5.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from crb_core.corpus import CorpusEntry
from crb_worker.calibration.references import pull_request_name
from crb_worker.judge.base import Judge
from crb_worker.judge.features import words
from crb_worker.judge.offline import OfflineJudge

__all__ = ["TuningRecord", "short_digest", "text_digest", "tuning_record"]


@dataclass(frozen=True, kw_only=True)
class TuningRecord:
    """Pull requests that a judge's tuning used.

    ``examples`` are short digests of their URLs, ``texts`` text digests of their golden findings' messages, ``keys``
    are named by the one who calibrates.
    """

    examples: frozenset[str]
    texts: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()

    def names(self, entry: CorpusEntry) -> bool:
        """Whether the pull request motivated the judge's tuning: by name, or by half of its golden findings' texts."""
        if entry.pull_request.key in self.keys or short_digest(pull_request_name(entry)) in self.examples:
            return True
        known = [text_digest(golden.message) in self.texts for golden in entry.golden]
        return bool(known) and 2 * sum(known) >= len(known)


def short_digest(text: str) -> str:
    """The first 12 hex digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def text_digest(text: str) -> str:
    """The short digest of a text's words: the same after reformatting, recasing, or with invisible characters in it."""
    return short_digest(" ".join(words(text)).casefold())


def tuning_record(judge: Judge, keys: Collection[str] = ()) -> TuningRecord:
    """The record of a judge: the training sets of its model and its parts; ``keys`` are further pull requests."""
    examples: set[str] = set()
    texts: set[str] = set()
    for part in _parts(judge):
        if isinstance(part, OfflineJudge):
            examples.update(part.model.training.examples)
            texts.update(part.model.training.texts)
    return TuningRecord(examples=frozenset(examples), texts=frozenset(texts), keys=frozenset(keys))


def _parts(judge: Any) -> Iterator[Any]:
    """The judge, the offline part of a hybrid one, and those of a council's members."""
    yield judge
    if hasattr(judge, "offline"):
        yield judge.offline
    for member in getattr(judge, "members", ()):
        yield from _parts(member)
