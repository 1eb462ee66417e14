"""The matcher: chunk against chunk of findings, one request each (seed A 6.2).

It is given path, lines and message of each finding and nothing else (A 6.2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crb_core.corpus import fingerprint
from crb_core.finding import CandidateFinding, Finding, GoldenFinding
from crb_core.matching import Correspondence, JudgedPullRequest
from crb_core.prompts import MATCHING, PromptSet, filled
from crb_core.protocols import PairGroup, protocol_named
from crb_worker.judge.base import comparable
from crb_worker.judge.calls import Asker
from crb_worker.judge.questions import (
    FORMAT,
    AnswerModel,
    ModelParameters,
    Reason,
    UnusableError,
    answer_schema,
    decoded,
    settled,
)
from crb_worker.judge.quoting import Ids, element
from crb_worker.judge.requests import ModelAnswer, ModelRequest

__all__ = ["MatchAnswer", "match_pull_request", "match_request"]


class _Golden(AnswerModel):
    id: str
    issue: Reason
    minimal_fix: Reason


class _Candidate(AnswerModel):
    id: str
    issue: Reason
    minimal_fix: Reason
    matches: list[str]


class MatchAnswer(AnswerModel):
    """What the matcher answers: every finding's issue and minimal fix first, then the matches."""

    golden_findings: list[_Golden]
    candidate_findings: list[_Candidate]


def match_pull_request(
    asker: Asker,
    parameters: ModelParameters,
    prompts: PromptSet,
    key: str,
    candidates: Sequence[CandidateFinding],
    golden: Sequence[GoldenFinding],
    *,
    protocol: str,
) -> tuple[Correspondence, ...]:
    """One record a candidate, in order; the union over all golden chunks that it was compared with."""
    judged = JudgedPullRequest(key=key, golden=tuple(golden), candidates=tuple(candidates))
    matched: dict[int, set[int]] = {place: set() for place in range(len(candidates))}
    reasoning: dict[int, list[str]] = {place: [] for place in range(len(candidates))}
    for group in protocol_named(protocol).pairs(judged):
        with asker.unit():
            request = match_request(asker.ids, parameters, prompts, judged, group)
            answer, ids = settled(asker, request, lambda given: _checked(given, MatchAnswer), prompts)
            for found in answer.candidate_findings:
                place = group.candidates[_position(ids[found.id])]
                reasoning[place].append(f"Issue: {found.issue} Minimal fix: {found.minimal_fix}")
                for match in found.matches:
                    position = group.golden[_position(ids[match])]
                    # Locality proposes pairs one by one; a chunk may hold others beside them.
                    if comparable(candidates[place], golden[position], protocol):
                        matched[place].add(position)
    asker.finish()
    return tuple(
        Correspondence(
            candidate=place,
            golden=tuple(sorted(matched[place])),
            reasoning="\n".join(dict.fromkeys(reasoning[place])) or None,
        )
        for place in range(len(candidates))
    )


def match_request(
    ids: Ids, parameters: ModelParameters, prompts: PromptSet, judged: JudgedPullRequest, group: PairGroup
) -> ModelRequest:
    """The request of one chunk pair. Ids and orders are derived from its hash with the judgment's secret."""
    golden = [judged.golden[position] for position in group.golden]
    candidates = [judged.candidates[position] for position in group.candidates]
    schema = answer_schema(MatchAnswer)
    content = {
        "format": FORMAT,
        "task": "match",
        "parameters": parameters.describe(),
        "prompts": {name: prompts[name].sha256 for name in MATCHING},
        "schema": fingerprint(schema),
        "golden": [_shown(finding) for finding in golden],
        "candidates": [_shown(finding) for finding in candidates],
    }
    unnamed = ModelRequest(stage="match", label=_label(judged.key, group), content=content, body={}, ids={})
    names: dict[str, str] = {}

    def elements(kind: str, findings: Sequence[Finding]) -> str:
        lines = []
        for position in ids.order(unnamed.request_hash, kind, len(findings)):
            name = ids.of(unnamed.request_hash, kind, position)
            names[name] = f"{kind} {position}"
            finding = findings[position]
            attributes = {"id": name, "file": finding.file, "lines": finding.lines or None}
            lines.append(element("finding", finding.message, attributes))
        return "\n".join(lines)

    text = filled(
        prompts["matcher-request"], golden=elements("golden", golden), candidates=elements("candidate", candidates)
    )
    body = parameters.body(schema) | {
        "system": [{"type": "text", "text": prompts.matcher_system, "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
    }
    return ModelRequest(stage="match", label=unnamed.label, content=content, body=body, ids=names)


def _checked(given: ModelAnswer, model: type[MatchAnswer]) -> tuple[MatchAnswer, Mapping[str, str]]:
    """The answer, if it names every finding once and no other."""
    answer = decoded(given, model)
    problems: list[str] = []
    kinds = (
        ("golden", answer.golden_findings, "golden_findings"),
        ("candidate", answer.candidate_findings, "candidate_findings"),
    )
    for kind, listed, field in kinds:
        wanted = {name for name, meaning in given.ids.items() if meaning.startswith(f"{kind} ")}
        names = [each.id for each in listed]
        problems += [f"{field} names {name} twice." for name in sorted(wanted) if names.count(name) > 1]
        unknown = sum(name not in wanted for name in names)
        if unknown:
            problems.append(f"{field} holds {unknown} ids that are no {kind} finding of this request.")
        problems += [f"{field} lacks {name}." for name in sorted(wanted - set(names))]
    goldens = {name for name, meaning in given.ids.items() if meaning.startswith("golden ")}
    for each in answer.candidate_findings:
        if each.id in given.ids:
            if set(each.matches) - goldens:
                problems.append(f"matches of {each.id} holds ids that are no golden finding of this request.")
            if len(set(each.matches)) != len(each.matches):
                problems.append(f"matches of {each.id} names a golden finding twice.")
    if problems:
        raise UnusableError(problems)
    return answer, given.ids


def _position(meaning: str) -> int:
    return int(meaning.split(" ")[1])


def _shown(finding: Finding) -> dict[str, Any]:
    return {"file": finding.file, "lines": finding.lines, "message": finding.message}


def _label(key: str, group: PairGroup) -> str:
    where = f" {group.file}" if group.file is not None else ""
    return f"match {key}{where}: candidates {_numbers(group.candidates)}, golden {_numbers(group.golden)}"


def _numbers(positions: Sequence[int]) -> str:
    return ",".join(str(position) for position in positions)
