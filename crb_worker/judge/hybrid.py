"""The judge ``hybrid``: the offline judge decides the pairs it is sure of, claude the band between.

Options: ``low`` and ``high`` bound the band of the offline probability (0 to 1; a pair below ``low`` does not match,
one from ``high`` on does), and all options of ``claude``, which is asked for the rest and classifies. What this saves
at which agreement is measured by ``benchmarks/hybrid_judge.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crb_core.corpus import Corpus
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence
from crb_worker.judge.base import JudgeWork, judge_fingerprint
from crb_worker.judge.claude import ClaudeJudge
from crb_worker.judge.features import Pair
from crb_worker.judge.offline import OfflineJudge

__all__ = ["HIGH", "LOW", "HybridJudge", "uncertain"]

#: The band by default.
LOW, HIGH = 0.2, 0.8


def uncertain(probabilities: Mapping[Pair, float], low: float, high: float) -> tuple[list[int], list[int], set[Pair]]:
    """The candidates and golden findings with a pair inside the band, ascending, and these pairs."""
    band = {pair for pair, chance in probabilities.items() if low <= chance < high}
    return sorted({place for place, _ in band}), sorted({position for _, position in band}), band


class HybridJudge:
    """Matches by both, classifies by claude. ``for_step`` gives it the store of its calls, as for claude."""

    classifies = True

    def __init__(self, offline: OfflineJudge, claude: ClaudeJudge, *, low: float = LOW, high: float = HIGH) -> None:
        if not 0 <= low <= high <= 1:
            raise InputError(
                f"the hybrid judge's band {low} to {high} is none",
                remedy="Give 0 <= low <= high <= 1, or leave both out",
            )
        self.offline, self.claude = offline, claude
        self.low, self.high = low, high
        self.name = claude.name.replace("claude", "hybrid", 1)
        self.fingerprint = judge_fingerprint(self.describe())

    @classmethod
    def load(cls, corpus: Corpus, options: Mapping[str, str]) -> HybridJudge:
        """The judge for a corpus and options; InputError names the option that is wrong."""
        rest = {name: value for name, value in options.items() if name not in {"low", "high"}}
        return cls(
            OfflineJudge.load(corpus, {}),
            ClaudeJudge.load(rest),
            low=_bound(options, "low", LOW),
            high=_bound(options, "high", HIGH),
        )

    def describe(self) -> dict[str, Any]:
        claude = self.claude.describe()
        return {
            "judge": "hybrid",
            "low": self.low,
            "high": self.high,
            "offline": self.offline.describe(),
            "requests": claude,
            "fake_model": claude["fake_model"],
        }

    def check(self) -> None:
        """UnavailableError where this machine has no key for the model."""
        self.claude.check()

    def check_price(self) -> None:
        """InputError where the model has no list price."""
        self.claude.check_price()

    def for_step(self, work: JudgeWork) -> HybridJudge:
        """The judge of one step."""
        return HybridJudge(self.offline, self.claude.for_step(work), low=self.low, high=self.high)

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """One record a candidate. Claude sees only findings with a pair in the band, and decides only such pairs."""
        chances = self.offline.probabilities(candidates, golden, protocol=protocol)
        places, positions, band = uncertain(chances, self.low, self.high)
        matched = {pair for pair, chance in chances.items() if pair not in band and chance >= self.high}
        reasons: dict[int, str] = {}
        if band:
            asked = self.claude.match(
                pull_request_key,
                [candidates[place] for place in places],
                [golden[position] for position in positions],
                protocol=protocol,
            )
            for link in asked:
                place = places[link.candidate]
                matched |= {(place, positions[number]) for number in link.golden} & band
                if link.reasoning:
                    reasons[place] = link.reasoning
        return tuple(
            Correspondence(
                candidate=place,
                golden=tuple(sorted(position for at, position in matched if at == place)),
                reasoning=reasons.get(place),
            )
            for place in range(len(candidates))
        )

    def classify(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,
    ) -> tuple[Classification, ...]:
        """Claude's labels."""
        return self.claude.classify(pull_request_key, candidates, positions, protocol=protocol)


def _bound(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(options.get(name, default))
    except ValueError:
        raise InputError(
            f"the hybrid judge's {name} is {options[name][:80]!r}", remedy="Write a number from 0 to 1"
        ) from None
