"""A sweep as the fast path of scoring reads it: columns instead of records, loaded once, re-scored often.

Messages, reasonings and justifications are left in the store: no number is made of them.
"""

from __future__ import annotations

import gc
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, String, cast, func, select, type_coerce

from crb_core.ablation import Exclusion, exclusion
from crb_core.ablation import excludes as excludes_prefixes
from crb_core.agent import AgentBuild
from crb_core.corpus import fingerprint
from crb_core.finding import GoldenFinding
from crb_core.identity import RowIdentity
from crb_core.recipes import recipe_named
from crb_core.rows import Entry, Measured, Trial
from crb_core.scoring_arrays import ArraysBuilder
from crb_core.store.results import StoredJudge, trial_problems
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorpusRow,
    CorrespondenceRow,
    GoldenRow,
    ImportRow,
    JudgmentRow,
    PullRequestRow,
    SweepJudgeRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.strata import LABEL_FILTERS
from crb_core.usage import UsageRecord

__all__ = ["Reviews", "StoredSweep", "load_sweep"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
candidates = core(CandidateRow)
classifications = core(ClassificationRow)
corpora = core(CorpusRow)
correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
imports = core(ImportRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
sweep_judges = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

_LABEL = ("tp_fp", *LABEL_FILTERS)


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
    #: By (build id, round, pull request): candidates, matches, labels of a scored trial.
    _judged: Mapping[tuple[str, int, str], _Judged] = field(repr=False)

    def measured(self, exclude_producers: Sequence[str] = ()) -> Measured:
        """What leaderboards are computed from, without the golden findings of some producers (by prefix, rule 8)."""
        if not exclude_producers:
            return self._measured(None, self.corpus_fingerprint)
        # A corpus without some of its findings is another corpus: its rows are never mixed with those of the whole.
        reduced = fingerprint({"corpus": self.corpus_fingerprint, "excluded_producers": sorted(exclude_producers)})
        return self._measured(excludes_prefixes(exclude_producers), reduced)

    def measured_without(self, producer: str) -> Measured:
        """The same without exactly one producer."""
        reduced = fingerprint({"corpus": self.corpus_fingerprint, "left_out_producer": producer})
        return self._measured(lambda name: name == producer, reduced)

    def exclusion(self, prefixes: Sequence[str]) -> Exclusion:
        """What leaving producers out removes; InputError if a prefix matches none."""
        return exclusion(self.golden, prefixes)

    def _measured(self, leave_out: Callable[[str], bool] | None, corpus_fingerprint: str) -> Measured:
        groups = sorted({(build, number) for build, number, _ in self._judged})
        builder = ArraysBuilder(recipe_named(self.protocol), groups, leave_out=leave_out)
        for key, findings in self.golden.items():
            builder.add_pull_request(key, ((_axes(each), each.producer) for each in findings))
        for (build, number, key), judged in self._judged.items():
            builder.add_trial((build, number), key, judged.candidates, judged.matches, judged.labels)
        return Measured(
            entries=tuple(
                Entry(
                    build=build,
                    identity=RowIdentity.of_build(
                        build,
                        corpus_fingerprint=corpus_fingerprint,
                        protocol=self.protocol,
                        judge=self.judge.judge_id,
                    ),
                    trials=self.trials[build.build_id],
                )
                for build in self.builds
            ),
            arrays=builder.build(),
            answer_key_at=self.imported_at,
            pull_requests=self.planned,
        )


@dataclass(slots=True)
class _Judged:
    candidates: int
    matches: list[tuple[int, list[int]]] = field(default_factory=list)
    labels: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)


def _axes(golden: GoldenFinding) -> dict[str, Any]:
    return {name: getattr(golden.label, name) for name in _LABEL}


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


def load_sweep(connection: Connection, sweep_id: str, judge: StoredJudge) -> StoredSweep:
    """All trials of the builds that ``judge`` judges in a sweep; InputError for a protocol that has no such table."""
    with _no_collection():
        return _load_sweep(connection, sweep_id, judge)


def _load_sweep(connection: Connection, sweep_id: str, judge: StoredJudge) -> StoredSweep:
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
    recipe_named(sweep.protocol)
    mine = (
        select(sweep_judges.c.build_id)
        .where(sweep_judges.c.sweep_id == sweep_id, sweep_judges.c.judge_id == judge.judge_id)
        .scalar_subquery()
    )
    in_scope = (trials.c.sweep_id == sweep_id) & trials.c.build_id.in_(mine)
    rows = connection.execute(
        select(trials.c.id, trials.c.build_id, trials.c.round, trials.c.pull_request_id, pull_requests.c.key)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(in_scope)
        .order_by(trials.c.build_id, trials.c.round, pull_requests.c.position)
    ).all()
    # A later version may hash builds in another way: the stored id finds the rows, the build's own names it.
    stored = {
        row.id: AgentBuild.model_validate(row.document)
        for row in connection.execute(
            select(builds.c.id, builds.c.document).where(builds.c.id.in_(mine)).order_by(builds.c.agent, builds.c.id)
        )
    }
    found = list(stored.values())
    names = {row_id: build.build_id for row_id, build in stored.items()}
    judged = _judged(connection, in_scope, judge.judge_id)
    reviews = Reviews(connection, sweep_id, in_scope, found)
    problems = trial_problems(connection, sweep_id, judge.judge_id)
    by_build: dict[str, list[Trial]] = {build.build_id: [] for build in found}
    for row in rows:
        by_build[names[row.build_id]].append(
            Trial(
                pull_request=row.key,
                round=row.round,
                scored=row.id in judged,
                problem=None if row.id in judged else problems.get(row.id, "not finished yet"),
                **reviews.of_trial(row.id, names[row.build_id]),
            )
        )
    golden = _golden(connection, {row.pull_request_id: row.key for row in rows})
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
        pull_requests=tuple(dict.fromkeys(row.key for row in rows)),
        planned=_planned(connection, sweep_id),
        builds=tuple(found),
        trials={build: tuple(of_build) for build, of_build in by_build.items()},
        golden=golden,
        _judged={(names[row.build_id], row.round, row.key): judged[row.id] for row in rows if row.id in judged},
    )


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


