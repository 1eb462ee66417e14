"""What a leaderboard is made of: builds with their trials, and the rows that they become."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from crb_core import duration
from crb_core.agent import AgentBuild
from crb_core.aggregate import Score, to_json
from crb_core.bootstrap import Interval
from crb_core.distribution import AcrossRounds
from crb_core.duration import Duration, Measurement, RoundDuration
from crb_core.fast_aggregate import FastScores
from crb_core.identity import RowIdentity
from crb_core.row_strata import strata_json
from crb_core.samples import Sample, sample_of
from crb_core.scoring_arrays import ScoringArrays
from crb_core.stability import Stability
from crb_core.usage import Charges, FailedAttempts, UsageRecord, charges, failed_attempts

__all__ = [
    "HEADLINE",
    "METRICS",
    "NO_TRIAL",
    "RANKINGS",
    "Entry",
    "Measured",
    "Ranking",
    "Row",
    "RowRound",
    "Trial",
    "late_trials",
]

#: The ratios of a reviewbench row, in the order in which tables show them.
METRICS = (
    "grounded_precision",
    "grounded_recall",
    "grounded_f",
    "augmented_precision",
    "augmented_recall",
    "augmented_f",
    "novel_tp_yield",
)
#: Why a pull request of the sweep has no score in a round that never had a trial of it.
NO_TRIAL = "the round has no trial of it"
#: What reviewbench rows are ranked by (rule 11): macro grounded f.
HEADLINE = "grounded_f"


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """A protocol's metrics in the order of tables, the one that ranks by default, and those that must not rank.

    ``precision`` and ``recall`` are the ones that cost-adjusted figures use.
    """

    metrics: tuple[str, ...]
    headline: str
    precision: str
    recall: str
    #: Their denominator is the agent's own (seed A 7.2): rows can be sorted by them, with a warning and without ranks.
    not_for_ranks: frozenset[str] = frozenset()


RANKINGS: Mapping[str, Ranking] = MappingProxyType(
    {
        "reviewbench": Ranking(
            metrics=METRICS,
            headline=HEADLINE,
            precision="grounded_precision",
            recall="grounded_recall",
            not_for_ranks=frozenset({"augmented_recall", "augmented_f"}),
        ),
        "answer-key": Ranking(
            metrics=("precision", "recall", "f"), headline="f", precision="precision", recall="recall"
        ),
    }
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a build as a leaderboard needs it beside its counts. ``problem`` says why it has no score."""

    pull_request: str
    round: int
    scored: bool
    #: Whether an attempt succeeded; its times count whether or not it was judged (rule 16).
    succeeded: bool
    review_ms: float | None = None
    duration_seconds: float | None = None
    problem: str | None = None
    #: When the first attempt began; an answer key must be older (rule 14).
    started_at: str | None = None
    usage: UsageRecord | None = None
    #: What the attempts that did not succeed reported, one entry an attempt; None where it reported nothing.
    failed: tuple[UsageRecord | None, ...] = ()

    @property
    def milliseconds(self) -> float | None:
        """The valid latency of its review (rule 16)."""
        found = duration.latency(self.measurement)
        return None if found is None else found.milliseconds

    @property
    def measurement(self) -> Measurement:
        return Measurement(
            pull_request=self.pull_request, review_ms=self.review_ms, duration_seconds=self.duration_seconds
        )


