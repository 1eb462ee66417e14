"""The judge ``reference``: judgments made by people for the recorded reviewers of a corpus.

Files are ``<folder>/<reviewer>/<pull request key>.json``:

    {"reviewer": "careful", "pull_request": "<key>",
     "judgments": [{"finding": "c-<12 hex>", "matches": ["g-<12 hex>"], "label": {"tp_fp": ..., axes}}]}

Findings are named by their content, so a judgment holds for every round, and an edited finding or golden is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crb_core.corpus import Corpus, ReferenceJudgment
from crb_core.errors import InputError, Where, first_problem
from crb_core.finding import LABEL_AXES, CandidateFinding, GoldenFinding, Label
from crb_core.formats.recordings import candidate_id
from crb_core.formats.strict_json import load_json
from crb_core.matching import Classification, Correspondence
from crb_worker.judge.base import PROTOCOLS, comparable, judge_fingerprint, unknown_protocol

__all__ = ["ReferenceJudge"]

_CANDIDATE_ID = re.compile(r"^c-[0-9a-f]{12}$")
_GOLDEN_ID = re.compile(r"^g-[0-9a-f]{12}$")
_FILE_FIELDS = {"reviewer", "pull_request", "judgments"}


class ReferenceJudge:
    """Answers from people's judgments, and for the findings of the recorded reviewers only.

    Any other finding is an InputError that names it: a guess here would be taken for a person's word.
    """

    name = "reference"
    classifies = True

    def __init__(self, judgments: Mapping[str, Mapping[str, tuple[tuple[str, ...], Label]]], content: Any) -> None:
        """``judgments`` maps a pull request key and a candidate id to golden ids and label.

        ``content`` is what the files said, for the fingerprint.
        """
        self._judgments = judgments
        self._content = content
        self.fingerprint = judge_fingerprint(self.describe())

    @classmethod
    def load(cls, folder: Path, corpus: Corpus) -> ReferenceJudge:
        """Read every reviewer's files; each problem is an InputError with file and field.

        Golden ids are checked against the corpus for its pull requests.
        """
        files = sorted(folder.glob("*/*.json"))
        if not files:
            raise InputError(
                "there are no reference judgments",
                where=Where(file=str(folder)),
                remedy="The folder must hold <reviewer>/<pull request key>.json",
            )
        known = {
            entry.pull_request.key: {golden.finding_id(entry.pull_request.key) for golden in entry.golden}
            for entry in corpus.entries
        }
        judgments: dict[str, dict[str, tuple[tuple[str, ...], Label]]] = {}
        content = []
        for path in files:
            data = _read(path)
            content.append(data)
            key = data["pull_request"]
            of_pull_request = judgments.setdefault(key, {})
            for position, raw in enumerate(data["judgments"]):
                where = Where(file=str(path), field=f"judgments[{position}]")
                finding, matches, label = _judgment(raw, where, known.get(key))
                previous = of_pull_request.get(finding)
                if previous is not None and previous != (matches, label):
                    raise InputError(
                        f"the finding {finding} is judged twice, and differently",
                        where=where,
                        remedy="Make the judgments of equal findings equal",
                    )
                of_pull_request[finding] = (matches, label)
        return cls(judgments, content)

    def describe(self) -> dict[str, Any]:
        """What decides an answer: the content of the files, whatever their layout."""
        return {"judge": self.name, "judgments": self._content}

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """The judged matches, as positions in ``golden``; goldens that were left out of it (ablation) are left out."""
        if protocol not in PROTOCOLS:
            raise unknown_protocol(protocol)
        positions: dict[str, list[int]] = {}
        for position, finding in enumerate(golden):
            positions.setdefault(finding.finding_id(pull_request_key), []).append(position)
        records = []
        for place, candidate in enumerate(candidates):
            matches, _ = self._judged(pull_request_key, candidate)
            found = sorted(position for match in matches for position in positions.get(match, ()))
            for position in found:
                if not comparable(candidate, golden[position], protocol):
                    raise InputError(
                        f"the reference judgment of finding {candidate_id(pull_request_key, candidate)} of "
                        f"{pull_request_key} matches {golden[position].finding_id(pull_request_key)}, which the "
                        f"protocol {protocol} does not compare with it",
                        remedy="Findings in different files never match; correct the reference judgment",
                    )
            records.append(Correspondence(candidate=place, golden=tuple(found)))
        return tuple(records)

    def classify(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,  # noqa: ARG002
    ) -> tuple[Classification, ...]:
        """The label that a person gave each finding on its own, with provenance ``human``."""
        return tuple(
            Classification(candidate=position, label=self._judged(pull_request_key, candidates[position])[1])
            for position in positions
        )

    def _judged(self, key: str, candidate: CandidateFinding) -> tuple[tuple[str, ...], Label]:
        finding = candidate_id(key, candidate)
        judged = self._judgments.get(key, {}).get(finding)
        if judged is None:
            place = f"{candidate.file}:{candidate.lines}" if candidate.file else "no file"
            message = " ".join(candidate.message.split())
            raise InputError(
                f"the reference judge does not know the finding {finding} of {key} ({place}: "
                f"{message[:80]!r}); it covers only the findings of the recorded reviewers",
                remedy="Judge other agents with another judge, for example offline",
            )
        return judged


def _read(path: Path) -> dict[str, Any]:
    data = load_json(path)
    where = Where(file=str(path))
    if not isinstance(data, dict) or set(data) != _FILE_FIELDS or not isinstance(data["judgments"], list):
        raise InputError(
            "a reference file is an object with reviewer, pull_request and a list of judgments", where=where
        )
    for field, expected in (("reviewer", path.parent.name), ("pull_request", path.stem)):
        if data[field] != expected:
            raise InputError(
                f"the {field.replace('_', ' ')} is {str(data[field])[:80]!r}, but the file's place says {expected!r}",
                where=Where(file=str(path), field=field),
                remedy="Move the file or correct the field",
            )
    return data


def _judgment(raw: Any, where: Where, known: set[str] | None) -> tuple[str, tuple[str, ...], Label]:
    def place(field: str) -> Where:
        return Where(file=where.file, field=f"{where.field}.{field}" if field else where.field)

    if isinstance(raw, dict) and (
        type(raw.get("finding")) is int
        or (isinstance(raw.get("matches"), list) and any(type(match) is int for match in raw["matches"]))
    ):
        raise InputError(
            "the judgment names findings by position, which an edit would silently move",
            where=where,
            remedy="Run crb corpus validate --seal on the corpus, which writes content ids",
        )
    try:
        judgment = ReferenceJudgment.model_validate(raw)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InputError(f"the judgment is not valid: {problem}", where=place(field)) from None
    if not _CANDIDATE_ID.match(judgment.finding):
        raise InputError(f"{judgment.finding[:80]!r} is not a candidate id (c-<12 hex>)", where=place("finding"))
    if len(set(judgment.matches)) != len(judgment.matches):
        raise InputError("a golden finding is named twice", where=place("matches"), remedy="Keep one of them")
    for position, match in enumerate(judgment.matches):
        if not _GOLDEN_ID.match(match):
            raise InputError(f"{match[:80]!r} is not a golden id (g-<12 hex>)", where=place(f"matches[{position}]"))
        if known is not None and match not in known:
            raise InputError(
                f"the corpus has no golden finding {match}",
                where=place(f"matches[{position}]"),
                remedy="The golden was changed after it was judged; judge this finding again",
            )
    return judgment.finding, judgment.matches, _human(judgment.label, place)


def _human(raw: dict[str, Any], place: Any) -> Label:
    try:
        label = Label.model_validate(raw)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InputError(f"the label is not valid: {problem}", where=place(f"label.{field}")) from None
    given = {axis: "human" for axis in LABEL_AXES if getattr(label, axis) is not None}
    return label.model_copy(update={"provenance": {**given, **label.provenance}})
