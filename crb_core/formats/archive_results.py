"""The numbers of ``crb.archive/1``, made from its findings, matches and labels alone.

Export writes what these functions give; verification calls them again on what the archive holds and compares. They are
the definitions of the protocols, not the fast path of the leaderboard.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crb_core import distribution, duration
from crb_core.agent import AgentBuild
from crb_core.aggregate import ranks, to_json
from crb_core.claims import check_correspondences, claims_of
from crb_core.comment_lists import compatible_rows
from crb_core.comment_rows import CommentTrial
from crb_core.corpus import CorpusEntry
from crb_core.distribution import AcrossRounds, RoundValue
from crb_core.duration import Measurement, RoundDuration
from crb_core.formats.archive_records import CorpusRecord, JudgmentRecord, ReviewRecord
from crb_core.golden_leaderboard import strict_rows
from crb_core.identity import RowIdentity
from crb_core.matching import JudgedPullRequest
from crb_core.protocols import Protocol, answer_key
from crb_core.protocols.golden_comments import DEFAULT_PROFILE
from crb_core.rows import NO_TRIAL

__all__ = [
    "ABSENT",
    "ArchivedTrial",
    "claims_json",
    "complete_round",
    "differences",
    "evidence_digests",
    "headline",
    "ranked",
    "row_json",
    "subject_of",
    "trial_metrics",
    "trial_of",
]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_GOLDEN_COMMENTS = "golden-comments"


@dataclass(frozen=True, kw_only=True)
class ArchivedTrial:
    """One trial under one judge. ``judged`` is None without a score; ``problem`` then says why.

    ``document`` is what an imported judgment leaves open, ``probabilities`` are by (candidate, golden).
    ``is_late`` says that the answer key was not older than the trial's start (rule 14).
    """

    pull_request: str
    round: int
    succeeded: bool
    review_ms: float | None
    duration_seconds: float | None
    judged: JudgedPullRequest | None
    problem: str | None
    document: Mapping[str, Any] = field(default_factory=dict)
    probabilities: Mapping[tuple[int, int], float] = field(default_factory=dict)
    is_late: bool = False


def headline(protocol: str) -> str:
    """The metric that ranks rows: macro grounded f (rule 11), macro f, or micro f of the strict counting."""
    return "grounded_f" if protocol == "reviewbench" else "f"


def subject_of(corpus: CorpusRecord) -> str:
    """The subject of a trial identity: the corpus with its version."""
    return f"{corpus.name} {corpus.version}"


def evidence_digests(value: Any) -> set[str]:
    """Every SHA-256 in a JSON value that says where evidence is."""
    if isinstance(value, str):
        return {value} if _DIGEST.fullmatch(value) else set()
    if isinstance(value, Mapping):
        return {digest for each in value.values() for digest in evidence_digests(each)}
    if isinstance(value, list | tuple):
        return {digest for each in value for digest in evidence_digests(each)}
    return set()


def trial_of(
    review: ReviewRecord, judgment: JudgmentRecord, entry: CorpusEntry, round_number: int, corpus: CorpusRecord
) -> ArchivedTrial:
    """A trial under one judge, from the archive's own records."""
    succeeded = next((each for each in review.attempts if each.outcome == "succeeded"), None)
    return ArchivedTrial(
        pull_request=review.pull_request,
        round=round_number,
        succeeded=succeeded is not None,
        review_ms=succeeded.review_ms if succeeded else None,
        duration_seconds=succeeded.duration_seconds if succeeded else None,
        judged=JudgedPullRequest(
            key=review.pull_request,
            golden=entry.golden,
            candidates=tuple(each.finding for each in review.candidates),
            correspondences=judgment.correspondences(),
            classifications=judgment.classifications,
        )
        if judgment.problem is None
        else None,
        problem=judgment.problem,
        document=judgment.document or {},
        probabilities=judgment.probabilities(),
        is_late=_is_late(review, corpus),
    )


def _is_late(review: ReviewRecord, corpus: CorpusRecord) -> bool:
    began = review.attempts[0].started_at if review.attempts else None
    return began is not None and corpus.imported_at is not None and began <= corpus.imported_at


