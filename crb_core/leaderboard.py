"""The leaderboard: a row an agent build, computed from persisted findings, matches and judgments (seed A 7.4 to 7.7).

Nothing here is read from stored scores: a row is what the definitions give for the judgments, by the fast path
(``crb_core.fast_score``), which equals them digit by digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from crb_core import distribution, duration
from crb_core.agent import AgentBuild
from crb_core.aggregate import ranks
from crb_core.bootstrap import Bootstrap
from crb_core.distribution import AcrossRounds, RoundValue
from crb_core.duration import Duration
from crb_core.errors import InputError, UsageError
from crb_core.fast_aggregate import FastScores, rescore
from crb_core.identity import differences
from crb_core.rows import HEADLINE, METRICS, RANKINGS, Entry, Measured, Ranking, Row, RowRound, Trial
from crb_core.stability import stability
from crb_core.strata import EVERYTHING, Subset
from crb_core.telling_apart import Grouping, tell_apart

__all__ = [
    "HEADLINE",
    "METRICS",
    "RANKINGS",
    "Entry",
    "Leaderboard",
    "Measured",
    "Ranking",
    "Row",
    "RowRound",
    "Trial",
    "leaderboard",
    "row_named",
]


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """Ranked rows first, then those that cannot be ranked, each with its reason in ``marks``."""

    protocol: str
    beta: float
    subset: Subset
    sort: str
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    bootstrap: Bootstrap | None = None
    grouping: Grouping | None = None
    #: Whether the scores of its rounds have strata.
    has_strata: bool = True

    @property
    def pull_requests(self) -> int:
        """How many pull requests a complete round has."""
        return max((each.planned for row in self.rows for each in row.rounds), default=0)

    def to_json(self, *, pull_requests: bool = True, scores: bool = True) -> dict[str, Any]:
        """The document; ``scores`` of single rounds have strata, so a leaderboard without them gives none."""
        if scores and not self.has_strata:
            raise ValueError("this leaderboard was made without strata")
        document: dict[str, Any] = {
            "format": "crb.leaderboard/1",
            "beta": self.beta,
            "subset": self.subset.to_json(),
            "sort": self.sort,
            "warnings": list(self.warnings),
            "rows": [row.to_json(pull_requests=pull_requests, scores=scores) for row in self.rows],
        }
        if self.bootstrap is not None:
            document["uncertainty"] = self.bootstrap.to_json(self.pull_requests)
        if self.grouping is not None:
            document["pairs"] = self.grouping.to_json([row.build.build_id for row in self.rows])
        return document


def leaderboard(
    measured: Measured,
    *,
    beta: float = 1.0,
    subset: Subset = EVERYTHING,
    sort: str | None = None,
    allow_partial: bool = False,
    bootstrap: Bootstrap | None = None,
    oversubscribed: frozenset[str] = frozenset(),
    strata: bool = True,
) -> Leaderboard:
    """Rows of builds under one protocol and judge, sorted by macro ``sort`` (the headline metric by default).

    ``bootstrap`` adds intervals, stability and the groups of rows that cannot be told apart. ``oversubscribed`` are
    build ids whose containers shared cores. InputError for an unknown metric. Sorting by a metric whose denominator is
    the agent's own gives a warning and no ranks (rule 11). InputError with the differing fields for rows of different
    corpora, protocols or judges (rule 13). Without ``strata`` the rounds are scored as a whole only, which is all that
    rows, intervals and letters are made of.
    """
    ranking = RANKINGS[measured.protocol]
    sort = sort or ranking.headline
    if sort not in ranking.metrics:
        raise UsageError(f"{sort} is no metric", remedy=f"Sort by one of {', '.join(ranking.metrics)}")
    _refuse_a_mixture(measured)
    scores = rescore(measured.arrays, beta=beta, subset=subset, axes=None if strata else ())
    rows = [
        _with_place(_row(measured, entry, scores, ranking, allow_partial, oversubscribed), sort)
        for entry in measured.entries
    ]
    ranked = [row for row in rows if row.ranked]
    places = {id(row): rank for row, rank in zip(ranked, ranks([_mean(row, sort) for row in ranked]), strict=True)}
    ordered = sorted(ranked, key=lambda row: (places[id(row)] or 0, row.build.agent, row.build.build_id))
    rest = sorted((row for row in rows if id(row) not in places), key=lambda row: (row.build.agent, row.build.build_id))
    warnings: tuple[str, ...] = ()
    placed = [replace(row, rank=places[id(row)]) for row in ordered]
    if sort in ranking.not_for_ranks:
        placed = ordered
        warnings = (f"{sort} has a denominator of its own for every agent, so these rows have no ranks",)
    grouping = None
    if bootstrap is not None:
        placed, grouping = _with_letters(placed, bootstrap, sort)
        everyone = _with_uncertainty([*placed, *rest], bootstrap, ranking.metrics, subset)
        placed, rest = everyone[: len(placed)], everyone[len(placed) :]
    return Leaderboard(
        protocol=measured.protocol,
        beta=scores.beta,
        subset=subset,
        sort=sort,
        rows=(*placed, *rest),
        warnings=warnings,
        bootstrap=bootstrap,
        grouping=grouping,
        has_strata=strata,
    )


def _refuse_a_mixture(measured: Measured) -> None:
    """Rows of one table share corpus, protocol and judge (rule 13)."""
    for entry in measured.entries:
        first = measured.entries[0]
        mixed = {
            name: values
            for name, values in differences(first.identity, entry.identity).items()
            if name in {"corpus_fingerprint", "protocol", "judge"}
        }
        if mixed:
            fields = "; ".join(f"{name}: {one!r} and {other!r}" for name, (one, other) in mixed.items())
            raise InputError(
                f"a leaderboard cannot mix {first.build.agent} and {entry.build.agent}, which differ in {fields}",
                remedy="Make one leaderboard of each",
            )


class _HasBuild(Protocol):
    @property
    def build(self) -> AgentBuild: ...


_R = TypeVar("_R", bound=_HasBuild)


def row_named(rows: Iterable[_R], reference: str) -> _R:
    """The row of an agent's name or of a build id; InputError where there is none, or where a name has several."""
    rows = list(rows)
    found = [row for row in rows if reference in {row.build.agent, row.build.build_id}]
    if len(found) == 1:
        return found[0]
    if found:
        builds = ", ".join(sorted(row.build.build_id for row in found))
        raise InputError(f"{reference} has {len(found)} builds here", remedy=f"Name one of them: {builds}")
    known = ", ".join(sorted({row.build.agent for row in rows})) or "none"
    raise InputError(f"There is no agent {reference} here", remedy=f"The agents are: {known}")