def _judged(connection: Connection, in_scope: Any, judge_id: str) -> dict[int, _Judged]:
    """By trial what the judge said of those that it has scored."""
    sizes: dict[int, int] = dict(
        connection.execute(
            select(candidates.c.trial_id, func.count())
            .join(trials, trials.c.id == candidates.c.trial_id)
            .where(in_scope)
            .group_by(candidates.c.trial_id)
        ).all()
    )
    by_judgment: dict[int, _Judged] = {}
    by_trial: dict[int, _Judged] = {}
    for judgment, trial in connection.execute(
        select(judgments.c.id, judgments.c.trial_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(in_scope, judgments.c.judge_id == judge_id, judgments.c.scored_at.is_not(None))
    ):
        by_trial[trial] = by_judgment[judgment] = _Judged(sizes.get(trial, 0))

    def of_judge(table: Any, *columns: Any) -> Iterable[Any]:
        return connection.execute(
            select(table.c.judgment_id, *columns)
            .join(judgments, judgments.c.id == table.c.judgment_id)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(in_scope, judgments.c.judge_id == judge_id)
            .order_by(table.c.judgment_id, *columns[:2] if table is correspondences else columns[:1])
        ).all()

    for judgment, candidate, golden in of_judge(correspondences, correspondences.c.candidate, correspondences.c.golden):
        if (judged := by_judgment.get(judgment)) is None:
            continue
        if judged.matches and judged.matches[-1][0] == candidate:
            judged.matches[-1][1].append(golden)
        else:
            judged.matches.append((candidate, [golden]))
    # Labels repeat: one small record stands for all equal ones, and no justification leaves the store.
    known: dict[str, dict[str, Any]] = {}
    for judgment, candidate, text in of_judge(classifications, classifications.c.candidate, _label_text(connection)):
        if (judged := by_judgment.get(judgment)) is None:
            continue
        label = known.get(text)
        if label is None:
            label = known[text] = dict(zip(_LABEL, json.loads(text), strict=True))
        judged.labels.append((candidate, label))
    return by_trial


def _label_text(connection: Connection) -> Any:
    """The axes of a stored label as the text of a JSON array, made by the database.

    Loading whole labels takes twice the time.
    """
    document = classifications.c.document
    if connection.dialect.name == "sqlite":
        return type_coerce(func.json_extract(document, *(f"$.{name}" for name in _LABEL)), String)
    return cast(func.json_build_array(*(document[name] for name in _LABEL)), String)


class Reviews:
    """Times and usage of the attempts of each trial."""

    def __init__(self, connection: Connection, sweep_id: str, in_scope: Any, known: Iterable[AgentBuild]) -> None:
        self._models = {build.build_id: [role.model for role in build.model_roles] for build in known}
        self._started: dict[int, str] = {}
        self._succeeded: dict[int, Any] = {}
        self._imported = _imported_files(connection, sweep_id)
        for row in connection.execute(
            select(
                attempts.c.trial_id,
                attempts.c.outcome,
                attempts.c.review_ms,
                attempts.c.duration_seconds,
                attempts.c.usage,
                attempts.c.evidence,
                attempts.c.source,
                attempts.c.started_at,
            )
            .join(trials, trials.c.id == attempts.c.trial_id)
            .where(in_scope)
            .order_by(attempts.c.trial_id, attempts.c.number)
        ):
            self._started.setdefault(row.trial_id, row.started_at)
            if row.outcome == "succeeded":
                self._succeeded[row.trial_id] = row

    def of_trial(self, trial_id: int, build_id: str) -> dict[str, Any]:
        """The fields of a ``Trial`` that its attempts decide."""
        row = self._succeeded.get(trial_id)
        return {
            "succeeded": row is not None,
            "review_ms": None if row is None else row.review_ms,
            "duration_seconds": None if row is None else row.duration_seconds,
            "started_at": self._started.get(trial_id),
            "usage": None
            if row is None
            else UsageRecord.of_report(row.usage, models=self._models[build_id], evidence=self._evidence(row)),
        }

    def _evidence(self, row: Any) -> str | None:
        """The SHA-256 of the findings file that reports the usage; of an imported review, of the file it came from."""
        if row.evidence:
            found = row.evidence.get("findings")
            return found if isinstance(found, str) else None
        files = (row.source or {}).get("files") or [{}]
        return self._imported.get(str(files[0].get("file")))


def _imported_files(connection: Connection, sweep_id: str) -> dict[str, str]:
    """By file name the digest of what was imported into a sweep, where the name belongs to one file only."""
    digests: dict[str, set[str]] = defaultdict(set)
    for document in connection.execute(
        select(imports.c.document).where(imports.c.kind == "sweep", imports.c.target == sweep_id)
    ).scalars():
        for name, digest in (document.get("files") or {}).items():
            digests[PurePath(name).name].add(digest)
    return {name: found.pop() for name, found in digests.items() if len(found) == 1}