def claims_json(protocol: str, judged: JudgedPullRequest) -> dict[str, Any]:
    """What became of the candidates: by candidate the golden finding that it claims, and the golden ones covered."""
    if protocol == "answer-key":
        keyed = answer_key.resolve(judged)
        return {
            "claimed": {str(candidate): golden for candidate, golden in sorted(keyed.claimed.items())},
            "intended": {str(candidate): golden for candidate, golden in sorted(keyed.intended.items())},
            "found": sorted(keyed.found),
            "unkeyed": list(keyed.unkeyed(len(judged.candidates))),
        }
    if protocol == _GOLDEN_COMMENTS:
        check_correspondences(judged.correspondences, len(judged.golden), len(judged.candidates))
        return {
            "covered": sorted({golden for record in judged.correspondences for golden in record.golden}),
            "matched": sorted(record.candidate for record in judged.correspondences if record.golden),
        }
    claims = claims_of(judged)
    return {
        "claimed": {str(candidate): golden for candidate, golden in sorted(claims.claimed.items())},
        "covered": sorted(claims.covered),
        "unmatched": list(claims.unmatched(len(judged.candidates))),
    }


def trial_metrics(
    rules: Protocol, build: AgentBuild, identity: RowIdentity, judge: str, trial: ArchivedTrial
) -> dict[str, Any] | None:
    """The metrics of one scored trial, overall and by stratum; None where nothing can be scored."""
    if trial.judged is None:
        return None
    if rules.name != _GOLDEN_COMMENTS:
        only = to_json(rules.score([trial.judged]))["per_pull_request"][0]
        return {name: value for name, value in only.items() if name != "key"}
    if not trial.judged.golden:
        return None
    figures = _comments_json(build, identity, judge, [trial], [trial.pull_request])
    kept = ("tp", "fp", "fn", "precision", "recall", "f", "matched_excluded_count", "match_unrecorded_count")
    return {name: figures["strict"][name] for name in kept} | {
        "compatible": {name: figures["compatible"][name] for name in ("tp", "fp", "fn", "precision", "recall", "f")}
    }


def complete_round(protocol: str, entries: Mapping[str, CorpusEntry], reviewed: Collection[str]) -> list[str]:
    """The pull requests that a complete round has, in corpus order: those that anyone reviewed in the sweep.

    Golden-comments scores nothing without a golden comment, so there it is only those that have one.
    """
    needs_golden = protocol == _GOLDEN_COMMENTS
    return [key for key, entry in entries.items() if key in reviewed and (entry.golden or not needs_golden)]


def row_json(
    rules: Protocol,
    build: AgentBuild,
    identity: RowIdentity,
    judge: str,
    trials: Sequence[ArchivedTrial],
    scorable: Sequence[str],
) -> dict[str, Any]:
    """The row of one build under one judge, without its rank.

    ``scorable`` are the pull requests that a complete round has.
    """
    by_round = {
        number: [trial for trial in trials if trial.round == number]
        for number in sorted({trial.round for trial in trials})
    }
    row: dict[str, Any] = {
        "build": build.build_id,
        "agent": build.agent,
        "row_identity": identity.model_dump(mode="json"),
        "row_sha256": identity.sha256,
    }
    spent = {number: _round_duration(mine) for number, mine in by_round.items()}
    if rules.name == _GOLDEN_COMMENTS:
        row |= _comments_json(build, identity, judge, trials, scorable)
        used = row["strict"]["rounds_used"]
        row["round_durations"] = {str(number): each.model_dump(mode="json") for number, each in spent.items()}
        is_complete = bool(row["strict"]["ranked"])
    else:
        row |= _scored_json(rules, by_round, spent, scorable)
        used = row["rounds_used"]
        has_headline = row["macro"][headline(rules.name)]["mean"] is not None
        is_complete = bool(used) and row["scored"] == row["planned"] and has_headline
    # When an imported review ran is not recorded.
    late = sum(trial.is_late for trial in trials if trial.round in used and trial.judged is not None)
    row["answer_key_late_count"] = None if build.runner == "imported" else late
    row["ranked"] = is_complete and not row["answer_key_late_count"]
    row["duration"] = duration.across_rounds([spent[number] for number in used]).model_dump(mode="json")
    return row


