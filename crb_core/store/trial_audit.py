"""What stands behind a trial: identity, attempts, usage and charges, findings, judgments and calls, with the evidence.

Nothing is left out because it is bad: an artifact that is missing, malformed or not what its digest says is listed with
that state (seed B, *Content-addressed evidence*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import AgentBuild
from crb_core.diff import DiffIndex
from crb_core.errors import CrbError, InputError
from crb_core.evidence import EvidenceStore
from crb_core.evidence_state import read_blob
from crb_core.finding import Label
from crb_core.formats.strict_json import load_json
from crb_core.identity import TrialIdentity
from crb_core.pull_request import PullRequest
from crb_core.store.reviews import Reviews
from crb_core.store.tables import (
    AgentBuildRow,
    AttemptRow,
    CandidateRow,
    ClassificationRow,
    CorpusRow,
    ImportRow,
    JudgeCallRow,
    JudgeRow,
    JudgmentRow,
    PullRequestRow,
    ScoreRow,
    Stage,
    StepRow,
    SweepRow,
    TrialRow,
    core,
)
from crb_core.store.texts import by_characters
from crb_core.store.trial_matches import matches_of_trial
from crb_core.store.trials import MAX_NUMBER

__all__ = ["artifacts", "trial_document", "trial_record"]

FORMAT = "crb.trial/1"

attempts = core(AttemptRow)
builds = core(AgentBuildRow)
calls = core(JudgeCallRow)
candidates = core(CandidateRow)
classifications = core(ClassificationRow)
corpora = core(CorpusRow)
imports = core(ImportRow)
judges = core(JudgeRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
scores = core(ScoreRow)
steps = core(StepRow)
sweeps = core(SweepRow)
trials = core(TrialRow)

#: What of a judge's call is nobody's business: with the secret a later answer could be forged.
_PRIVATE = {"id", "trial_id", "secret", "request_hash"}
#: What evidence can be checked for beyond its digest, by name.
_FORMS: Mapping[str, Callable[[bytes], None]]


def trial_document(connection: Connection, evidence: EvidenceStore, trial_id: int) -> dict[str, Any] | None:
    """``crb.trial/1``: ``trial_record`` with every artifact read and checked; None where there is no such trial."""
    record = trial_record(connection, trial_id)
    if record is None:
        return None
    files = _imported_files(connection, record["sweep_id"])
    return {"format": FORMAT, **record, "artifacts": list(artifacts(evidence, record, files))}


def trial_record(connection: Connection, trial_id: int) -> dict[str, Any] | None:
    """A trial with identity, steps, attempts, usage, findings, judgments and calls; None where there is none.

    ``matches`` of a judgment are all pairs that its judge matched, and which of them claim (``trial_matches``);
    ``labels`` are what its judge said of candidates that claim no golden finding, with its reasons.
    ``rows`` are the identities of the leaderboard rows that it belongs to, one a judge. ``usage`` is what the attempt
    that succeeded reported, with the models it counts and the SHA-256 of the evidence for a charge.
    """
    if not 0 < trial_id <= MAX_NUMBER:
        return None
    row = connection.execute(
        select(
            trials.c.id,
            trials.c.round,
            trials.c.build_id,
            sweeps.c.id.label("sweep_id"),
            sweeps.c.name.label("sweep"),
            corpora.c.name.label("corpus"),
            corpora.c.version,
            corpora.c.fingerprint,
            corpora.c.protocol,
            builds.c.document.label("build"),
            pull_requests.c.document.label("pull_request"),
            pull_requests.c.answer_key_fingerprint,
        )
        .join(sweeps, sweeps.c.id == trials.c.sweep_id)
        .join(builds, builds.c.id == trials.c.build_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .join(corpora, corpora.c.id == pull_requests.c.corpus_id)
        .where(trials.c.id == trial_id)
    ).one_or_none()
    if row is None:
        return None
    build = AgentBuild.model_validate(row.build)
    pull_request = PullRequest.model_validate(row.pull_request)
    identity = TrialIdentity.of_build(
        build,
        subject=f"{row.corpus} {row.version}",
        pull_request=pull_request.key,
        reviewed_sha=pull_request.recorded_head,
        answer_key_fingerprint=row.answer_key_fingerprint,
    )
    made = _rows(connection, _columns(attempts, {"id", "trial_id"}).where(attempts.c.trial_id == trial_id))
    made.sort(key=lambda attempt: int(attempt["number"]))
    of_steps = _rows(
        connection,
        select(
            steps.c.id, steps.c.stage, steps.c.judge_id, steps.c.state, steps.c.fence, steps.c.losses, steps.c.reason
        )
        .where(steps.c.trial_id == trial_id)
        .order_by(steps.c.id),
    )
    review = next((step for step in of_steps if step["stage"] == Stage.REVIEW.value), None)
    judged = _judgments(connection, trial_id, row.protocol)
    return {
        "trial": row.id,
        "sweep": row.sweep,
        "sweep_id": row.sweep_id,
        "protocol": row.protocol,
        "pull_request": pull_request.key,
        "agent": build.agent,
        "build": row.build_id,
        "runner": build.runner,
        "isolated": build.isolated,
        "round": row.round,
        "review": None if review is None else review["state"],
        "reason": None if review is None else review["reason"],
        "outcome": made[-1]["outcome"] if made else None,
        "review_ms": next((each["review_ms"] for each in made if each["outcome"] == "succeeded"), None),
        "identity": identity.model_dump(mode="json"),
        "identity_sha256": identity.sha256,
        "rows": [_row_identity(identity, row, each) for each in judged],
        "steps": of_steps,
        "attempts": made,
        "usage": _usage(connection, row),
        "findings": _rows(
            connection,
            _columns(candidates, {"trial_id"}).where(candidates.c.trial_id == trial_id).order_by(candidates.c.position),
        ),
        "judgments": judged,
        "scores": _rows(
            connection,
            select(judges.c.name.label("judge"), judges.c.id.label("judge_id"), scores.c.document.label("score"))
            .join(judgments, judgments.c.id == scores.c.judgment_id)
            .join(judges, judges.c.id == judgments.c.judge_id)
            .where(judgments.c.trial_id == trial_id)
            .order_by(by_characters(judges.c.name), judges.c.id),
        ),
        "calls": _rows(connection, _columns(calls, _PRIVATE).where(calls.c.trial_id == trial_id).order_by(calls.c.id)),
    }


def artifacts(evidence: EvidenceStore, record: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Every blob that a trial's record names, read and checked.

    ``of`` says whose it is: an attempt's number, a call's label, or the import. ``state`` is ``present``, ``missing``,
    ``malformed``, ``digest differs`` or ``unreadable``, ``detail`` says what is wrong, and ``bytes`` is the size where
    it could be read. ``files`` are the digests of imported files by name.
    """
    for attempt in record["attempts"]:
        stored = attempt["evidence"] or {}
        for name, digest in sorted(stored.items()):
            if not isinstance(digest, bool):
                is_cut = stored.get(f"{name}_truncated") is True
                yield _artifact(evidence, f"attempt {attempt['number']}", name, digest) | {"truncated": is_cut}
        for source in (attempt["source"] or {}).get("files") or ():
            named = str(source.get("file")) if isinstance(source, Mapping) else str(source)
            if named in files:
                yield _artifact(evidence, "import", named, files[named]) | {"truncated": False}
    for call in record["calls"]:
        for name in ("request", "answer"):
            if call[f"{name}_digest"] is not None:
                of = f"{call['stage']} call {call['attempt']}: {call['label']}"
                yield _artifact(evidence, of, name, call[f"{name}_digest"]) | {"truncated": False}


