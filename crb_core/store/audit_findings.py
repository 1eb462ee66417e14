"""A pull request with every finding of every trial and what a judge says of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from crb_core.claims import resolve
from crb_core.finding import CandidateFinding, GoldenFinding, TpFp
from crb_core.formats.recordings import candidate_id
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.protocols import answer_key
from crb_core.pull_request import PullRequest
from crb_core.store.results import trial_problems
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorpusRow,
    CorrespondenceRow,
    GoldenRow,
    JudgmentRow,
    PullRequestRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters

__all__ = ["STATES", "pull_request_record", "shown_diffs"]

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
candidates = core(CandidateRow)
classifications = core(ClassificationRow)
corpora = core(CorpusRow)
correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

#: What can be said of a candidate finding; ``unmatched`` only by a protocol that does not classify.
STATES = ("matched", "intended", "novel", "false positive", "unclassified", "unmatched", "not judged")

#: Many-to-many links of one judgment: candidate to (golden, probability, reasoning).
_Links = Mapping[int, Sequence[tuple[int, float | None, str | None]]]
#: What a judgment says: its links, and by candidate the label.
_Answers = tuple[_Links, Mapping[int, dict[str, Any]]]
#: Judgments that one statement names.
_AT_ONCE = 1000


def pull_request_record(connection: Connection, sweep_id: str, key: str, judge_id: str) -> dict[str, Any] | None:
    """A pull request of a sweep: its golden findings, and of every trial each finding with what the judge says of it.

    None where the sweep does not run it. Builds that this judge does not judge are there with trials that say so.
    ``diffs`` are the digests of the diffs that reviewers were shown: one, unless the snapshot was made in two ways.
    """
    row = connection.execute(
        select(pull_requests.c.id, pull_requests.c.document, corpora.c.protocol)
        .join(corpora, corpora.c.id == pull_requests.c.corpus_id)
        .join(sweeps, sweeps.c.corpus_id == corpora.c.id)
        .where(sweeps.c.id == sweep_id, pull_requests.c.key == key)
    ).one_or_none()
    mine = (trials.c.sweep_id == sweep_id) & (trials.c.pull_request_id == (row.id if row else -1))
    planned = connection.execute(
        select(trials.c.id, trials.c.round, trials.c.build_id, builds.c.agent)
        .join(builds, builds.c.id == trials.c.build_id)
        .where(mine)
        .order_by(by_characters(builds.c.agent), trials.c.build_id, trials.c.round)
    ).all()
    if row is None or not planned:
        return None
    golden = _golden(connection, row.id)
    found = _grouped(
        connection,
        select(candidates)
        .join(trials, trials.c.id == candidates.c.trial_id)
        .where(mine)
        .order_by(candidates.c.trial_id, candidates.c.position),
        "trial_id",
    )
    reviewed = _grouped(
        connection,
        select(attempts)
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(mine)
        .order_by(attempts.c.trial_id, attempts.c.number),
        "trial_id",
    )
    judged = {
        each["trial_id"]: each
        for each in _rows(
            connection,
            select(judgments)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(mine, judgments.c.judge_id == judge_id),
        )
    }
    problems = trial_problems(connection, sweep_id, judge_id)
    answers = _answers(connection, [each["id"] for each in judged.values()])
    return {
        "pull_request": PullRequest.model_validate(row.document).model_dump(mode="json", by_alias=True),
        "protocol": row.protocol,
        "diffs": sorted({digest for of_trial in reviewed.values() for digest in _diffs(of_trial)}),
        "golden": [
            {
                "position": place,
                "finding_id": each.finding_id(key),
                **each.model_dump(mode="json", exclude={"source"}),
            }
            for place, each in enumerate(golden)
        ],
        "trials": [
            {
                "trial": trial.id,
                "agent": trial.agent,
                "build": trial.build_id,
                "round": trial.round,
                "outcome": _outcome(reviewed.get(trial.id, [])),
                "review_ms": _succeeded(reviewed.get(trial.id, []), "review_ms"),
                "evidence": _succeeded(reviewed.get(trial.id, []), "evidence") or {},
                **_under_judge(
                    answers,
                    key,
                    row.protocol,
                    golden,
                    found.get(trial.id, []),
                    judged.get(trial.id),
                    problems.get(trial.id),
                ),
            }
            for trial in planned
        ],
    }


def shown_diffs(connection: Connection, sweep_id: str, key: str) -> tuple[PullRequest, list[str]] | None:
    """A pull request of a sweep, and digests of the diffs that its reviewers were shown; None where there is none."""
    row = connection.execute(
        select(pull_requests.c.id, pull_requests.c.document)
        .join(sweeps, sweeps.c.corpus_id == pull_requests.c.corpus_id)
        .where(sweeps.c.id == sweep_id, pull_requests.c.key == key)
    ).one_or_none()
    if row is None:
        return None
    made = _rows(
        connection,
        select(attempts.c.evidence)
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(trials.c.sweep_id == sweep_id, trials.c.pull_request_id == row.id),
    )
    return PullRequest.model_validate(row.document), sorted(set(_diffs(made)))


def _under_judge(
    answers: Mapping[int, _Answers],
    key: str,
    protocol: str,
    golden: Sequence[GoldenFinding],
    found: Sequence[dict[str, Any]],
    judgment: dict[str, Any] | None,
    problem: str | None,
) -> dict[str, Any]:
    """``scored``, ``problem``, ``candidates`` and the coverage of golden findings of one trial under one judge."""
    scored = judgment is not None and judgment["scored_at"] is not None
    links, labels = answers[judgment["id"]] if judgment is not None else ({}, {})
    claimed, intended = _claimed(protocol, golden, found, links) if scored else ({}, {})
    claimants = {place: candidate for candidate, place in (claimed | intended).items()}
    by: dict[int, list[int]] = defaultdict(list)
    for candidate, of_candidate in links.items():
        for place, _, _ in of_candidate:
            by[place].append(candidate)
    return {
        "scored": scored,
        "problem": None if scored else problem or "not finished yet",
        "candidates": [
            {
                **{name: each[name] for name in ("position", "file", "start_line", "end_line", "message", "in_diff")},
                "finding_id": candidate_id(key, _candidate(each)),
                "state": _state(scored, protocol, each["position"], claimed, intended, labels, links),
                "claims": claimed.get(each["position"]),
                "matches": [
                    {"golden": place, "probability": probability, "reasoning": reasoning}
                    for place, probability, reasoning in links.get(each["position"], ())
                ],
                "label": labels.get(each["position"]),
            }
            for each in found
        ],
        "golden": [
            {
                "position": place,
                "covered": bool(by[place]) if scored else None,
                "by": sorted(by[place]),
                "claimed_by": claimants.get(place),
                "state": _golden_state(scored, protocol, each, by[place], claimants.get(place)),
            }
            for place, each in enumerate(golden)
        ],
    }


def _golden_state(scored: bool, protocol: str, golden: GoldenFinding, by: Sequence[int], claimed_by: int | None) -> str:
    """``claimed``: a candidate consumes it; ``covered by another``: only candidates that claim another one match it."""
    if not scored:
        return "not judged"
    if claimed_by is not None:
        return "claimed"
    if by:
        return "covered" if protocol == "golden-comments" else "covered by another"
    return "missed" if golden.label.tp_fp is TpFp.TP else "not reported"


def _candidate(each: Mapping[str, Any]) -> CandidateFinding:
    """Validated when it was written, and an odd one must still be shown."""
    return CandidateFinding.model_construct(
        **{name: each[name] for name in ("file", "start_line", "end_line", "message", "producer", "in_diff")}
    )


def _state(
    scored: bool,
    protocol: str,
    position: int,
    claimed: Mapping[int, int],
    intended: Mapping[int, int],
    labels: Mapping[int, dict[str, Any]],
    links: _Links,
) -> str:
    if not scored:
        return "not judged"
    if position in claimed:
        return "matched"
    if position in intended:
        return "intended"
    if protocol == "golden-comments":
        return "matched" if position in links else "unmatched"
    label = labels.get(position)
    if label is None:
        return "unclassified"
    return "novel" if label["tp_fp"] == "tp" else "false positive"


def _claimed(
    protocol: str, golden: Sequence[GoldenFinding], found: Sequence[dict[str, Any]], links: _Links
) -> tuple[dict[int, int], dict[int, int]]:
    """Candidate to the golden finding that it consumes, and to the intended trade-off that it reports.

    By the protocol's own rule; empty where it has no claims.
    """
    records = [
        Correspondence(candidate=candidate, golden=tuple(place for place, _, _ in of_candidate))
        for candidate, of_candidate in links.items()
    ]
    if protocol == "reviewbench":
        return dict(resolve(records, len(golden)).claimed), {}
    if protocol == "answer-key":
        judged = JudgedPullRequest(
            key="-",
            golden=tuple(golden),
            candidates=tuple(_candidate(each) for each in found),
            correspondences=tuple(records),
        )
        keyed = answer_key.resolve(judged)
        return dict(keyed.claimed), dict(keyed.intended)
    return {}, {}


def _answers(connection: Connection, judgment_ids: Sequence[int]) -> dict[int, _Answers]:
    """By judgment its links and labels, read together: a statement for each of hundreds took most of a page's time."""
    links: dict[int, dict[int, list[tuple[int, float | None, str | None]]]] = {each: {} for each in judgment_ids}
    labels: dict[int, dict[int, dict[str, Any]]] = {each: {} for each in judgment_ids}
    for start in range(0, len(judgment_ids), _AT_ONCE):
        some = judgment_ids[start : start + _AT_ONCE]
        for row in connection.execute(
            select(correspondences)
            .where(correspondences.c.judgment_id.in_(some))
            .order_by(correspondences.c.judgment_id, correspondences.c.candidate, correspondences.c.golden)
        ):
            found = links[row.judgment_id].setdefault(row.candidate, [])
            found.append((row.golden, row.probability, row.reasoning))
        for row in connection.execute(
            select(classifications)
            .where(classifications.c.judgment_id.in_(some))
            .order_by(classifications.c.judgment_id, classifications.c.candidate)
        ):
            label = Classification(candidate=row.candidate, label=row.document).label
            labels[row.judgment_id][row.candidate] = label.model_dump(mode="json")
    return {each: (links[each], labels[each]) for each in judgment_ids}


def _golden(connection: Connection, pull_request_id: int) -> list[GoldenFinding]:
    return [
        GoldenFinding.model_validate(document)
        for document in connection.execute(
            select(goldens.c.document).where(goldens.c.pull_request_id == pull_request_id).order_by(goldens.c.position)
        ).scalars()
    ]


def _diffs(of_trial: Sequence[Mapping[str, Any]]) -> list[str]:
    """The diffs that the attempts were shown, by digest."""
    found = [(each["evidence"] or {}).get("diff") for each in of_trial]
    return [digest for digest in found if isinstance(digest, str)]


def _rows(connection: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(query)]


def _grouped(connection: Connection, query: Any, column: str) -> dict[int, list[dict[str, Any]]]:
    grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(connection, query):
        grouped[row[column]].append(row)
    return grouped


def _outcome(of_trial: Sequence[Mapping[str, Any]]) -> str | None:
    """The outcome of the last attempt; None before the first one, and while one runs."""
    return of_trial[-1]["outcome"] if of_trial else None


def _succeeded(of_trial: Sequence[Mapping[str, Any]], name: str) -> Any:
    return next((each[name] for each in of_trial if each["outcome"] == "succeeded"), None)