def late_trials(build: AgentBuild, starts: Sequence[str | None], answer_key_at: str | None) -> int | None:
    """How many trials, by when each one's first attempt began, are not younger than the answer key (rule 14).

    None where that is unknown: when an imported review ran is not recorded.
    """
    if build.runner == "imported" or answer_key_at is None:
        return None
    known = [start for start in starts if start is not None]
    return sum(start <= answer_key_at for start in known) if len(known) == len(starts) else None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One agent build with its trials."""

    build: AgentBuild
    identity: RowIdentity
    trials: tuple[Trial, ...]

    @cached_property
    def build_id(self) -> str:
        return self.build.build_id

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """What a row's document begins with, which no filter changes."""
        return {
            "agent": self.build.agent,
            "display_name": self.build.display_name,
            "build": self.build_id,
            "runner": self.build.runner,
            "isolated": self.build.isolated,
            "kind": self.build.kind,
            "row_identity": self.identity.model_dump(mode="json"),
            "row_sha256": self.identity.sha256,
        }

    @cached_property
    def scored_by_round(self) -> Mapping[int, int]:
        """Round number to how many of its trials have a score."""
        return {number: sum(trial.scored for trial in trials) for number, trials in self.by_round.items()}

    @cached_property
    def by_round(self) -> Mapping[int, tuple[Trial, ...]]:
        """Round number to its trials, in the order of rounds."""
        found: dict[int, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.round, []).append(trial)
        return {number: tuple(found[number]) for number in sorted(found)}

    @cached_property
    def _charges(self) -> dict[tuple[int, ...], Charges]:
        return {}

    def charges_of(self, rounds: tuple[int, ...]) -> Charges:
        """The observed charges of the scored reviews of some rounds, which no filter of findings changes."""
        found = self._charges.get(rounds)
        if found is None:
            usages = [trial.usage for number in rounds for trial in self.by_round.get(number, ()) if trial.scored]
            found = self._charges[rounds] = charges(usages)
        return found

    @cached_property
    def failed(self) -> FailedAttempts:
        """What the attempts that did not succeed used, in every round, averaged or not."""
        return failed_attempts([usage for trial in self.trials for usage in trial.failed])

    @cached_property
    def durations(self) -> Mapping[int, RoundDuration]:
        """Round number to the latency of its successful reviews, which no filter changes."""
        return {
            number: duration.round_duration([trial.measurement for trial in trials if trial.succeeded])
            for number, trials in self.by_round.items()
        }


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Everything that leaderboards of one protocol and judge are computed from, loaded once and re-scored often.

    The groups of ``arrays`` are (build id, round); they hold the scored trials. ``answer_key_at`` is when the answer
    key was there, None where that is not known. ``pull_requests`` are those that a complete round has; None for all
    that some build has a trial of.
    """

    entries: tuple[Entry, ...]
    arrays: ScoringArrays
    answer_key_at: str | None = None
    pull_requests: tuple[str, ...] | None = None
    #: Whether these are all of the corpus, with all of its golden findings: what a submission is computed from.
    is_whole_corpus: bool = True

    @property
    def protocol(self) -> str:
        return self.arrays.recipe.protocol

    @cached_property
    def planned(self) -> tuple[str, ...]:
        """The pull requests that every round of every row must have: a row over fewer is another benchmark."""
        if self.pull_requests is not None:
            return self.pull_requests
        return tuple(dict.fromkeys(trial.pull_request for entry in self.entries for trial in entry.trials))

    @cached_property
    def problems(self) -> Mapping[tuple[str, int], tuple[tuple[str, str], ...]]:
        """By (build id, round) the pull requests without a score, each with the reason."""
        found = {}
        for entry in self.entries:
            for number, trials in entry.by_round.items():
                known = {trial.pull_request for trial in trials}
                found[entry.build_id, number] = (
                    *((trial.pull_request, trial.problem or "no score") for trial in trials if not trial.scored),
                    *((key, NO_TRIAL) for key in self.planned if key not in known),
                )
        return found

    @cached_property
    def late(self) -> Mapping[tuple[str, int], int | None]:
        """By (build id, round) how many scored trials began before the answer key was there (rule 14).

        None where that is unknown: when an imported review ran is not recorded.
        """
        found: dict[tuple[str, int], int | None] = {}
        for entry in self.entries:
            for number, trials in entry.by_round.items():
                starts = [trial.started_at for trial in trials if trial.scored]
                found[entry.build_id, number] = late_trials(entry.build, starts, self.answer_key_at)
        return found

    def within(self, pull_requests: Collection[str]) -> Measured:
        """The same over some pull requests only: the others' trials are not there, and no round needs them."""
        inside = frozenset(pull_requests)
        return Measured(
            entries=tuple(
                replace(entry, trials=tuple(trial for trial in entry.trials if trial.pull_request in inside))
                for entry in self.entries
            ),
            arrays=self.arrays.within(inside),
            answer_key_at=self.answer_key_at,
            pull_requests=tuple(key for key in self.planned if key in inside),
            is_whole_corpus=False,
        )

    @cached_property
    def group(self) -> Mapping[Any, int]:
        """The place of each (build id, round) in the arrays."""
        return {name: place for place, name in enumerate(self.arrays.groups)}