def ranked(protocol: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their ranks; None for what is not ranked."""

    def value(row: dict[str, Any]) -> float | None:
        if not row["ranked"]:
            return None
        found = row["strict"]["f"] if protocol == _GOLDEN_COMMENTS else row["macro"][headline(protocol)]["mean"]
        return None if found is None else float(found)

    found = ranks([value(row) for row in rows])
    return [row | {"rank": rank} for row, rank in zip(rows, found, strict=True)]


def differences(
    stored: Any, recomputed: Any, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Every place where two JSON values differ, with both values. Numbers must be equal to the last digit.

    Arrays of different lengths are named with their lengths and compared as far as both go.
    """
    if isinstance(stored, dict) and isinstance(recomputed, dict):
        for name in sorted(stored.keys() | recomputed.keys()):
            yield from differences(stored.get(name, ABSENT), recomputed.get(name, ABSENT), (*at, name))
    elif isinstance(stored, list) and isinstance(recomputed, list):
        if len(stored) != len(recomputed):
            yield at, f"{len(stored)} entries", f"{len(recomputed)} entries"
        for place, (mine, other) in enumerate(zip(stored, recomputed, strict=False)):
            yield from differences(mine, other, (*at, place))
    elif isinstance(stored, bool) is not isinstance(recomputed, bool) or stored != recomputed:
        yield at, stored, recomputed


class _Absent:
    def __repr__(self) -> str:
        return "absent"


#: Stands for a field that one of two compared values lacks.
ABSENT = _Absent()


def _scored_json(
    rules: Protocol,
    by_round: Mapping[int, Sequence[ArchivedTrial]],
    spent: Mapping[int, RoundDuration],
    scorable: Sequence[str],
) -> dict[str, Any]:
    scores = {}
    for number, trials in by_round.items():
        judged = [trial.judged for trial in trials if trial.judged is not None]
        scores[number] = (rules.score(judged) if judged else None, len(judged), len(scorable))
    names = [name for name, info in rules.measures.metric_set.model_fields.items() if info.annotation is not int]
    counts = [name for name in rules.measures.metric_set.model_fields if name not in names]

    def across(level: str, metric: str) -> AcrossRounds:
        return distribution.across_rounds(
            [
                RoundValue(
                    number=number,
                    value=None if score is None else getattr(getattr(score, level).overall, metric),
                    scored=scored,
                    planned=planned,
                )
                for number, (score, scored, planned) in scores.items()
            ]
        )

    means = {level: {metric: across(level, metric) for metric in names} for level in ("macro", "micro")}
    lead = means["macro"][headline(rules.name)]
    used = [score for number, (score, _, _) in scores.items() if number in lead.used and score is not None]
    rounds = []
    for number, (score, scored, planned) in scores.items():
        document = None if score is None else to_json(score)
        rounds.append(
            {
                "round": number,
                "scored": scored,
                "planned": planned,
                "problems": [
                    {"pull_request": trial.pull_request, "problem": trial.problem}
                    for trial in by_round[number]
                    if trial.judged is None
                ]
                + [
                    {"pull_request": key, "problem": NO_TRIAL}
                    for key in scorable
                    if key not in {trial.pull_request for trial in by_round[number]}
                ],
                "score": document and {name: document[name] for name in document if name != "per_pull_request"},
                "duration": spent[number].model_dump(mode="json"),
            }
        )
    return {
        "rounds": rounds,
        "rounds_used": list(lead.used),
        "rounds_left_out": list(lead.left_out),
        "scored": lead.scored,
        "planned": lead.planned,
        **{level: {name: value.to_json() for name, value in values.items()} for level, values in means.items()},
        "counts": {name: sum(getattr(score.micro.overall, name) for score in used) for name in counts},
    }


def _comments_json(
    build: AgentBuild, identity: RowIdentity, judge: str, trials: Sequence[ArchivedTrial], scorable: Sequence[str]
) -> dict[str, Any]:
    """The row counted both ways (rules 18 and 19)."""
    mine = [(build, identity, [_comment_trial(trial) for trial in trials])]
    strict = strict_rows(mine, judge=judge, pull_requests=scorable, profile=DEFAULT_PROFILE)[0]
    compatible = compatible_rows(mine, judge=judge)[0]
    return {
        "strict": {"ranked": strict.ranked, "profile": DEFAULT_PROFILE, **strict.figures},
        "compatible": {"ranked": compatible.ranked, **compatible.figures},
    }


def _comment_trial(trial: ArchivedTrial) -> CommentTrial:
    return CommentTrial.of_document(
        trial.document,
        judged=trial.judged,
        pull_request=trial.pull_request,
        round=trial.round,
        problem=trial.problem,
        probabilities=trial.probabilities,
    )


def _round_duration(trials: Sequence[ArchivedTrial]) -> RoundDuration:
    return duration.round_duration(
        [
            Measurement(
                pull_request=trial.pull_request, review_ms=trial.review_ms, duration_seconds=trial.duration_seconds
            )
            for trial in trials
            if trial.succeeded
        ]
    )
