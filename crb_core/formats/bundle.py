"""The scoring bundle ``crb.bundle/1``: judgments that anyone brings, to be scored without a store or a judge.

    {"format": "crb.bundle/1", "protocol": "reviewbench", "pull_requests": [{
       "key": "...",
       "golden": [{"file", "start_line", "end_line", "message", "tp_fp", and optionally "severity", "category", "scope",
                   "difficulty", "context_required", "actionability", "producer", justifications, "provenance",
                   "source", "classifier": {"severity", "category"}}],
       "candidates": [{"file", "start_line", "end_line", "message", "producer", "in_diff"}],
       "correspondences": [{"candidate": 0, "golden": [2, 0], "probabilities": [0.9, 0.6], "reasoning": "..."}],
       "classifications": [{"candidate": 3, "tp_fp": "tp", and the axes of a golden finding}],
       "dedup_groups": [[0, 2]]}]}

Numbers in ``correspondences``, ``classifications`` and ``dedup_groups`` are positions in the arrays, from 0. A
candidate without a correspondence matches nothing; an unmatched one without a classification is unclassified.

``classifier`` holds the stored classifier label of a golden finding; it stands in where the finding has no severity or
category of its own (seed A 7.4, rule 7). ``protocol`` is optional (reviewbench unless the caller says otherwise);
``dedup_groups`` belongs to golden-comments, where files and lines may be absent. Anything unknown, repeated, out of
range or contradictory is an error with its place; nothing is repaired or dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from crb_core.errors import InputError, Where
from crb_core.finding import (
    LABEL_AXES,
    CandidateFinding,
    Finding,
    GoldenFinding,
    Label,
    NonBlank,
    Record,
)
from crb_core.formats.paths import path_problem
from crb_core.formats.strict_json import MAX_BYTES, field_path, load_json
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.protocols import Protocol, protocol_named
from crb_core.protocols.golden_comments import DedupGroups, check_dedup_groups
from crb_core.strata import check_vocabulary

__all__ = ["FORMAT", "UNKNOWN_PRODUCER", "Bundle", "read_bundle", "write_bundle"]

FORMAT = "crb.bundle/1"
#: Stands for the producer of a finding that names none; a producer filter can ask for it.
UNKNOWN_PRODUCER = "(unknown)"
#: Provenance of an axis that was filled from ``classifier``.
FROM_CLASSIFIER = "classifier"

F = TypeVar("F", GoldenFinding, CandidateFinding)

_DEFAULT_PROTOCOL = "reviewbench"
_LABEL_FIELDS = tuple(Label.model_fields)
Position = Annotated[int, Field(ge=0)]


class _ClassifierLabel(Record):
    severity: NonBlank | None = None
    category: NonBlank | None = None


class _Golden(Finding, Label):
    producer: NonBlank = UNKNOWN_PRODUCER
    source: dict[str, Any] = Field(default_factory=dict)
    classifier: _ClassifierLabel | None = None

    def record(self) -> GoldenFinding:
        label = {name: getattr(self, name) for name in _LABEL_FIELDS}
        provenance = dict(self.provenance)
        for axis in ("severity", "category"):
            if label[axis] is None and self.classifier is not None and getattr(self.classifier, axis) is not None:
                label[axis] = getattr(self.classifier, axis)
                provenance[axis] = FROM_CLASSIFIER
        return GoldenFinding(
            **{name: getattr(self, name) for name in Finding.model_fields},
            label=Label(**(label | {"provenance": provenance})),
            source=self.source,
        )


class _Candidate(CandidateFinding):
    producer: NonBlank = UNKNOWN_PRODUCER

    def record(self) -> CandidateFinding:
        return CandidateFinding(**{name: getattr(self, name) for name in CandidateFinding.model_fields})


class _Classification(Label):
    candidate: Position

    def record(self) -> Classification:
        return Classification(
            candidate=self.candidate, label=Label(**{name: getattr(self, name) for name in _LABEL_FIELDS})
        )


class _PullRequest(Record):
    key: NonBlank
    golden: tuple[_Golden, ...]
    candidates: tuple[_Candidate, ...]
    correspondences: tuple[Correspondence, ...] | None = None
    classifications: tuple[_Classification, ...] = ()
    dedup_groups: tuple[tuple[Position, ...], ...] | None = None


class _File(Record):
    format: Literal["crb.bundle/1"]
    protocol: NonBlank | None = None
    pull_requests: tuple[_PullRequest, ...]


@dataclass(frozen=True)
class Bundle:
    """A checked bundle: its pull requests in file order, under one protocol.

    ``dedup_groups`` is by pull-request key, or None where the file has none at all.
    """

    protocol: Protocol
    judged: tuple[JudgedPullRequest, ...]
    dedup_groups: Mapping[str, DedupGroups] | None


def read_bundle(
    source: Path | bytes, name: str | None = None, *, protocol: str | None = None, max_bytes: int = MAX_BYTES
) -> Bundle:
    """Read and check a bundle.

    ``protocol`` overrides nothing: it must agree with the file's own where that has one.
    Raises InputError with file and place for anything that the format or the protocol forbids.
    """
    file = name or (str(source) if isinstance(source, Path) else "bundle")
    if protocol is not None:
        rules = protocol_named(protocol)
    content = _parse(load_json(source, file, max_bytes=max_bytes), file)
    if protocol is not None and content.protocol is not None and protocol != content.protocol:
        raise InputError(
            f"the bundle was judged under the protocol {content.protocol!r}, not {protocol!r}",
            where=Where(file=file, field="protocol"),
            remedy="Leave the protocol out or name the file's own",
        )
    if protocol is None:
        with _at(file, ""):
            rules = protocol_named(content.protocol or _DEFAULT_PROTOCOL)
    judged = []
    groups: dict[str, DedupGroups] = {}
    first: dict[str, int] = {}
    for number, pr in enumerate(content.pull_requests):
        place = f"pull_requests[{number}]"
        if pr.key in first:
            raise InputError(
                f"the pull request {pr.key!r} is already at pull_requests[{first[pr.key]}]",
                where=Where(file=file, field=f"{place}.key"),
                remedy="Keep one of them; a bundle holds one round of one agent",
            )
        first[pr.key] = number
        judged.append(_judged(pr, rules, file, place))
        if pr.dedup_groups is not None:
            with _at(file, place):
                check_dedup_groups(pr.dedup_groups, len(pr.candidates))
            groups[pr.key] = pr.dedup_groups
    return Bundle(rules, tuple(judged), groups or None)


def write_bundle(
    judged: Sequence[JudgedPullRequest], *, protocol: str, dedup_groups: Mapping[str, DedupGroups] | None = None
) -> dict[str, Any]:
    """The JSON object that ``read_bundle`` reads back to equal pull requests."""
    pull_requests = []
    for pr in judged:
        entry: dict[str, Any] = {
            "key": pr.key,
            "golden": [_flat(golden.model_dump(mode="json", exclude_none=True)) for golden in pr.golden],
            "candidates": [candidate.model_dump(mode="json", exclude_none=True) for candidate in pr.candidates],
            "correspondences": [record.model_dump(mode="json", exclude_none=True) for record in pr.correspondences],
            "classifications": [
                _flat(record.model_dump(mode="json", exclude_none=True)) for record in pr.classifications
            ],
        }
        if dedup_groups is not None and pr.key in dedup_groups:
            entry["dedup_groups"] = [list(group) for group in dedup_groups[pr.key]]
        pull_requests.append(entry)
    return {"format": FORMAT, "protocol": protocol, "pull_requests": pull_requests}


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    label = data.pop("label")
    flat = data | label
    return {name: value for name, value in flat.items() if not (name in {"provenance", "source"} and not value)}


def _parse(value: Any, file: str) -> _File:
    if not isinstance(value, dict):
        raise InputError("a bundle is one JSON object", where=Where(file=file), remedy=f'Start it with "{FORMAT}"')
    if value.get("format") != FORMAT:
        raise InputError(
            f'the file does not say "format": "{FORMAT}"',
            where=Where(file=file, field="format"),
            remedy="Add it, or name a scoring bundle",
        )
    try:
        return _File.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InputError(
            _sentence(problem["type"], problem["msg"]), where=Where(file=file, field=field_path(problem["loc"]))
        ) from None


def _sentence(kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "this field is not known"
        case "missing":
            return "this field is missing"
        case "string_pattern_mismatch":
            return "the text is empty"
    message = message.removeprefix("Value error, ")
    return f"the value is wrong: {message[:1].lower()}{message[1:]}"


@contextmanager
def _at(file: str, place: str) -> Iterator[None]:
    """Adds file and outer place to an error that names only the inner one."""
    try:
        yield
    except InputError as error:
        inner = error.where.field if error.where else None
        field = ".".join(part for part in (place, inner) if part)
        raise InputError(error.problem, where=Where(file=file, field=field or None), remedy=error.remedy) from None


def _judged(pr: _PullRequest, rules: Protocol, file: str, place: str) -> JudgedPullRequest:
    for kind, findings in (("golden", pr.golden), ("candidates", pr.candidates)):
        for position, finding in enumerate(findings):
            _check_location(finding, rules, Where(file=file, field=f"{place}.{kind}[{position}]"))
    for position, golden in enumerate(pr.golden):
        for label, inner in ((golden, ""), (golden.classifier or _ClassifierLabel(), ".classifier")):
            _check_label(label, rules, file, f"{place}.golden[{position}]{inner}")
    for position, record in enumerate(pr.classifications):
        _check_label(record, rules, file, f"{place}.classifications[{position}]")
    if pr.correspondences is None and pr.golden and pr.candidates:
        raise InputError(
            "this field is missing",
            where=Where(file=file, field=f"{place}.correspondences"),
            remedy="Write an empty array if nothing matched",
        )
    for position, correspondence in enumerate(pr.correspondences or ()):
        _check_probabilities(
            correspondence, Where(file=file, field=f"{place}.correspondences[{position}].probabilities")
        )
    judged = JudgedPullRequest(
        key=pr.key,
        golden=tuple(_with_plain_path(golden.record()) for golden in pr.golden),
        candidates=tuple(_with_plain_path(candidate.record()) for candidate in pr.candidates),
        correspondences=pr.correspondences or (),
        classifications=tuple(record.record() for record in pr.classifications),
    )
    with _at(file, place):
        rules.check(judged)
    return judged


def _plain_path(path: str) -> str:
    return path.removeprefix("/work/repo/").removeprefix("./")


def _with_plain_path(finding: F) -> F:
    if finding.file is None or _plain_path(finding.file) == finding.file:
        return finding
    return finding.model_copy(update={"file": _plain_path(finding.file)})


def _check_location(finding: Finding, rules: Protocol, where: Where) -> None:
    for name in ("file", "start_line", "end_line"):
        if rules.needs_location and getattr(finding, name) is None:
            raise InputError("this field is missing", where=Where(file=where.file, field=f"{where.field}.{name}"))
    problem = path_problem(_plain_path(finding.file)) if finding.file is not None else None
    if problem:
        raise InputError(problem, where=Where(file=where.file, field=f"{where.field}.file"))


def _check_label(label: _Golden | _Classification | _ClassifierLabel, rules: Protocol, file: str, place: str) -> None:
    with _at(file, place):
        check_vocabulary([label.severity] if label.severity else None, rules.severities, "severity")
        check_vocabulary([label.category] if label.category else None, rules.categories, "category")
        for axis in getattr(label, "provenance", {}):
            if axis not in LABEL_AXES:
                raise InputError(f"{axis!r} is not a label axis", where=Where(field="provenance"))


def _check_probabilities(record: Correspondence, where: Where) -> None:
    if record.probabilities is None:
        return
    if len(record.probabilities) != len(record.golden):
        raise InputError(
            f"there are {len(record.probabilities)} probabilities for {len(record.golden)} golden findings", where=where
        )
    if not all(0 <= probability <= 1 for probability in record.probabilities):
        raise InputError("a probability is outside 0 to 1", where=where)
