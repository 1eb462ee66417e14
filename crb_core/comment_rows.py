"""Rows of the golden-comments protocol, whichever way they are counted (seed C; rules 18 and 19).

Rows are ranked by the F of the counts summed over pull requests (micro), as that benchmark publishes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from crb_core.agent import AgentBuild
from crb_core.aggregate import ranks
from crb_core.identity import RowIdentity
from crb_core.matching import JudgedPullRequest
from crb_core.protocols.golden_comments import RECORDED_LISTS, DedupGroups, MetricSet, RecordedLists
from crb_core.rows import Trial
from crb_core.samples import Sample
from crb_core.usage import charges, failed_attempts

__all__ = [
    "BETA_RANGE",
    "COMMENT_METRICS",
    "NO_PROFILE",
    "CommentBuilds",
    "CommentRow",
    "CommentTrial",
    "marks_of",
    "problems_of",
    "ranked_rows",
]

#: Smallest and largest beta of this benchmark (seed C).
BETA_RANGE = (0.5, 3.0)
#: What the command line calls counting without a profile: golden comments of every category and of none.
NO_PROFILE = "none"

#: The metrics of a row, in the order of tables.
COMMENT_METRICS = ("precision", "recall", "f")


@dataclass(frozen=True, kw_only=True)
class CommentTrial:
    """One trial under one judge, with what its judgment leaves open.

    ``match_unrecorded`` are candidates of which only is known that they are no false positives, ``golden_unjudged``
    golden comments that were not judged, ``golden_categories`` categories that only the judgment records, all by
    position. ``recorded`` are an imported judgment's lists; ``probabilities`` by (candidate, golden) stand in for the
    public tool's confidence. ``judged`` is None without a score; ``problem`` says why. ``unscorable`` says why the
    strict counting cannot use a judgment that has recorded lists. ``review`` has the review's times and usage where
    these are known.
    """

    pull_request: str
    round: int
    judged: JudgedPullRequest | None
    problem: str | None = None
    unscorable: str | None = None
    dedup_groups: DedupGroups = ()
    match_unrecorded: Collection[int] = ()
    golden_unjudged: frozenset[int] = frozenset()
    golden_categories: Mapping[int, str] = field(default_factory=dict)
    recorded: RecordedLists | None = None
    probabilities: Mapping[tuple[int, int], float] = field(default_factory=dict)
    review: Trial | None = None

    @classmethod
    def of_document(
        cls, document: Mapping[str, Any], *, judged: JudgedPullRequest | None, **known: Any
    ) -> CommentTrial:
        """With what the document of a stored judgment leaves open; ``known`` are the fields that it does not hold."""
        record = document.get("recorded")
        recorded = None
        if judged is not None and isinstance(record, dict) and all(name in record for name in RECORDED_LISTS):
            recorded = RecordedLists(*(record[name] for name in RECORDED_LISTS))
        return cls(
            judged=judged,
            unscorable=document.get("unscorable"),
            dedup_groups=document.get("dedup_groups", ()),
            match_unrecorded=frozenset(document.get("match_unrecorded", ())),
            golden_unjudged=frozenset(document.get("golden_unjudged", ())),
            golden_categories={int(place): name for place, name in document.get("golden_categories", {}).items()},
            recorded=recorded,
            **known,
        )


@dataclass(frozen=True, kw_only=True)
class CommentRow:
    """One build under one judge. ``figures`` are the row's own fields as JSON; ``f`` orders the rows."""

    build: AgentBuild
    identity: RowIdentity
    judge: str
    ranked: bool
    marks: tuple[str, ...]
    figures: Mapping[str, Any]
    rank: int | None = None
    #: Against when the first attempt of each trial began (rule 14); compatible rows do not ask.
    answer_key: Literal["older", "not older", "unknown"] = "unknown"
    #: What intervals and comparisons resample; None where nothing is averaged or a round was not counted by position.
    sample: Sample | None = None
    #: Rows that share a letter cannot be told apart; None without a comparison.
    letters: str | None = None
    #: Times and usage of the reviews; ``scored`` says which ones the strict counting used. Empty in compatible rows.
    trials: tuple[Trial, ...] = ()
    #: By round and pull request what the strict counting found, in all rounds, complete or not.
    counted: Mapping[tuple[int, str], MetricSet] = field(default_factory=dict)
    #: How many of the averaged reviews have dedup groups; 0 in compatible rows.
    grouped: int = 0
    #: By axis and value micro f of one stratum, mean of the used rounds; None with a reason. Empty in compatible rows.
    strata: Mapping[tuple[str, str], tuple[float | None, str | None]] = field(default_factory=dict)
    #: Golden comments that are matched in a used round: (pull request, position). None in compatible rows.
    covered: frozenset[tuple[str, int]] | None = None

    @property
    def used(self) -> tuple[int, ...]:
        """The rounds that the row averages."""
        return tuple(self.figures.get("rounds_used", ()))

    @property
    def f(self) -> float | None:
        value: float | None = self.figures["f"]
        return value

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.build.agent,
            "display_name": self.build.display_name,
            "build": self.build.build_id,
            "runner": self.build.runner,
            "isolated": self.build.isolated,
            "kind": self.build.kind,
            "model_roles": {role.role: role.model for role in self.build.model_roles},
            "judge": self.judge,
            "row_identity": self.identity.model_dump(mode="json"),
            "row_sha256": self.identity.sha256,
            "rank": self.rank,
            "ranked": self.ranked,
            "answer_key": self.answer_key,
            "letters": self.letters,
            "marks": list(self.marks),
            **self.figures,
            "reviews_with_dedup_groups": self.grouped,
            "charge": charges(
                [trial.usage for trial in self.trials if trial.scored and trial.round in self.used]
            ).to_row(failed_attempts([usage for trial in self.trials for usage in trial.failed])),
        }


#: Builds with their row identities and trials.
CommentBuilds: TypeAlias = Iterable[tuple[AgentBuild, RowIdentity, Sequence[CommentTrial]]]


def ranked_rows(rows: Iterable[CommentRow]) -> tuple[CommentRow, ...]:
    """The rows that can be ranked, best first with their places, then the others."""
    rows = list(rows)
    found = [
        replace(row, rank=rank)
        for row, rank in zip(rows, ranks([row.f if row.ranked else None for row in rows]), strict=True)
    ]
    # What has no rank comes last.
    return tuple(sorted(found, key=lambda row: (row.rank or len(found) + 1, row.build.agent, row.build.build_id)))


def problems_of(trials: Iterable[CommentTrial]) -> list[dict[str, Any]]:
    """Why each of these trials is not counted."""
    return [
        {
            "pull_request": trial.pull_request,
            "round": trial.round,
            "problem": trial.problem or trial.unscorable or "no score",
        }
        for trial in trials
    ]


def marks_of(build: AgentBuild, more: Iterable[str]) -> Iterable[str]:
    """What a reader must know of a build, then ``more``."""
    if not build.isolated:
        yield "imported" if build.runner == "imported" else "not isolated"
    if build.kind == "replay":
        yield "recorded"
    yield from more
