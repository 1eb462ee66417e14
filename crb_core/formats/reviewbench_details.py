"""One judged pull request of ReviewBench's ``results.details.json``: candidates with their verdicts (facts A10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crb_core.claims import claims_of
from crb_core.errors import InputError
from crb_core.finding import GoldenFinding, Label, TpFp
from crb_core.formats.imported import ImportedCandidate, ImportedJudgment, ImportedPair, JsonFile, shown
from crb_core.formats.located import Places
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.protocols import PROTOCOLS

__all__ = ["DetailsReader"]

_MATCHED = ("matched_tp", "matched_fp")
_STATUS = (*_MATCHED, "novel_tp", "novel_fp")
_FIELDS = (
    "file",
    "start_line",
    "end_line",
    "message",
    "producer",
    "in_diff",
    "status",
    "matched_golden_index",
    "covered_golden_indices",
    "golden_tp_fp",
    "golden_severity",
    "golden_category",
    "classifier_tp_fp",
    "classifier_severity",
    "classifier_category",
    "matched_to_ground_truth",
    "llm_judged_match",
    "match_method",
    "matched_truth_label",
    "llm_classification",
    "result_severity",
    "result_category",
)


class DetailsReader:
    """Reads one entry; indices are positions in the golden set of the pull request."""

    def __init__(self, file: JsonFile, number: int, golden: Sequence[GoldenFinding], places: Places) -> None:
        self._file = file
        self._number = number
        self._golden = golden
        self._places = places

    def read(
        self, record: Mapping[str, Any], *, judge: str, description: dict[str, Any]
    ) -> tuple[list[ImportedCandidate], ImportedJudgment]:
        """The candidates in order, and the judgment of them with its raw record."""
        file = self._file
        file.unknown(record, ("pr_key", "candidate_findings"), self._number)
        candidates: list[ImportedCandidate] = []
        pairs: list[ImportedPair] = []
        labels: list[Classification] = []
        recorded: dict[int, int] = {}
        before = len(file.problems.found)
        entries = file.array(record.get("candidate_findings"), self._number, "candidate_findings") or []
        for place, item in enumerate(entries):
            at = (self._number, "candidate_findings", place)
            entry = file.object(item, *at)
            candidate = self._candidate(entry, at) if entry is not None else None
            if entry is None or candidate is None:
                continue
            file.unknown(entry, _FIELDS, *at)
            candidates.append(candidate)
            covered, claimed = self._covered(entry, at)
            pairs += [ImportedPair(candidate=place, golden=each) for each in covered]
            if claimed is not None:
                recorded[place] = claimed
            label = self._label(entry, at, claimed)
            if label is not None:
                labels.append(Classification(candidate=place, label=label))
        if len(file.problems.found) == before:
            labels = self._check_claims(candidates, pairs, recorded, labels)
        judgment = ImportedJudgment(
            judge=judge,
            description=description,
            classifies=True,
            pairs=tuple(pairs),
            classifications=tuple(labels),
            document={"recorded": dict(record)},
        )
        return candidates, judgment

    def _candidate(self, entry: Mapping[str, Any], at: tuple[str | int, ...]) -> ImportedCandidate | None:
        file = self._file
        before = len(file.problems.found)
        path = file.text(entry.get("file"), *at, "file")
        start = self._places.line(entry.get("start_line"), *at, "start_line")
        end = self._places.line(entry.get("end_line"), *at, "end_line")
        message = file.text(entry.get("message"), *at, "message")
        if len(file.problems.found) > before:
            return None
        return self._places.candidate(message, path, start, end, at=at, path_at=(*at, "file"))

    def _covered(self, entry: Mapping[str, Any], at: tuple[str | int, ...]) -> tuple[list[int], int | None]:
        """The golden positions that the candidate covers, and the one that it claims."""
        status = entry.get("status")
        if not isinstance(status, str) or status not in _STATUS:
            self._file.wrong(f"{shown(status)} is no status", *at, "status", remedy=f"Use one of {', '.join(_STATUS)}")
            return [], None
        found: set[int] = set()
        listed = entry.get("covered_golden_indices")
        for place, value in enumerate(self._file.array(listed, *at, "covered_golden_indices") or ()):
            index = self._index(value, *at, "covered_golden_indices", place)
            if index is not None:
                found.add(index)
        claimed = entry.get("matched_golden_index")
        index = None if claimed is None else self._index(claimed, *at, "matched_golden_index")
        if index is not None and index not in found:
            self._file.odd("claim not covered", "the claimed golden finding is not listed as covered; it is added", *at)
            found.add(index)
        if (status in _MATCHED) != (index is not None):
            self._file.odd("status disagrees", f"status {status} with matched_golden_index {shown(claimed)}", *at)
        if index is not None and status != f"matched_{self._golden[index].label.tp_fp.value}":
            self._file.odd("status disagrees", f"status {status}, but the golden finding has the other label", *at)
        return sorted(found), index

    def _index(self, value: Any, *at: str | int) -> int | None:
        index = self._file.integer(value, *at)
        if index is not None and index >= len(self._golden):
            self._file.wrong(f"there is no golden finding {index} of {len(self._golden)}", *at)
            return None
        return index

    def _label(self, entry: Mapping[str, Any], at: tuple[str | int, ...], claimed: int | None) -> Label | None:
        """The classifier's label of an unmatched candidate; None where it gave none."""
        verdict = entry.get("classifier_tp_fp")
        if claimed is not None or verdict is None:
            if claimed is None:
                self._file.odd("missing classification", "the candidate matches nothing and has no label", *at)
            return None
        if verdict not in ("tp", "fp"):
            self._file.wrong(f"{shown(verdict)} is no label", *at, "classifier_tp_fp", remedy="Use tp or fp")
            return None
        values: dict[str, str | None] = {}
        rules = PROTOCOLS["reviewbench"]
        for axis, allowed in (("severity", rules.severities), ("category", rules.categories)):
            value = entry.get(f"classifier_{axis}")
            known = isinstance(value, str) and value in allowed
            if value is not None and not known:
                # The public tool writes its own placeholder where the classifier gave nothing.
                self._file.odd(f"unknown {axis}", f"{shown(value)} is no {axis} of the protocol", *at)
            values[axis] = value if known else None
        return Label(tp_fp=TpFp(verdict), severity=values["severity"], category=values["category"])

    def _check_claims(
        self,
        candidates: Sequence[ImportedCandidate],
        pairs: Sequence[ImportedPair],
        recorded: Mapping[int, int],
        labels: list[Classification],
    ) -> list[Classification]:
        """Compare the recorded claims with those that the definitions give; a claimed candidate has no label."""
        links: dict[int, list[int]] = {}
        for pair in pairs:
            links.setdefault(pair.candidate, []).append(pair.golden)
        judged = JudgedPullRequest(
            key="details",
            golden=tuple(self._golden),
            candidates=tuple(each.finding for each in candidates),
            correspondences=tuple(Correspondence(candidate=c, golden=tuple(g)) for c, g in sorted(links.items())),
        )
        at = (self._number, "candidate_findings")
        try:
            claimed = claims_of(judged).claimed
        except InputError as error:
            self._file.wrong(error.problem, *at, remedy=error.remedy)
            return labels
        for place in sorted(claimed.keys() | recorded.keys()):
            if claimed.get(place) != recorded.get(place):
                self._file.odd(
                    "claims disagree",
                    f"recorded claim {shown(recorded.get(place))}, by the definitions {shown(claimed.get(place))}",
                    *at,
                    place,
                )
        kept = [each for each in labels if each.candidate not in claimed]
        if len(kept) < len(labels):
            self._file.odd("label of a claimed candidate", "it is kept in the record and does not count", *at)
        return kept