def _artifact(evidence: EvidenceStore, of: str, name: str, digest: Any) -> dict[str, Any]:
    found = read_blob(evidence, digest)
    state, detail = found.state, found.detail
    if found.data is not None and name in _FORMS and of != "import":
        try:
            _FORMS[name](found.data)
        except CrbError as error:
            state, detail = "malformed", str(error)
    return {
        "of": of,
        "name": name,
        "sha256": digest if isinstance(digest, str) else None,
        "state": state,
        "bytes": None if found.data is None else len(found.data),
        "detail": detail,
    }


def _check_findings(data: bytes) -> None:
    document = load_json(data, "findings.json", max_depth=32)
    if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
        raise InputError("the findings file is no object with an array of findings")


def _check_diff(data: bytes) -> None:
    DiffIndex.parse(data)


_FORMS = {"findings": _check_findings, "diff": _check_diff}


def _row_identity(identity: TrialIdentity, row: Any, judged: Mapping[str, Any]) -> dict[str, Any]:
    of_row = identity.row(corpus_fingerprint=row.fingerprint, protocol=row.protocol, judge=judged["judge_id"])
    return {
        "judge": judged["judge"],
        "judge_id": judged["judge_id"],
        "row_identity": of_row.model_dump(mode="json"),
        "row_sha256": of_row.sha256,
    }


def _judgments(connection: Connection, trial_id: int, protocol: str) -> list[dict[str, Any]]:
    """Each judge's judgment with its raw matches and the labels that it gave, by the candidate's position."""
    found = _rows(
        connection,
        select(
            judgments.c.id,
            judges.c.name.label("judge"),
            judges.c.id.label("judge_id"),
            judgments.c.matched_at,
            judgments.c.classified_at,
            judgments.c.scored_at,
        )
        .join(judges, judges.c.id == judgments.c.judge_id)
        .where(judgments.c.trial_id == trial_id)
        .order_by(by_characters(judges.c.name), judges.c.id),
    )
    labels: dict[int, list[dict[str, Any]]] = {each["id"]: [] for each in found}
    for row in connection.execute(
        select(classifications)
        .where(classifications.c.judgment_id.in_(list(labels)))
        .order_by(classifications.c.judgment_id, classifications.c.candidate)
    ):
        label = Label.model_validate(row.document).model_dump(mode="json")
        labels[row.judgment_id].append({"candidate": row.candidate, **label})
    matches = matches_of_trial(connection, trial_id, protocol)
    return [
        {name: value for name, value in each.items() if name != "id"}
        | {"matches": matches.get(each["id"], []), "labels": labels[each["id"]]}
        for each in found
    ]


def _usage(connection: Connection, row: Any) -> dict[str, Any] | None:
    """The usage record of the successful attempt; ``problem`` says what is wrong with one that cannot be counted."""
    reviews = Reviews(connection, row.sweep_id, trials.c.id == row.id)
    try:
        usage = reviews.of_trial(row.id)["usage"]
    except InputError as error:
        return {"problem": str(error)}
    return None if usage is None else usage.model_dump(mode="json") | {"problem": None}


def _imported_files(connection: Connection, sweep_id: str) -> dict[str, str]:
    """By name, with and without its folders, the digest of what was imported into a sweep."""
    found: dict[str, str] = {}
    for document in connection.execute(
        select(imports.c.document).where(imports.c.kind == "sweep", imports.c.target == sweep_id)
    ).scalars():
        for name, digest in (document.get("files") or {}).items():
            found.setdefault(PurePath(name).name, digest)
            found[name] = digest
    return found


def _columns(table: Any, hidden: Sequence[str] | set[str]) -> Any:
    return select(*(column for column in table.c if column.name not in hidden))


def _rows(connection: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(query)]
