"""Results of a sweep, read in bulk for a leaderboard: one record a trial, scored or not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import AgentBuild
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.store.calibrations import calibration_of
from crb_core.store.judge_versions import stale_prompts
from crb_core.store.reviews import read_attempts
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorpusRow,
    CorrespondenceRow,
    GoldenRow,
    JudgeRow,
    JudgmentRow,
    PullRequestRow,
    Stage,
    StepRow,
    StepState,
    SweepJudgeRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters

__all__ = [
    "StoredJudge",
    "SweepResults",
    "TrialResult",
    "find_judge",
    "load_results",
    "oversubscribed_builds",
    "sweep_judges",
    "trial_problems",
]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
candidates = core(CandidateRow)
classifications = core(ClassificationRow)
corpora = core(CorpusRow)
correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
judges = core(JudgeRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
sweep_judge_rows = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


@dataclass(frozen=True, kw_only=True)
class StoredJudge:
    """A judge of a sweep, as it was stored when the sweep was planned."""

    judge_id: str
    name: str
    classifies: bool
    document: dict[str, Any]
    #: Its newest held-out calibration (crb_core/store/calibrations.py); None where it is uncalibrated.
    calibration: dict[str, Any] | None = None

    @property
    def stale(self) -> tuple[str, ...]:
        """Names of its prompts, the guidelines among them, that are other ones in this installation (seed A 5.3)."""
        return tuple(each.name for each in stale_prompts(self.document.get("description", {})) if each.is_stale)

    @property
    def council(self) -> tuple[str, ...]:
        """Fingerprints of the judges that vote in a council; empty for every other judge."""
        description = self.document.get("description", {})
        return tuple(description["judges"]) if description.get("judge") == "council" else ()


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """One trial under one judge. ``judged`` is None while there is no score; ``problem`` then says why.

    ``review_ms`` belongs to the attempt that succeeded and is there whether or not the trial was judged (rule 16).
    """

    trial_id: int
    build_id: str
    pull_request: str
    round: int
    #: Whether an attempt succeeded.
    succeeded: bool
    review_ms: float | None
    #: Legacy duration of an imported review in seconds, with retries; stands in where there is no review_ms (rule 16).
    duration_seconds: float | None
    usage: dict[str, Any] | None
    judged: JudgedPullRequest | None
    problem: str | None
    #: When the first attempt began; an answer key must be older (rule 14).
    started_at: str | None


@dataclass(frozen=True, kw_only=True)
class SweepResults:
    """Everything that a leaderboard of one sweep and one judge is computed from."""

    sweep_id: str
    sweep_name: str
    corpus: str
    corpus_fingerprint: str
    protocol: str
    pull_requests: tuple[str, ...]
    judge: StoredJudge
    builds: tuple[AgentBuild, ...]
    trials: tuple[TrialResult, ...]
    #: When the answer key was there.
    imported_at: str


def sweep_judges(connection: Connection, sweep_id: str) -> list[StoredJudge]:
    """The judges of a sweep, in the order in which they were asked for."""
    rows = connection.execute(
        select(judges, sweep_judge_rows.c.position)
        .join(sweep_judge_rows, sweep_judge_rows.c.judge_id == judges.c.id)
        .where(sweep_judge_rows.c.sweep_id == sweep_id)
        .order_by(sweep_judge_rows.c.position, judges.c.id)
    )
    found: dict[str, StoredJudge] = {}
    for row in rows:
        found.setdefault(
            row.id,
            StoredJudge(
                judge_id=row.id,
                name=row.name,
                classifies=bool(row.classifies),
                document=row.document,
                calibration=calibration_of(connection, row.document),
            ),
        )
    return list(found.values())


def load_results(connection: Connection, sweep_id: str, judge: StoredJudge) -> SweepResults:
    """All trials of the builds that ``judge`` judges in a sweep."""
    sweep = connection.execute(
        select(
            sweeps.c.name,
            corpora.c.name.label("corpus"),
            corpora.c.fingerprint,
            corpora.c.protocol,
            corpora.c.imported_at,
        )
        .join(corpora, corpora.c.id == sweeps.c.corpus_id)
        .where(sweeps.c.id == sweep_id)
    ).one()
    mine = (
        select(sweep_judge_rows.c.build_id)
        .where(sweep_judge_rows.c.sweep_id == sweep_id, sweep_judge_rows.c.judge_id == judge.judge_id)
        .scalar_subquery()
    )
    build_rows = connection.execute(
        select(builds.c.document).where(builds.c.id.in_(mine)).order_by(by_characters(builds.c.agent), builds.c.id)
    ).scalars()
    in_scope = (trials.c.sweep_id == sweep_id) & trials.c.build_id.in_(mine)
    trial_rows = connection.execute(
        select(trials.c.id, trials.c.build_id, trials.c.round, trials.c.pull_request_id, pull_requests.c.key)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(in_scope)
        .order_by(trials.c.build_id, trials.c.round, pull_requests.c.position)
    ).all()
    golden = _golden(connection, {row.pull_request_id for row in trial_rows})
    found = _candidates(connection, in_scope)
    attempted = read_attempts(connection, in_scope)
    judged = {
        row.trial_id: row
        for row in connection.execute(
            select(judgments.c.id, judgments.c.trial_id, judgments.c.scored_at)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(in_scope, judgments.c.judge_id == judge.judge_id)
        )
    }
    links, labels = _judge_answers(connection, in_scope, judge.judge_id)
    problems = trial_problems(connection, sweep_id, judge.judge_id)
    results = []
    for row in trial_rows:
        judgment = judged.get(row.id)
        is_scored = judgment is not None and judgment.scored_at is not None
        attempt = attempted.succeeded.get(row.id)
        results.append(
            TrialResult(
                trial_id=row.id,
                build_id=row.build_id,
                pull_request=row.key,
                round=row.round,
                succeeded=attempt is not None,
                review_ms=attempt.review_ms if attempt is not None else None,
                duration_seconds=attempt.duration_seconds if attempt is not None else None,
                usage=attempt.usage if attempt is not None else None,
                judged=JudgedPullRequest(
                    key=row.key,
                    golden=golden[row.pull_request_id],
                    candidates=tuple(found.get(row.id, ())),
                    correspondences=tuple(links.get(judgment.id, ())) if judgment is not None else (),
                    classifications=tuple(labels.get(judgment.id, ())) if judgment is not None else (),
                )
                if is_scored
                else None,
                problem=None if is_scored else problems.get(row.id, "not finished yet"),
                started_at=attempted.started.get(row.id),
            )
        )
    return SweepResults(
        sweep_id=sweep_id,
        sweep_name=sweep.name,
        corpus=sweep.corpus,
        corpus_fingerprint=sweep.fingerprint,
        protocol=sweep.protocol,
        pull_requests=tuple(dict.fromkeys(row.key for row in trial_rows)),
        judge=judge,
        builds=tuple(AgentBuild.model_validate(document) for document in build_rows),
        trials=tuple(results),
        imported_at=sweep.imported_at,
    )


def _golden(connection: Connection, pull_request_ids: set[int]) -> dict[int, tuple[GoldenFinding, ...]]:
    grouped: dict[int, list[GoldenFinding]] = {pull_request: [] for pull_request in pull_request_ids}
    for row in connection.execute(
        select(goldens.c.pull_request_id, goldens.c.document)
        .where(goldens.c.pull_request_id.in_(pull_request_ids))
        .order_by(goldens.c.pull_request_id, goldens.c.position)
    ):
        grouped[row.pull_request_id].append(GoldenFinding.model_validate(row.document))
    return {pull_request: tuple(findings) for pull_request, findings in grouped.items()}


def _candidates(connection: Connection, in_scope: Any) -> dict[int, list[CandidateFinding]]:
    grouped: dict[int, list[CandidateFinding]] = defaultdict(list)
    for row in connection.execute(
        select(candidates)
        .join(trials, trials.c.id == candidates.c.trial_id)
        .where(in_scope)
        .order_by(candidates.c.trial_id, candidates.c.position)
    ):
        # Validated when it was written: building without validation keeps a big sweep quick to read.
        grouped[row.trial_id].append(
            CandidateFinding.model_construct(
                file=row.file,
                start_line=row.start_line,
                end_line=row.end_line,
                message=row.message,
                producer=row.producer,
                in_diff=row.in_diff,
            )
        )
    return grouped


def _judge_answers(
    connection: Connection, in_scope: Any, judge_id: str
) -> tuple[dict[int, list[Correspondence]], dict[int, list[Classification]]]:
    pairs: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    of_judge = judgments.c.judge_id == judge_id
    for row in connection.execute(
        select(correspondences.c.judgment_id, correspondences.c.candidate, correspondences.c.golden)
        .join(judgments, judgments.c.id == correspondences.c.judgment_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(in_scope, of_judge)
        .order_by(correspondences.c.judgment_id, correspondences.c.candidate, correspondences.c.golden)
    ):
        pairs[row.judgment_id][row.candidate].append(row.golden)
    links = {
        judgment: [Correspondence(candidate=candidate, golden=tuple(golden)) for candidate, golden in records.items()]
        for judgment, records in pairs.items()
    }
    labels: dict[int, list[Classification]] = defaultdict(list)
    for row in connection.execute(
        select(classifications.c.judgment_id, classifications.c.candidate, classifications.c.document)
        .join(judgments, judgments.c.id == classifications.c.judgment_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(in_scope, of_judge)
        .order_by(classifications.c.judgment_id, classifications.c.candidate)
    ):
        labels[row.judgment_id].append(
            Classification(candidate=row.candidate, label=Label.model_validate(row.document))
        )
    return links, labels


def trial_problems(connection: Connection, sweep_id: str, judge_id: str) -> dict[int, str]:
    """Why trials have no score: the reason of a step that failed or was cancelled."""
    return {
        row.trial_id: row.reason or f"the {row.stage} step was {row.state}"
        for row in connection.execute(
            select(steps.c.trial_id, steps.c.stage, steps.c.state, steps.c.reason).where(
                steps.c.sweep_id == sweep_id,
                (steps.c.stage == Stage.REVIEW.value) | (steps.c.judge_id == judge_id),
                steps.c.state.in_((StepState.FAILED.value, StepState.CANCELLED.value)),
            )
        )
    }


def oversubscribed_builds(connection: Connection, sweep_id: str) -> frozenset[str]:
    """The builds of which a successful attempt ran while the CPU limits of all containers passed the host's cores.

    Their durations are not those of an agent with a core of its own (design.md, "Time").
    """
    found = connection.execute(
        select(trials.c.build_id)
        .join(attempts, attempts.c.trial_id == trials.c.id)
        .where(
            trials.c.sweep_id == sweep_id,
            attempts.c.outcome == "succeeded",
            attempts.c.concurrent * attempts.c.cpus > attempts.c.cores,
        )
        .distinct()
    ).scalars()
    return frozenset(found)


def find_judge(connection: Connection, sweep_id: str, reference: str | None) -> StoredJudge:
    """A sweep's judge by name or fingerprint; its first one when ``reference`` is None."""
    known = sweep_judges(connection, sweep_id)
    for judge in known:
        if reference is None or reference in {judge.name, judge.judge_id}:
            return judge
    names = ", ".join(f"{judge.name} ({judge.judge_id})" for judge in known) or "none"
    raise InputError(f"The sweep has no judgments of {reference or 'any judge'}", remedy=f"Its judges are: {names}")