@dataclass(frozen=True, kw_only=True)
class RowRound:
    """One round of a row. ``score`` is over the ``scored`` of ``planned`` pull requests; None without any."""

    number: int
    scored: int
    planned: int
    problems: tuple[tuple[str, str], ...]
    scores: FastScores
    group: int | None

    @property
    def score(self) -> Score[Any] | None:
        """The round's score with every pull request."""
        return None if self.group is None or not self.scored else self.scores.score(self.group)

    def value(self, level: Literal["macro", "micro"], metric: str, place: int = 0) -> float | None:
        """A metric of the whole subset, or of the stratum at ``place``."""
        if self.group is None or not self.scored:
            return None
        found = float(getattr(self.scores, level)[metric][place, self.group])
        return None if found != found else found

    def n(self, metric: str, place: int = 0) -> int:
        """Behind how many pull requests the macro mean of a ratio stands; of an F measure, the smaller of its parts."""
        if self.group is None or not self.scored:
            return 0
        parts = self.scores.arrays.recipe.measures.f_measures.get(metric, (metric,))
        return min(int(self.scores.n[name][place, self.group]) for name in parts)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A build's row: each metric across rounds, macro and micro, the duration of the same rounds, and its marks.

    ``n`` says by metric behind how many (pull request, round) the macro mean stands. ``letters`` name the groups of
    rows that it cannot be told apart from; None where it is not ranked or was not compared.
    """

    entry: Entry
    macro: Mapping[str, AcrossRounds]
    micro: Mapping[str, AcrossRounds]
    n: Mapping[str, int]
    duration: Duration
    rounds: tuple[RowRound, ...]
    counts: Mapping[str, int]
    ranked: bool
    submittable: bool
    answer_key: Literal["older", "not older", "unknown"]
    marks: tuple[str, ...]
    headline: str
    rank: int | None = None
    intervals: Mapping[str, Mapping[str, Interval]] | None = None
    stability: Stability | None = None
    letters: str | None = None

    @property
    def build(self) -> AgentBuild:
        return self.entry.build

    @property
    def identity(self) -> RowIdentity:
        return self.entry.identity

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.entry.trials

    @property
    def used(self) -> tuple[int, ...]:
        """The numbers of the rounds that are averaged."""
        return self.macro[self.headline].used

    @property
    def used_groups(self) -> dict[int, int]:
        """Round number to group, of the rounds that are averaged and have scores."""
        return {each.number: each.group for each in self.rounds if each.number in self.used and each.group is not None}

    def sample(self) -> Sample:
        """What intervals and comparisons of this row resample."""
        return sample_of(self.rounds[0].scores, self.used_groups)

    def to_json(self, *, pull_requests: bool = True, scores: bool = True) -> dict[str, Any]:
        """The row; without ``pull_requests`` its rounds' scores leave out the single pull requests.

        Without ``scores`` the rounds have none: what is averaged of them is in the row all the same.
        """
        headline = self.macro[self.headline]
        return {
            **self.entry.described,
            "rank": self.rank,
            "ranked": self.ranked,
            "submittable": self.submittable,
            "answer_key": self.answer_key,
            "letters": self.letters,
            "marks": list(self.marks),
            "scored": headline.scored,
            "planned": headline.planned,
            "rounds_used": list(headline.used),
            "rounds_left_out": list(headline.left_out),
            "macro": {name: self._metric("macro", name, value) for name, value in self.macro.items()},
            "micro": {name: self._metric("micro", name, value) for name, value in self.micro.items()},
            "counts": dict(self.counts),
            "duration": self.duration.model_dump(mode="json"),
            "charge": self.entry.charges_of(self.used).to_row(self.entry.failed),
            "stability": None if self.stability is None else self.stability.model_dump(mode="json"),
            "rounds": [
                {
                    "round": each.number,
                    "scored": each.scored,
                    "planned": each.planned,
                    "problems": [{"pull_request": key, "problem": problem} for key, problem in each.problems],
                }
                | ({"score": _score_json(each, pull_requests)} if scores else {})
                for each in self.rounds
            ],
            **({"strata": strata_json(self)} if scores else {}),
        }

    def _metric(self, level: str, name: str, value: AcrossRounds) -> dict[str, Any]:
        found = value.to_json()
        if level == "macro":
            found |= {"n": self.n[name], "of": value.scored}
        if self.intervals is not None:
            found["interval"] = self.intervals[level][name].model_dump(mode="json")
        return found


def _score_json(each: RowRound, pull_requests: bool) -> dict[str, Any] | None:
    if each.group is None or not each.scored:
        return None
    if pull_requests:
        return to_json(each.scores.score(each.group))
    return each.scores.score_json(each.group)