def _row(
    measured: Measured,
    entry: Entry,
    scores: FastScores,
    ranking: Ranking,
    allow_partial: bool,
    oversubscribed: frozenset[str],
) -> Row:
    rounds = tuple(
        RowRound(
            number=number,
            scored=scored,
            planned=len(measured.planned),
            problems=measured.problems[entry.build_id, number],
            scores=scores,
            group=measured.group.get((entry.build_id, number)),
        )
        for number, scored in entry.scored_by_round.items()
    )

    def across(level: Literal["macro", "micro"], metric: str) -> AcrossRounds:
        values = [
            RoundValue(number=each.number, value=each.value(level, metric), scored=each.scored, planned=each.planned)
            for each in rounds
        ]
        return distribution.across_rounds(values, allow_partial=allow_partial)

    macro = {metric: across("macro", metric) for metric in ranking.metrics}
    headline = macro[ranking.headline]
    used = [each for each in rounds if each.number in headline.used]
    spent = duration.across_rounds([entry.durations[each.number] for each in used])
    groups = [each.group for each in used if each.group is not None]
    complete = bool(used) and all(each.scored == each.planned for each in used)
    late = _late(measured, entry, {each.number for each in used})
    answer_key: Literal["older", "not older", "unknown"] = (
        "unknown" if late is None else "not older" if late else "older"
    )
    ranked = complete and answer_key != "not older"
    return Row(
        entry=entry,
        macro=macro,
        micro={metric: across("micro", metric) for metric in ranking.metrics},
        n={metric: sum(each.n(metric) for each in used) for metric in ranking.metrics},
        duration=spent,
        rounds=rounds,
        counts={name: int(total[0, groups].sum()) for name, total in scores.total.items()},
        ranked=ranked,
        submittable=headline.submittable
        and not headline.left_out
        and ranked
        and answer_key == "older"
        and measured.is_whole_corpus
        and not scores.counted.subset.restricted
        and entry.build.kind == "reviewer"
        and entry.build.isolated,
        answer_key=answer_key,
        marks=tuple(
            _marks(entry.build, headline, rounds, spent, complete, late or 0, entry.build_id in oversubscribed)
        ),
        headline=ranking.headline,
    )


def _with_place(row: Row, sort: str) -> Row:
    """The row, not ranked and with the reason where it has no value to be ranked by."""
    value = row.macro[sort]
    if not row.ranked or value.mean is not None:
        return row
    return replace(row, ranked=False, marks=(*row.marks, f"unranked: macro {sort} is {value.reason}"))


def _late(measured: Measured, entry: Entry, used: set[int]) -> int | None:
    """How many trials of the used rounds began before the answer key was there; None where that is unknown."""
    if measured.answer_key_at is None or entry.build.runner == "imported":
        return None
    counts = [measured.late[entry.build_id, number] for number in used]
    return None if None in counts else sum(count or 0 for count in counts)


def _marks(
    build: AgentBuild,
    headline: AcrossRounds,
    rounds: Sequence[RowRound],
    spent: Duration,
    complete: bool,
    late: int,
    oversubscribed: bool,
) -> Iterable[str]:
    if not build.isolated:
        yield "imported" if build.runner == "imported" else "not isolated"
    if build.kind == "replay":
        yield "recorded"
    if oversubscribed:
        yield "cores shared"
    if headline.left_out:
        yield f"round {', '.join(map(str, headline.left_out))} incomplete"
    if not complete:
        missing = sum(each.planned - each.scored for each in rounds)
        yield f"unranked: {missing} of {sum(each.planned for each in rounds)} trials have no score"
    if late:
        yield f"unranked: the answer key is not older than {late} trial{'' if late == 1 else 's'}"
    if spent.from_seconds:
        yield "duration includes retries"


def _mean(row: Row, metric: str) -> float:
    value = row.macro[metric].mean
    assert value is not None
    return value


def _with_letters(rows: list[Row], bootstrap: Bootstrap, sort: str) -> tuple[list[Row], Grouping]:
    grouping = tell_apart(bootstrap, [row.sample() for row in rows], sort)
    return [replace(row, letters=text) for row, text in zip(rows, grouping.letters, strict=True)], grouping


def _with_uncertainty(rows: list[Row], bootstrap: Bootstrap, metrics: Sequence[str], subset: Subset) -> list[Row]:
    samples = [row.sample() if row.rounds else None for row in rows]
    known = [sample for sample in samples if sample is not None]
    macro, micro = (iter(bootstrap.intervals(known, level, metrics)) for level in ("macro", "micro"))
    return [
        row
        if sample is None
        else replace(
            row,
            intervals={"macro": next(macro), "micro": next(micro)},
            stability=stability(row.rounds[0].scores.arrays, row.used_groups, subset),
        )
        for row, sample in zip(rows, samples, strict=True)
    ]
