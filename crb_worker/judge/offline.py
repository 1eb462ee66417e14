"""The judge ``offline``: matches by words, without a model, a key or a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crb_core.corpus import Corpus, fingerprint
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Correspondence
from crb_worker.judge.base import comparable, judge_fingerprint
from crb_worker.judge.features import WordVectors, cosine

__all__ = ["OfflineJudge"]

#: Cosine at which a pair matches: the best leave-one-repository-out value for words of golden-comments data.
_THRESHOLD = 0.22


class OfflineJudge:
    """Word TF-IDF cosine against a threshold; never classifies."""

    name = "offline"
    classifies = False

    def __init__(self, golden_texts: Sequence[str], *, threshold: float = _THRESHOLD) -> None:
        self._vectors = WordVectors(golden_texts)
        self._threshold = threshold
        self.fingerprint = judge_fingerprint(self.describe())

    @classmethod
    def load(cls, corpus: Corpus, options: dict[str, str]) -> OfflineJudge:
        """The judge for a corpus; the one option is ``threshold`` (more than 0, less than 1)."""
        unknown = sorted(set(options) - {"threshold"})
        if unknown:
            raise InputError(f"the offline judge has no option {unknown[0][:80]!r}", remedy="It has threshold only")
        texts = [finding.message for entry in corpus.entries for finding in entry.golden]
        if "threshold" not in options:
            return cls(texts)
        try:
            threshold = float(options["threshold"])
        except ValueError:
            threshold = -1.0
        if not 0 < threshold < 1:
            raise InputError(
                f"the offline judge's threshold {options['threshold'][:80]!r} is not a number between 0 and 1",
                remedy="Leave it out to use the measured one",
            )
        return cls(texts, threshold=threshold)

    def describe(self) -> dict[str, Any]:
        """Vectoriser, weights and threshold: all that decides an answer."""
        return {
            "judge": self.name,
            "vectoriser": "word tf-idf cosine/1",
            "threshold": self._threshold,
            "frequencies": fingerprint([self._vectors.documents, self._vectors.frequencies]),
        }

    def match(
        self,
        pull_request_key: str,  # noqa: ARG002
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """One record a candidate, with the goldens whose cosine reaches the threshold."""
        golden_vectors = [self._vectors.vector(finding.message) for finding in golden]
        records = []
        for place, candidate in enumerate(candidates):
            vector = self._vectors.vector(candidate.message)
            found = [
                (position, similarity)
                for position, finding in enumerate(golden)
                if comparable(candidate, finding, protocol)
                and (similarity := cosine(vector, golden_vectors[position])) >= self._threshold
            ]
            records.append(
                Correspondence(
                    candidate=place,
                    golden=tuple(position for position, _ in found),
                    probabilities=tuple(round(similarity, 4) for _, similarity in found),
                )
            )
        return tuple(records)
