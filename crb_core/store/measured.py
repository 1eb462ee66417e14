"""A sweep as the fast path of scoring reads it: columns instead of records, loaded once, re-scored often.

Messages, reasonings and justifications are left in the store: no number is made of them. A sweep that runs is loaded
again after each trial that was scored, so a later loading takes from the earlier one what records cannot have changed.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.ablation import Exclusion, exclusion
from crb_core.ablation import excludes as excludes_prefixes
from crb_core.agent import AgentBuild
from crb_core.corpus import fingerprint
from crb_core.finding import GoldenFinding
from crb_core.identity import RowIdentity
from crb_core.recipes import recipe_named
from crb_core.rows import Entry, Measured, Trial
from crb_core.scoring_arrays import ArraysBuilder, ScoringArrays
from crb_core.store.growing_arrays import GrowingArrays, TrialPlace
from crb_core.store.judged_trials import LABEL, JudgedTrial, judged_trials, scored_judgments
from crb_core.store.results import StoredJudge, trial_problems
from crb_core.store.reviews import Reviews, review_states
from crb_core.store.tables import (
    AgentBuildRow,
    ContentChangeRow,
    CorpusRow,
    GoldenRow,
    PullRequestRow,
    SweepJudgeRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters

__all__ = ["StoredSweep", "load_sweep"]

builds = core(AgentBuildRow)
changes = core(ContentChangeRow)
corpora = core(CorpusRow)
goldens = core(GoldenRow)
pull_requests = core(PullRequestRow)
sweep_judges = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

#: New trials above which everything is read in one go: a statement names at most so many.
_FEW = 5_000


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """What the next loading compares with and takes over. ``unchanged`` is equal only where all of it still holds."""

    unchanged: tuple[Any, ...]
    places: Mapping[int, TrialPlace]
    golden: Mapping[str, tuple[GoldenFinding, ...]]
    builds: Mapping[str, AgentBuild]
    planned: tuple[str, ...]
    trials: Mapping[int, Trial]
    judged: Mapping[int, JudgedTrial]


@dataclass(frozen=True, kw_only=True)
class StoredSweep:
    """A sweep under one judge, as it is stored. ``measured`` makes what leaderboards are computed from.

    ``pull_requests`` are those that the judged builds have trials of, ``planned`` those that any build of the sweep
    has: a complete round has them all. ``corpus_pull_requests`` is how many the corpus has, which may be more.
    """

    sweep_id: str
    sweep_name: str
    corpus: str
    corpus_version: str
    corpus_fingerprint: str
    corpus_pull_requests: int
    imported_at: str
    protocol: str
    judge: StoredJudge
    pull_requests: tuple[str, ...]
    planned: tuple[str, ...]
    builds: tuple[AgentBuild, ...]
    trials: Mapping[str, tuple[Trial, ...]]
    golden: Mapping[str, tuple[GoldenFinding, ...]]
    _judged: Mapping[TrialPlace, JudgedTrial] = field(repr=False)
    _rows: _Rows = field(repr=False)
    _growing: GrowingArrays = field(repr=False)
    #: Made by an earlier loading of the same sweep; used again where the build has the very same trials.
    _entries: dict[str, Entry] = field(repr=False)

    def measured(self, exclude_producers: Sequence[str] = ()) -> Measured:
        """What leaderboards are computed from, without the golden findings of some producers (by prefix, rule 8)."""
        if not exclude_producers:
            arrays = self._growing.arrays(self._judged) or self._arrays(None)
            return self._measured(arrays, self.corpus_fingerprint)
        # A corpus without some of its findings is another corpus: its rows are never mixed with those of the whole.
        reduced = fingerprint({"corpus": self.corpus_fingerprint, "excluded_producers": sorted(exclude_producers)})
        return self._measured(self._arrays(excludes_prefixes(exclude_producers)), reduced)

    def measured_without(self, producer: str) -> Measured:
        """The same without exactly one producer."""
        reduced = fingerprint({"corpus": self.corpus_fingerprint, "left_out_producer": producer})
        return self._measured(self._arrays(lambda name: name == producer), reduced)

    def relabelled(self, golden: Mapping[str, tuple[GoldenFinding, ...]], corpus_fingerprint: str) -> Measured:
        """What leaderboards would be computed from if the same golden findings had the labels of ``golden``.

        InputError where a judge labelled a candidate that under these labels claims a golden finding.
        """
        groups = sorted({(build, number) for build, number, _ in self._rows.places.values()})
        recipe = recipe_named(self.protocol)
        arrays = GrowingArrays(lambda leave_out: _builder(recipe, groups, golden, leave_out)).arrays(self._judged)
        assert arrays is not None
        return self._measured(arrays, corpus_fingerprint)

    def exclusion(self, prefixes: Sequence[str]) -> Exclusion:
        """What leaving producers out removes; InputError if a prefix matches none."""
        return exclusion(self.golden, prefixes)

    def covered(self, used: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], dict[str, set[int]]]:
        """By golden finding (pull request, position) and build the rounds, of those ``used``, in which it is matched.

        Golden false positives have matches too.
        """
        found: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for (build, number, key), judged in self._judged.items():
            if number in used.get(build, ()):
                for _, goldens in judged.matches:
                    for golden in goldens:
                        found[key, golden][build].add(number)
        return found

    def _arrays(self, leave_out: Callable[[str], bool] | None) -> ScoringArrays:
        growing = self._growing.anew(leave_out)
        found = growing.arrays(self._judged)
        assert found is not None
        return found

    def _measured(self, arrays: ScoringArrays, corpus_fingerprint: str) -> Measured:
        return Measured(
            entries=tuple(self._entry(build, corpus_fingerprint) for build in self.builds),
            arrays=arrays,
            answer_key_at=self.imported_at,
            pull_requests=self.planned,
            is_whole_corpus=corpus_fingerprint == self.corpus_fingerprint
            and len(self.planned) == self.corpus_pull_requests,
        )

    def _entry(self, build: AgentBuild, corpus_fingerprint: str) -> Entry:
        known = self._entries.get(build.build_id)
        mine = self.trials[build.build_id]
        if known is not None and known.trials is mine and known.identity.corpus_fingerprint == corpus_fingerprint:
            return known
        identity = RowIdentity.of_build(
            build, corpus_fingerprint=corpus_fingerprint, protocol=self.protocol, judge=self.judge.judge_id
        )
        entry = Entry(build=build, identity=identity, trials=mine)
        if corpus_fingerprint == self.corpus_fingerprint:
            self._entries[build.build_id] = entry
        return entry


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the cyclic garbage collector, which walks the growing lists of rows again and again: 40% of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def load_sweep(
    connection: Connection, sweep_id: str, judge: StoredJudge, *, earlier: StoredSweep | None = None
) -> StoredSweep:
    """All trials of the builds that ``judge`` judges in a sweep; InputError for a protocol that has no such table.

    ``earlier`` is the same sweep under the same judge as it was; what it has and no record can have changed is not
    read again.
    """
    with _no_collection():
        return _load_sweep(connection, sweep_id, judge, earlier)


def _load_sweep(connection: Connection, sweep_id: str, judge: StoredJudge, earlier: StoredSweep | None) -> StoredSweep:
    sweep = connection.execute(
        select(
            sweeps.c.name,
            corpora.c.id.label("corpus_id"),
            corpora.c.name.label("corpus"),
            corpora.c.version,
            corpora.c.fingerprint,
            corpora.c.imported_at,
            corpora.c.protocol,
        )
        .join(corpora, corpora.c.id == sweeps.c.corpus_id)
        .where(sweeps.c.id == sweep_id)
    ).one()
    recipe = recipe_named(sweep.protocol)
    mine = (
        select(sweep_judges.c.build_id)
        .where(sweep_judges.c.sweep_id == sweep_id, sweep_judges.c.judge_id == judge.judge_id)
        .scalar_subquery()
    )
    in_scope = (trials.c.sweep_id == sweep_id) & trials.c.build_id.in_(mine)
    unchanged = _unchanged(connection, sweep, sweep_id, judge.judge_id)
    known = earlier if earlier is not None and earlier._rows.unchanged == unchanged else None
    rows = _first_rows(connection, sweep_id, mine, in_scope, unchanged) if known is None else known._rows
    judged = _judged(connection, in_scope, judge.judge_id, rows.judged)
    found = _trials(connection, sweep_id, judge.judge_id, in_scope, rows, judged)
    by_build: dict[str, list[Trial]] = {build.build_id: [] for build in rows.builds.values()}
    for number, (build, _, _) in rows.places.items():
        by_build[build].append(found[number])
    groups = sorted({(build, number) for build, number, _ in rows.places.values()})
    keys = tuple(dict.fromkeys(key for _, _, key in rows.places.values()))
    return StoredSweep(
        sweep_id=sweep_id,
        sweep_name=sweep.name,
        corpus=sweep.corpus,
        corpus_version=sweep.version,
        corpus_fingerprint=sweep.fingerprint,
        corpus_pull_requests=connection.execute(
            select(func.count()).select_from(pull_requests).where(pull_requests.c.corpus_id == sweep.corpus_id)
        ).scalar_one(),
        imported_at=sweep.imported_at,
        protocol=sweep.protocol,
        judge=judge,
        pull_requests=keys,
        planned=rows.planned,
        builds=tuple(rows.builds.values()),
        trials={build: _same(of_build, known, build) for build, of_build in by_build.items()},
        golden=rows.golden,
        _judged={rows.places[number]: each for number, each in judged.items()},
        _rows=replace(rows, trials=found, judged=judged),
        _growing=known._growing
        if known is not None
        else GrowingArrays(lambda leave_out: _builder(recipe, groups, rows.golden, leave_out)),
        _entries=dict(known._entries) if known is not None else {},
    )


def _builder(
    recipe: Any,
    groups: Sequence[tuple[str, int]],
    golden: Mapping[str, tuple[GoldenFinding, ...]],
    leave_out: Callable[[str], bool] | None,
) -> ArraysBuilder:
    builder = ArraysBuilder(recipe, groups, leave_out=leave_out, slot_of_pull_request=True)
    for key, findings in golden.items():
        builder.add_pull_request(key, ((_axes(each), each.producer) for each in findings))
    return builder


def _axes(golden: GoldenFinding) -> dict[str, Any]:
    return {name: getattr(golden.label, name) for name in LABEL}


def _same(of_build: list[Trial], known: StoredSweep | None, build: str) -> tuple[Trial, ...]:
    """The very tuple of an earlier loading where its trials are the same ones."""
    before = None if known is None else known.trials.get(build)
    if before is not None and len(before) == len(of_build) and all(map(_is, before, of_build)):
        return before
    return tuple(of_build)


def _is(one: Trial, other: Trial) -> bool:
    return one is other


def _unchanged(connection: Connection, sweep: Any, sweep_id: str, judge_id: str) -> tuple[Any, ...]:
    """Equal for two loadings only where no record was changed or deleted, and no trial, build or golden was added."""
    of_corpus = pull_requests.c.corpus_id == sweep.corpus_id
    counts = [
        select(func.count()).select_from(changes),
        select(func.count()).select_from(trials).where(trials.c.sweep_id == sweep_id),
        select(func.count())
        .select_from(sweep_judges)
        .where(sweep_judges.c.sweep_id == sweep_id, sweep_judges.c.judge_id == judge_id),
        select(func.count()).select_from(pull_requests).where(of_corpus),
        select(func.count())
        .select_from(goldens)
        .join(pull_requests, pull_requests.c.id == goldens.c.pull_request_id)
        .where(of_corpus),
    ]
    return (sweep_id, judge_id, *sweep, *(connection.execute(each).scalar_one() for each in counts))


def _first_rows(connection: Connection, sweep_id: str, mine: Any, in_scope: Any, unchanged: tuple[Any, ...]) -> _Rows:
    # A later version may hash builds in another way: the stored id finds the rows, the build's own names it.
    stored = {
        row.id: AgentBuild.model_validate(row.document)
        for row in connection.execute(
            select(builds.c.id, builds.c.document)
            .where(builds.c.id.in_(mine))
            .order_by(by_characters(builds.c.agent), builds.c.id)
        )
    }
    names = {row_id: build.build_id for row_id, build in stored.items()}
    rows = connection.execute(
        select(
            trials.c.id,
            trials.c.build_id,
            trials.c.round,
            trials.c.pull_request_id,
            pull_requests.c.key,
            pull_requests.c.position,
        )
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(in_scope)
        .order_by(trials.c.build_id, trials.c.round, pull_requests.c.position)
    ).all()
    # In the order of the corpus, which is that of the trials of every round.
    keys = {row.pull_request_id: row.key for row in sorted(rows, key=lambda row: row.position)}
    return _Rows(
        unchanged=unchanged,
        places={row.id: (names[row.build_id], row.round, row.key) for row in rows},
        golden=_golden(connection, keys),
        builds=stored,
        planned=_planned(connection, sweep_id),
        trials={},
        judged={},
    )


def _judged(
    connection: Connection, in_scope: Any, judge_id: str, known: Mapping[int, JudgedTrial]
) -> dict[int, JudgedTrial]:
    """By trial what the judge said of those that it has scored; of those that are not known it is read."""
    scored = scored_judgments(connection, in_scope, judge_id)
    new = {trial: judgment for trial, judgment in scored.items() if trial not in known}
    if not new:
        return {trial: known[trial] for trial in scored}
    only = in_scope & trials.c.id.in_(list(new)) if len(new) <= _FEW else in_scope
    fresh = judged_trials(connection, only, judge_id, new)
    return {trial: known.get(trial) or fresh[trial] for trial in scored}


def _trials(
    connection: Connection,
    sweep_id: str,
    judge_id: str,
    in_scope: Any,
    rows: _Rows,
    judged: Mapping[int, JudgedTrial],
) -> dict[int, Trial]:
    """Every trial by id; the very same record as before where nothing of it changed."""
    states = review_states(connection, in_scope)
    fresh = {
        number
        for number in rows.places
        if (before := rows.trials.get(number)) is None
        or states.get(number, (None, False, 0)) != (before.started_at, before.succeeded, len(before.failed))
    }
    only = in_scope & trials.c.id.in_(sorted(fresh)) if len(fresh) <= _FEW else in_scope
    reviews = Reviews(connection, sweep_id, only) if fresh else None
    problems = trial_problems(connection, sweep_id, judge_id)
    found = {}
    for number, (_, round_number, key) in rows.places.items():
        is_scored = number in judged
        problem = None if is_scored else problems.get(number, "not finished yet")
        before = rows.trials.get(number)
        if reviews is not None and (before is None or number in fresh):
            found[number] = Trial(
                pull_request=key,
                round=round_number,
                scored=is_scored,
                problem=problem,
                **reviews.of_trial(number),
            )
        else:
            assert before is not None
            is_same = before.scored == is_scored and before.problem == problem
            found[number] = before if is_same else replace(before, scored=is_scored, problem=problem)
    return found


def _planned(connection: Connection, sweep_id: str) -> tuple[str, ...]:
    reviewed = select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id)
    return tuple(
        connection.execute(
            select(pull_requests.c.key).where(pull_requests.c.id.in_(reviewed)).order_by(pull_requests.c.position)
        ).scalars()
    )


def _golden(connection: Connection, keys: Mapping[int, str]) -> dict[str, tuple[GoldenFinding, ...]]:
    grouped: dict[str, list[GoldenFinding]] = {key: [] for key in keys.values()}
    for row in connection.execute(
        select(goldens.c.pull_request_id, goldens.c.document)
        .where(goldens.c.pull_request_id.in_(list(keys)))
        .order_by(goldens.c.pull_request_id, goldens.c.position)
    ):
        grouped[keys[row.pull_request_id]].append(GoldenFinding.model_validate(row.document))
    return {key: tuple(findings) for key, findings in grouped.items()}
