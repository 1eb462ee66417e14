"""The judge ``offline``: matches by words and a small trained model, without a key, a network or a GPU.

It says match or no match with a probability and never invents a classification, so unmatched candidates stay
unclassified and the augmented metrics are null (rule 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crb_core.corpus import Corpus
from crb_core.errors import InputError, UsageError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Correspondence
from crb_worker.judge.base import PROTOCOLS, comparable, judge_fingerprint, unknown_protocol
from crb_worker.judge.features import Pair, Vocabulary, pair_features
from crb_worker.judge.lines import LINE_ODDS, line_odds
from crb_worker.judge.offline_model import Forest, OfflineModel

__all__ = ["OfflineJudge"]


class OfflineJudge:
    """Candidates and goldens that speak of one issue, by the model's probability against a threshold.

    ``golden_texts`` are the golden messages of the whole corpus: they decide how much a word weighs, and so belong to
    the fingerprint. ``threshold`` (between 0 and 1) is by default the model's own.
    """

    name = "offline"
    classifies = False

    def __init__(
        self, golden_texts: Sequence[str], *, model: OfflineModel | None = None, threshold: float | None = None
    ) -> None:
        self.model = model or OfflineModel.load()
        self.threshold = self.model.threshold if threshold is None else threshold
        if not 0 < self.threshold < 1:
            raise InputError(
                f"the offline judge's threshold {self.threshold} is not between 0 and 1",
                remedy=f"Leave it out to use the measured one, {self.model.threshold}",
            )
        self._vocabulary = Vocabulary(golden_texts)
        self._forest = Forest(self.model.trees)
        self.fingerprint = judge_fingerprint(self.describe())

    @classmethod
    def load(cls, corpus: Corpus, options: dict[str, str]) -> OfflineJudge:
        """The judge for a corpus. Its one option is ``threshold``; anything else is an InputError."""
        unknown = sorted(set(options) - {"threshold"})
        if unknown:
            raise UsageError(
                f"the offline judge has no option {unknown[0][:80]!r}", remedy="Its only option is threshold"
            )
        texts = [finding.message for entry in corpus.entries for finding in entry.golden]
        if "threshold" not in options:
            return cls(texts)
        try:
            threshold = float(options["threshold"])
        except ValueError:
            raise InputError(
                f"the offline judge's threshold {options['threshold'][:80]!r} is not a number",
                remedy="Write a number between 0 and 1, or leave it out to use the measured one",
            ) from None
        return cls(texts, threshold=threshold)

    def describe(self) -> dict[str, Any]:
        """Model, threshold and word weights: all that decides an answer."""
        return {
            "judge": self.name,
            "method": "word, stem, concept and local tf-idf features; mean of decision trees",
            "model": self.model.digest,
            "line_odds": [list(step) for step in LINE_ODDS],
            "threshold": self.threshold,
            "vocabulary": self._vocabulary.digest,
        }

    def probabilities(
        self, candidates: Sequence[CandidateFinding], golden: Sequence[GoldenFinding], *, protocol: str
    ) -> dict[Pair, float]:
        """For each pair (candidate, golden) that the protocol compares, the probability that it is one issue.

        From 0 to 1 with four decimals: what the model says of the texts, with the odds moved by the lines, if any.
        """
        if protocol not in PROTOCOLS:
            raise unknown_protocol(protocol)
        pairs = [
            (place, position)
            for place, candidate in enumerate(candidates)
            for position, finding in enumerate(golden)
            if comparable(candidate, finding, protocol)
        ]
        if not pairs:
            return {}
        features = pair_features(
            [candidate.message for candidate in candidates],
            [finding.message for finding in golden],
            pairs,
            self._vocabulary,
        )
        chances = self._forest.probabilities([features[pair] for pair in pairs])
        return {
            pair: _with_odds(chance, line_odds(candidates[pair[0]], golden[pair[1]]))
            for pair, chance in zip(pairs, chances, strict=True)
        }

    def match(
        self,
        pull_request_key: str,  # noqa: ARG002
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """One record a candidate, with the goldens whose probability reaches the threshold and these probabilities."""
        found: list[list[tuple[int, float]]] = [[] for _ in candidates]
        for (place, position), probability in self.probabilities(candidates, golden, protocol=protocol).items():
            if probability >= self.threshold:
                found[place].append((position, probability))
        return tuple(
            Correspondence(
                candidate=place,
                golden=tuple(position for position, _ in matches),
                probabilities=tuple(probability for _, probability in matches),
            )
            for place, matches in enumerate(found)
        )


def _with_odds(probability: float, factor: float) -> float:
    raised = probability * factor
    return round(raised / (raised + 1 - probability), 4)
