"""Recorded reviewers: findings files that are replayed, and the judgments of people on them.

A recording, ``<reviewer>/<pull request key>.json``:

    {"reviewer": "careful", "pull_request": "<key>",
     "findings": [{"file", "start_line", "end_line", "message"}, ...], "rounds": [[0, 2], [0, 1, 2], [1]]}

Rounds hold positions in ``findings``. Reference judgments name findings by content, so that an edit is noticed:

    {"reviewer": "careful", "pull_request": "<key>",
     "judgments": [{"finding": "c-<12 hex>", "matches": ["g-<12 hex>"], "label": {"tp_fp": ..., axes}}]}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from crb_core.corpus import ReferenceJudgment
from crb_core.finding import CandidateFinding, Finding, GoldenFinding, Label, NonBlank, Record
from crb_core.formats.checked import Problems
from crb_core.formats.golden import check_label, content_key
from crb_core.formats.paths import path_problem

__all__ = ["Recording", "Reference", "candidate_id", "read_recording", "read_reference"]


def candidate_id(pull_request_key: str, finding: Finding) -> str:
    """The content id of a candidate: ``c-`` and 12 hex digits, by the recipe of ``GoldenFinding.finding_id``."""
    return f"c-{finding.content_digest(pull_request_key)}"


class _RecordingFile(Record):
    reviewer: NonBlank
    pull_request: NonBlank
    findings: tuple[dict[str, Any], ...]
    rounds: tuple[tuple[int, ...], ...] = Field(min_length=1)


class _JudgmentText(Record):
    finding: str | int
    matches: tuple[str | int, ...]
    label: dict[str, Any]


class _ReferenceFile(Record):
    reviewer: NonBlank
    pull_request: NonBlank
    judgments: tuple[_JudgmentText, ...]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a recorded reviewer says of one pull request; ``rounds`` are positions in ``findings``."""

    reviewer: str
    pull_request: str
    findings: tuple[CandidateFinding, ...]
    rounds: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The judgments on one recording, in the order of its findings.

    ``sealed`` is False while a judgment still names a finding or a golden by position.
    """

    judgments: tuple[ReferenceJudgment, ...]
    sealed: bool


def read_recording(path: Path, *, reviewer: str, key: str, problems: Problems) -> Recording | None:
    """Read one recording and check it alone; None if a problem was noted that leaves no whole recording."""
    raw = problems.json(path)
    text = None if raw is None else problems.record(_RecordingFile, raw, file=path)
    if text is None:
        return None
    _check_names(text, path, reviewer, key, problems)
    findings = []
    seen: dict[tuple[object, ...], int] = {}
    for position, item in enumerate(text.findings):
        field = f"findings[{position}]"
        finding = problems.record(CandidateFinding, item | {"producer": reviewer}, file=path, field=field)
        if finding is None:
            continue
        wrong = path_problem(finding.file) if finding.file else "the finding has no file"
        if wrong:
            problems.add(wrong, file=path, field=f"{field}.file")
        first = seen.setdefault(content_key(finding), position)
        if first != position:
            problems.add(f"this finding repeats findings[{first}]", file=path, field=field, remedy="Remove one of them")
        findings.append(finding)
    if len(findings) != len(text.findings):
        return None
    for number, round_ in enumerate(text.rounds):
        for place, position in enumerate(round_):
            if not 0 <= position < len(findings):
                problems.add(f"there is no findings[{position}]", file=path, field=f"rounds[{number}][{place}]")
        if len(set(round_)) != len(round_):
            problems.add("a finding is reported twice in one round", file=path, field=f"rounds[{number}]")
    for position in sorted(set(range(len(findings))) - {place for round_ in text.rounds for place in round_}):
        problems.add("no round reports this finding", file=path, field=f"findings[{position}]")
    return Recording(reviewer=reviewer, pull_request=key, findings=tuple(findings), rounds=text.rounds)


def read_reference(
    path: Path, *, recording: Recording, golden: tuple[GoldenFinding, ...], protocol: str, problems: Problems
) -> Reference | None:
    """Read the judgments on a recording and check them against it and the golden set; None if they cannot be whole.

    Positions, which the authors write, are turned into ids. Every finding of the recording is judged exactly once.
    """
    raw = problems.json(path)
    text = None if raw is None else problems.record(_ReferenceFile, raw, file=path)
    if text is None:
        return None
    key = recording.pull_request
    _check_names(text, path, recording.reviewer, key, problems)
    candidates = {candidate_id(key, finding): finding for finding in recording.findings}
    goldens = {finding.finding_id(key): finding for finding in golden}
    judgments: dict[str, ReferenceJudgment] = {}
    sealed = True
    for place, item in enumerate(text.judgments):
        field = f"judgments[{place}]"
        sealed = sealed and not any(isinstance(name, int) for name in (item.finding, *item.matches))
        finding = _resolve(
            item.finding, list(candidates), "finding of the recording", path, f"{field}.finding", problems
        )
        matches = [
            _resolve(match, list(goldens), "golden finding", path, f"{field}.matches[{number}]", problems)
            for number, match in enumerate(item.matches)
        ]
        label = problems.record(Label, item.label, file=path, field=f"{field}.label")
        if label is not None:
            check_label(label, file=path, field=f"{field}.label", protocol=protocol, problems=problems)
        if finding is None or label is None:
            continue
        for number, match in enumerate(matches):
            if match is not None and goldens[match].file != candidates[finding].file:
                problems.add(
                    f"a finding in {candidates[finding].file} cannot match a golden one in {goldens[match].file}",
                    file=path,
                    field=f"{field}.matches[{number}]",
                )
        if len(set(item.matches)) != len(item.matches):
            problems.add("a golden finding is named twice", file=path, field=f"{field}.matches")
        if finding in judgments:
            problems.add(f"{finding} is judged twice", file=path, field=f"{field}.finding")
        judgments[finding] = ReferenceJudgment(
            finding=finding, matches=tuple(match for match in matches if match is not None), label=item.label
        )
    for position, name in enumerate(candidates):
        if name not in judgments:
            problems.add(f"findings[{position}] of the recording ({name}) is not judged", file=path, field="judgments")
    return Reference(judgments=tuple(judgments[name] for name in candidates if name in judgments), sealed=sealed)


def _check_names(
    text: _RecordingFile | _ReferenceFile, path: Path, reviewer: str, key: str, problems: Problems
) -> None:
    if text.reviewer != reviewer:
        problems.add(f"the reviewer is {text.reviewer!r}, expected {reviewer!r}", file=path, field="reviewer")
    if text.pull_request != key:
        problems.add(f"the pull request is {text.pull_request!r}, expected {key!r}", file=path, field="pull_request")


def _resolve(name: str | int, known: list[str], what: str, path: Path, field: str, problems: Problems) -> str | None:
    if isinstance(name, int):
        if 0 <= name < len(known):
            return known[name]
        problems.add(f"there is no {what} at position {name}", file=path, field=field)
        return None
    if name in known:
        return name
    problems.add(
        f"{name} is no {what}; it was changed or removed after the judgment",
        file=path,
        field=field,
        remedy="Judge it again",
    )
    return None
