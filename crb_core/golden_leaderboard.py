"""The leaderboard of the golden-comments protocol, counted in one of two ways (seed C; rules 18 and 19).

*Strict* counts positions, inside a profile, with dedup groups, undefined as None. *Compatible* counts what the public
tool counts: recorded lists, or for judges that crb ran the lists that it would have recorded. Rows are ranked by the F
of the counts summed over pull requests (micro), as that benchmark publishes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crb_core import distribution
from crb_core.agent import AgentBuild
from crb_core.aggregate import Score, f_measure, mean
from crb_core.bootstrap import Bootstrap, LevelName
from crb_core.distribution import AcrossRounds, RoundValue
from crb_core.errors import InputError, Where
from crb_core.finding import GoldenFinding
from crb_core.identity import RowIdentity
from crb_core.matching import JudgedPullRequest
from crb_core.protocols.golden_comments import (
    DedupGroups,
    MetricSet,
    RecordedLists,
    compatible,
    profile_subset,
    score,
)
from crb_core.recipes import COMMENTS
from crb_core.rows import Trial
from crb_core.samples import Sample, sample_of_counts
from crb_core.strata import EVERYTHING, Subset
from crb_core.telling_apart import tell_apart

__all__ = [
    "BETA_RANGE",
    "COMMENT_METRICS",
    "NO_PROFILE",
    "CommentRow",
    "CommentTrial",
    "compatible_rows",
    "strict_rows",
    "text_keyed_lists",
]

#: Smallest and largest beta of this benchmark (seed C).
BETA_RANGE = (0.5, 3.0)
#: What the command line calls counting without a profile: golden comments of every category and of none.
NO_PROFILE = "none"

#: The metrics of a row, in the order of tables.
COMMENT_METRICS = ("precision", "recall", "f")
_LEVELS: tuple[LevelName, ...] = ("macro", "micro")


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
    #: What intervals and comparisons resample; None where nothing is averaged or a round was not counted by position.
    sample: Sample | None = None
    #: Rows that share a letter cannot be told apart; None without a comparison.
    letters: str | None = None
    #: Times and usage of the reviews; ``scored`` says which ones the strict counting used. Empty in compatible rows.
    trials: tuple[Trial, ...] = ()
    #: By round and pull request what the strict counting found, in all rounds, complete or not.
    counted: Mapping[tuple[int, str], MetricSet] = field(default_factory=dict)
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
            "letters": self.letters,
            "marks": list(self.marks),
            **self.figures,
        }


Builds = Iterable[tuple[AgentBuild, RowIdentity, Sequence[CommentTrial]]]


def strict_rows(
    builds: Builds,
    *,
    judge: str,
    pull_requests: Sequence[str],
    profile: str | None,
    beta: float = 1.0,
    dedup: bool = True,
    subset: Subset = EVERYTHING,
    allow_partial: bool = False,
    bootstrap: Bootstrap | None = None,
) -> tuple[CommentRow, ...]:
    """Rows by position and profile. ``pull_requests`` are all that a complete round has.

    ``bootstrap`` adds intervals and the letters of rows that cannot be told apart by micro f.
    InputError for a beta outside 0.5 to 3 or an unknown profile.
    """
    low, high = BETA_RANGE
    if isinstance(beta, bool) or not low <= beta <= high:
        raise InputError(f"beta is {beta}, but this protocol takes {low:g} to {high:g}", where=Where(field="beta"))
    inside = subset & profile_subset(profile)
    rows = [
        _strict_row(build, identity, trials, judge, pull_requests, profile, beta, dedup, subset, inside, allow_partial)
        for build, identity, trials in builds
    ]
    return _ranked(rows) if bootstrap is None else _with_uncertainty(_ranked(rows), bootstrap)


def _with_uncertainty(rows: Sequence[CommentRow], bootstrap: Bootstrap) -> tuple[CommentRow, ...]:
    ranked = [row for row in rows if row.rank is not None and row.sample is not None]
    samples = [row.sample for row in ranked if row.sample is not None]
    grouping = tell_apart(bootstrap, samples, "f", "micro")
    letters = {id(row): text for row, text in zip(ranked, grouping.letters, strict=True)}
    found = []
    for row in rows:
        intervals = None
        if row.sample is not None:
            intervals = {
                level: {
                    name: interval.model_dump(mode="json")
                    for name, interval in bootstrap.intervals([row.sample], level, COMMENT_METRICS)[0].items()
                }
                for level in _LEVELS
            }
        figures = {**row.figures, "intervals": intervals}
        found.append(replace(row, letters=letters.get(id(row)), figures=figures))
    return tuple(found)


def compatible_rows(builds: Builds, *, judge: str) -> tuple[CommentRow, ...]:
    """Rows as the public tool counts: no profile, beta 1, 0 where undefined; rounds are pooled."""
    rows = []
    for build, identity, trials in builds:
        lists = [found for found in map(_lists, trials) if found is not None]
        result = compatible(lists)
        skipped = [trial for trial in trials if _lists(trial) is None]
        rows.append(
            CommentRow(
                build=build,
                identity=identity,
                judge=judge,
                ranked=bool(lists),
                marks=tuple(_marks(build, [f"{len(skipped)} reviews without evaluation"] if skipped else [])),
                figures={
                    **result.model_dump(mode="json", exclude={"reviews"}),
                    "reviews": len(lists),
                    "skipped": len(skipped),
                    "problems": _problems(skipped),
                },
            )
        )
    return _ranked(rows)


def text_keyed_lists(
    judged: JudgedPullRequest,
    probabilities: Mapping[tuple[int, int], float] | None = None,
    dedup_groups: DedupGroups = (),
) -> RecordedLists:
    """The lists that the public tool would record for these correspondences (facts C3).

    State is keyed by text, so equal texts collapse. Golden comment by golden comment, a candidate replaces the best one
    so far only with a higher probability (1 where none is known); one that is replaced keeps its mark and is in no
    list; one that comes later with the same or a lower probability stays unmatched and is a false positive.
    """
    links = {(record.candidate, golden) for record in judged.correspondences for golden in record.golden}
    known = probabilities or {}
    siblings = {place: group for group in dedup_groups for place in group}
    best: dict[str, tuple[float, str]] = {}
    marked: set[str] = set()
    for position, golden in enumerate(judged.golden):
        for place, candidate in enumerate(judged.candidates):
            confidence = known.get((place, position), 1.0) if (place, position) in links else 0.0
            if confidence > best.get(golden.message, (0.0, ""))[0]:
                best[golden.message] = (confidence, candidate.message)
                marked.update(judged.candidates[each].message for each in siblings.get(place, (place,)))
    golden_texts = list(dict.fromkeys(golden.message for golden in judged.golden))
    candidate_texts = list(dict.fromkeys(candidate.message for candidate in judged.candidates))
    return RecordedLists(
        true_positives=[text for text in golden_texts if text in best],
        false_positives=[text for text in candidate_texts if text not in marked],
        false_negatives=[text for text in golden_texts if text not in best],
    )


def _lists(trial: CommentTrial) -> RecordedLists | None:
    if trial.recorded is not None or trial.judged is None:
        return trial.recorded
    if not trial.judged.golden:
        return None
    return text_keyed_lists(trial.judged, trial.probabilities, trial.dedup_groups)


def _ranked(rows: Iterable[CommentRow]) -> tuple[CommentRow, ...]:
    rows = list(rows)
    ranked = sorted(
        (row for row in rows if row.ranked and row.f is not None),
        key=lambda row: (-(row.f or 0.0), row.build.agent, row.build.build_id),
    )
    placed = [replace(row, rank=1 + sum((other.f or 0.0) > (row.f or 0.0) for other in ranked)) for row in ranked]
    rest = [row for row in rows if row not in ranked]
    return (*placed, *sorted(rest, key=lambda row: (row.build.agent, row.build.build_id)))


def _problems(trials: Iterable[CommentTrial]) -> list[dict[str, Any]]:
    return [
        {
            "pull_request": trial.pull_request,
            "round": trial.round,
            "problem": trial.problem or trial.unscorable or "no score",
        }
        for trial in trials
    ]


def _marks(build: AgentBuild, more: Iterable[str]) -> Iterable[str]:
    if not build.isolated:
        yield "imported" if build.runner == "imported" else "not isolated"
    if build.kind == "replay":
        yield "recorded"
    yield from more


def _strict_row(
    build: AgentBuild,
    identity: RowIdentity,
    trials: Sequence[CommentTrial],
    judge: str,
    pull_requests: Sequence[str],
    profile: str | None,
    beta: float,
    dedup: bool,
    subset: Subset,
    inside: Subset,
    allow_partial: bool,
) -> CommentRow:
    scores: dict[int, Score[MetricSet] | None] = {}
    scored: dict[int, int] = {}
    problems: list[dict[str, Any]] = []
    for number in sorted({trial.round for trial in trials}):
        mine = [trial for trial in trials if trial.round == number and trial.pull_request in pull_requests]
        usable = [(trial, _judged_part(trial)) for trial in mine if _is_usable(trial)]
        there = {trial.pull_request for trial in mine}
        problems += _problems(trial for trial in mine if not _is_usable(trial))
        problems += [
            {"pull_request": key, "round": number, "problem": "not reviewed"}
            for key in pull_requests
            if key not in there
        ]
        scored[number] = len(usable)
        groups = {trial.pull_request: trial.dedup_groups for trial, _ in usable}
        scores[number] = (
            score(
                [judged for _, judged in usable],
                beta=beta,
                subset=subset,
                profile=profile,
                dedup_groups=groups if dedup else None,
                match_unrecorded={trial.pull_request: trial.match_unrecorded for trial, _ in usable},
            )
            if usable
            else None
        )

    def across(level: str, metric: str, of_beta: float = beta) -> AcrossRounds:
        values = []
        for number, result in scores.items():
            found = None if result is None else getattr(result, level).overall
            value = None if found is None else getattr(found, metric)
            if found is not None and metric == "f" and of_beta != beta:
                value = f_measure(found.precision, found.recall, of_beta)
            values.append(RoundValue(number=number, value=value, scored=scored[number], planned=len(pull_requests)))
        return distribution.across_rounds(values, allow_partial=allow_partial)

    micro = {metric: across("micro", metric) for metric in COMMENT_METRICS}
    macro = {metric: across("macro", metric) for metric in COMMENT_METRICS}
    headline = micro["f"]
    used = [result.micro.overall for number, result in scores.items() if result is not None and number in headline.used]
    judged_trials = [trial for trial in trials if trial.round in headline.used and _is_usable(trial)]
    unjudged = sum(len(trial.golden_unjudged) for trial in judged_trials)
    outside = sum(golden.label.category is None for trial in judged_trials for golden in _judged_part(trial).golden)
    counted = {
        (number, pr.key): pr.overall
        for number, result in scores.items()
        if result is not None
        for pr in result.per_pull_request
    }
    complete = bool(headline.used) and headline.scored == headline.planned
    marks = []
    if not complete:
        planned = len(pull_requests) * max(1, len(scores))
        marks.append(f"unranked: {planned - sum(scored.values())} of {planned} reviews have no score")
    if unjudged:
        marks.append(f"unranked: {unjudged} golden comments were not judged and are left out")
    if outside and inside.category is not None:
        marks.append(f"{outside} golden comments have no category and count in no profile")

    in_rounds = [scores[number] for number in headline.used]

    def total(name: str) -> int | None:
        return sum(getattr(each, name) for each in used) if used else None

    return CommentRow(
        build=build,
        identity=identity,
        judge=judge,
        ranked=complete and not unjudged,
        sample=sample_of_counts(
            COMMENTS,
            {
                number: {pr.key: pr.overall for pr in result.per_pull_request}
                for number, result in scores.items()
                if result is not None and number in headline.used
            },
            beta,
        )
        if used
        else None,
        trials=tuple(
            replace(trial.review, scored=(trial.round, trial.pull_request) in counted)
            for trial in trials
            if trial.review is not None
        ),
        counted=counted,
        strata=_strata([each for each in in_rounds if each is not None]),
        covered=frozenset(
            (trial.pull_request, position) for trial in judged_trials for position in _matched(trial, inside)
        ),
        marks=tuple(_marks(build, marks)),
        figures={
            "tp": total("tp"),
            "fp": total("fp"),
            "fn": total("fn"),
            "precision": micro["precision"].mean,
            "recall": micro["recall"].mean,
            "f": micro["f"].mean,
            "macro_precision": macro["precision"].mean,
            "macro_recall": macro["recall"].mean,
            "macro_f": macro["f"].mean,
            "macro_f1": across("macro", "f", 1.0).mean,
            "matched_excluded_count": total("matched_excluded_count"),
            "match_unrecorded_count": total("match_unrecorded_count"),
            "golden_unjudged_count": unjudged if used else None,
            "candidate_count": total("candidate_count"),
            "reviews": headline.scored,
            "planned": headline.planned,
            "rounds_used": list(headline.used),
            "rounds_left_out": list(headline.left_out),
            "micro": {name: _across_json(value) for name, value in micro.items()},
            "macro": {name: _across_json(value) for name, value in macro.items()},
            "problems": problems,
        },
    )


def _strata(rounds: Sequence[Score[MetricSet]]) -> dict[tuple[str, str], tuple[float | None, str | None]]:
    """Micro f of every stratum that a round has: the mean of the rounds."""
    names = sorted({(axis, value) for each in rounds for axis, of in each.micro.strata.items() for value in of})
    found: dict[tuple[str, str], tuple[float | None, str | None]] = {}
    for axis, value in names:
        values = [None if (of := each.micro.strata[axis].get(value)) is None else of.f for each in rounds]
        known = [each for each in values if each is not None]
        if len(known) == len(values):
            found[axis, value] = (mean(known)[0], None)
        else:
            found[axis, value] = (None, f"undefined in {len(values) - len(known)} of {len(values)} rounds")
    return found


def _matched(trial: CommentTrial, inside: Subset) -> set[int]:
    """Positions of the golden comments inside that a candidate matches."""
    judged = trial.judged
    assert judged is not None
    found = {golden for record in judged.correspondences for golden in record.golden} - trial.golden_unjudged
    labels = {}
    for position in found:
        label = judged.golden[position].label
        category = label.category or trial.golden_categories.get(position)
        labels[position] = judged.golden[position].model_copy(
            update={"label": label.model_copy(update={"category": category})}
        )
    return {position for position in found if inside.has_golden(labels[position])}


def _is_usable(trial: CommentTrial) -> bool:
    return trial.judged is not None and trial.unscorable is None


def _judged_part(trial: CommentTrial) -> JudgedPullRequest:
    """The judged pull request without the golden comments that were not judged, with categories filled in."""
    judged = trial.judged
    assert judged is not None
    if not trial.golden_unjudged and not trial.golden_categories:
        return judged
    place: dict[int, int] = {}
    golden: list[GoldenFinding] = []
    for position, finding in enumerate(judged.golden):
        if position in trial.golden_unjudged:
            continue
        place[position] = len(golden)
        category = trial.golden_categories.get(position)
        if category is not None and finding.label.category is None:
            finding = finding.model_copy(update={"label": finding.label.model_copy(update={"category": category})})
        golden.append(finding)
    correspondences = [
        record.model_copy(update={"golden": tuple(place[each] for each in record.golden if each in place)})
        for record in judged.correspondences
    ]
    return judged.model_copy(update={"golden": tuple(golden), "correspondences": tuple(correspondences)})


def _across_json(value: AcrossRounds) -> dict[str, Any]:
    return {
        "mean": value.mean,
        "std": value.std,
        "rounds": [each.value for each in value.rounds],
        "reason": value.reason,
    }
