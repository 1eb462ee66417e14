"""One recorded evaluation of the golden-comments benchmark, from texts to positions (facts C1, C3; rule 19)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from crb_core.finding import GoldenFinding
from crb_core.formats.imported import ImportedJudgment, ImportedPair, JsonFile, shown
from crb_core.protocols.golden_comments import CATEGORIES, RECORDED_LISTS

__all__ = ["EvaluationReader", "text_lists"]

_FIELDS = (
    *RECORDED_LISTS,
    "skipped",
    "reason",
    "errors",
    "total_candidates",
    "total_golden",
    "tp",
    "fp",
    "fn",
    "errors_count",
    "precision",
    "recall",
    "tool",
    "repo_name",
    "pr_url",
)
_TP_FIELDS = ("golden_comment", "matched_candidate", "severity", "category", "confidence", "reasoning")
_FN_FIELDS = ("golden_comment", "severity", "category")


def text_lists(record: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every candidate text that an evaluation names, with its place inside the record."""
    for name, key in (("true_positives", "matched_candidate"), ("false_positives", "candidate")):
        entries = record.get(name)
        for place, item in enumerate(entries if isinstance(entries, list) else ()):
            text = item.get(key) if isinstance(item, dict) else item
            if isinstance(text, str):
                yield (name, place), text


class EvaluationReader:
    """Reads one evaluation against the golden comments and candidates of its review."""

    def __init__(
        self,
        file: JsonFile,
        cell: tuple[str, str],
        *,
        golden: Sequence[GoldenFinding],
        candidates: Sequence[str],
        extracted: int,
        dedup_groups: Sequence[Sequence[int]] | None,
    ) -> None:
        self._file = file
        self._cell = cell
        self._golden = golden
        self._golden_at = _positions([finding.message for finding in golden])
        self._candidate_at = _positions(candidates)
        self._candidates = candidates
        self._extracted = extracted
        self._dedup = dedup_groups

    def read(
        self, record: dict[str, Any], *, judge: str, description: dict[str, Any], is_trigger: Callable[[str], bool]
    ) -> ImportedJudgment:
        """The judgment, with the record itself and what it leaves open in its document."""
        self._file.unknown(record, _FIELDS, *self._cell)
        skipped = record.get("skipped")
        if skipped is not None and not isinstance(skipped, bool):
            self._wrong("this must be true or false", "skipped")
        document: dict[str, Any] = {"recorded": record}
        if self._dedup is not None:
            document["dedup_groups"] = [list(group) for group in self._dedup]
        if skipped is True:
            reason = f"the judge skipped it: {shown(record.get('reason') or 'no reason recorded')}"
            self._odd("skipped evaluation", reason)
            return ImportedJudgment(judge=judge, description=description, document=document, problem=reason)
        lists = {name: self._list(record, name) for name in RECORDED_LISTS}
        pairs = self._pairs(lists["true_positives"])
        missed = self._missed(lists["false_negatives"])
        unmatched = self._unmatched(lists["false_positives"])
        self._check_totals(record, lists, is_trigger)
        self._check_labels(lists)
        failed = self._failed_pairs(record)

        matched_golden = {pair.golden for pair in pairs}
        matched = {pair.candidate for pair in pairs}
        unjudged = {place for place in range(len(self._golden)) if place not in matched_golden | missed}
        for place in sorted(unjudged):
            self._odd("golden comment not judged", f"golden comment {place} is in no list of the evaluation")
        unjudged |= {golden for golden, _ in failed if golden not in matched_golden}
        self._check_contradictions(matched_golden & missed, matched & unmatched)
        unrecorded = {place for place in range(len(self._candidates)) if place not in matched | unmatched}
        self._report_displaced(unrecorded, matched)
        unrecorded |= {candidate for _, candidate in failed if candidate not in matched}
        categories = self._categories(lists)
        if self._unknown_errors(record):
            document["unscorable"] = "the judge failed on pairs that its record does not name"
        if unrecorded:
            document["match_unrecorded"] = sorted(unrecorded)
        if unjudged:
            document["golden_unjudged"] = sorted(unjudged)
        if categories:
            document["golden_categories"] = {str(place): name for place, name in sorted(categories.items())}
        return ImportedJudgment(judge=judge, description=description, pairs=tuple(pairs), document=document)

    # -- the three lists --------------------------------------------------------------------------------------------

    def _list(self, record: Mapping[str, Any], name: str) -> list[Any]:
        return self._file.array(record.get(name), *self._cell, name) or []

    def _entry_text(self, item: Any, name: str, place: int, key: str, known: Sequence[str]) -> str | None:
        """The text of a list's entry; an entry may be the text itself, as an older form of the file has it."""
        if isinstance(item, str) and name != "true_positives":
            return self._file.text(item, *self._cell, name, place)
        entry = self._file.object(item, *self._cell, name, place)
        if entry is None:
            return None
        self._file.unknown(entry, known, *self._cell, name, place)
        return self._file.text(entry.get(key), *self._cell, name, place, key)

    def _goldens(self, text: str, *parts: str | int) -> list[int]:
        found = self._golden_at.get(text, [])
        if not found:
            self._odd("golden comment of another version", f"the corpus has no comment {shown(text)}", *parts)
        return found

    def _pairs(self, entries: list[Any]) -> list[ImportedPair]:
        pairs: dict[tuple[int, int], ImportedPair] = {}
        seen: Counter[str] = Counter()
        for place, item in enumerate(entries):
            parts = ("true_positives", place)
            golden_text = self._entry_text(item, *parts, "golden_comment", _TP_FIELDS)
            candidate_text = self._entry_text(item, *parts, "matched_candidate", _TP_FIELDS)
            if golden_text is None or candidate_text is None:
                continue
            seen[golden_text] += 1
            probability = self._confidence(item.get("confidence"), parts)
            reasoning = item.get("reasoning")
            for golden in self._goldens(golden_text, *parts, "golden_comment"):
                for candidate in self._candidate_at.get(candidate_text, []):
                    pairs.setdefault(
                        (candidate, golden),
                        ImportedPair(
                            candidate=candidate,
                            golden=golden,
                            probability=probability,
                            reasoning=reasoning if isinstance(reasoning, str) else None,
                        ),
                    )
        for text, number in seen.items():
            if number > max(1, len(self._golden_at.get(text, []))):
                self._odd("golden comment listed twice", f"{shown(text)} is a true positive {number} times")
        return [pairs[key] for key in sorted(pairs)]

    def _confidence(self, value: Any, parts: tuple[str | int, ...]) -> float | None:
        if value is None or isinstance(value, str):
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            self._odd("unusable confidence", f"{shown(value)} is no number from 0 to 1", *parts, "confidence")
            return None
        return float(value)

    def _missed(self, entries: list[Any]) -> set[int]:
        missed: set[int] = set()
        for place, item in enumerate(entries):
            text = self._entry_text(item, "false_negatives", place, "golden_comment", _FN_FIELDS)
            if text is not None:
                missed.update(self._goldens(text, "false_negatives", place))
        return missed

    def _unmatched(self, entries: list[Any]) -> set[int]:
        unmatched: set[int] = set()
        seen: set[str] = set()
        for place, item in enumerate(entries):
            text = self._entry_text(item, "false_positives", place, "candidate", ("candidate",))
            if text is None:
                continue
            if text in seen:
                self._odd(
                    "candidate listed twice", f"{shown(text)} is a false positive twice", "false_positives", place
                )
            seen.add(text)
            unmatched.update(self._candidate_at.get(text, []))
        return unmatched

    # -- what disagrees or stays open ---------------------------------------------------------------------------------

    def _check_totals(
        self, record: Mapping[str, Any], lists: Mapping[str, list[Any]], is_trigger: Callable[[str], bool]
    ) -> None:
        tp, fp, fn = (len(lists[name]) for name in RECORDED_LISTS)
        triggers = sum(is_trigger(text) and text not in self._candidate_at for _, text in text_lists(record))
        expected: dict[str, float] = {
            "tp": tp,
            "fp": fp,
            "fn": fn,
            "total_golden": len(self._golden),
            "total_candidates": len(self._candidates) + triggers,
            "errors_count": len(record["errors"]) if isinstance(record.get("errors"), list) else 0,
        }
        for name, counted in expected.items():
            stated = record.get(name)
            if stated is not None and (isinstance(stated, bool) or stated != counted):
                self._odd("totals disagree", f"says {shown(stated)}, the lists give {counted}", name)
        total = expected["total_candidates"]
        figures = {"precision": tp / total if total else 0.0, "recall": tp / (tp + fn) if tp + fn else 0.0}
        for name, counted in figures.items():
            stated = record.get(name)
            if stated is None:
                continue
            is_number = isinstance(stated, int | float) and not isinstance(stated, bool)
            if not is_number or not math.isclose(stated, counted, abs_tol=5e-4):
                self._odd("totals disagree", f"says {shown(stated)}, the lists give {counted:.4f}", name)
        if record.get("tool") not in (None, self._cell[1]):
            self._odd("tool differs", f"says {shown(record['tool'])}, but stands under {self._cell[1]}", "tool")

    def _check_labels(self, lists: Mapping[str, list[Any]]) -> None:
        for name in ("true_positives", "false_negatives"):
            for place, item in enumerate(lists[name]):
                text = item.get("golden_comment") if isinstance(item, dict) else None
                at = self._golden_at.get(text, []) if isinstance(text, str) else []
                for axis in ("severity", "category") if at else ():
                    stated, known = item.get(axis), getattr(self._golden[at[0]].label, axis)
                    if stated is None or (axis == "category" and known is None):
                        continue
                    if not isinstance(stated, str) or stated.lower() != known:
                        problem = f"says {shown(stated)}, the corpus says {shown(known)}"
                        self._odd(f"{axis} differs", problem, name, place, axis)

    def _categories(self, lists: Mapping[str, list[Any]]) -> dict[int, str]:
        """Categories that only the evaluation records, by golden position."""
        found: dict[int, str] = {}
        for name in ("true_positives", "false_negatives"):
            for place, item in enumerate(lists[name]):
                category = item.get("category") if isinstance(item, dict) else None
                if category is None or not isinstance(item.get("golden_comment"), str):
                    continue
                for golden in self._golden_at.get(item["golden_comment"], []):
                    if self._golden[golden].label.category is not None:
                        continue
                    if isinstance(category, str) and category.lower() in CATEGORIES:
                        found[golden] = category.lower()
                        self._odd("category only in an evaluation", "it is used for this judgment", name, place)
                    else:
                        self._wrong(f"{shown(category)} is no category of this benchmark", name, place, "category")
        return found

    def _failed_pairs(self, record: Mapping[str, Any]) -> list[tuple[int, int]]:
        """The pairs on which the judge failed: (golden, candidate) positions."""
        errors = record.get("errors")
        if errors is None:
            return []
        failed: list[tuple[int, int]] = []
        for place, item in enumerate(self._file.array(errors, *self._cell, "errors") or ()):
            golden = item.get("golden") if isinstance(item, dict) else None
            candidate = item.get("candidate") if isinstance(item, dict) else None
            at = [
                (one, other)
                for one in (self._golden_at.get(golden, []) if isinstance(golden, str) else [])
                for other in (self._candidate_at.get(candidate, []) if isinstance(candidate, str) else [])
            ]
            if at:
                self._odd("pair that the judge failed on", "golden comment and candidate stay open", "errors", place)
            else:
                self._odd("error without a known pair", "it cannot be said what it concerns", "errors", place)
            failed += at
        return failed

    def _unknown_errors(self, record: Mapping[str, Any]) -> int:
        """How many failures cannot be told to concern a pair: those could be any."""
        errors = record.get("errors")
        listed = errors if isinstance(errors, list) else []
        known = [
            item
            for item in listed
            if isinstance(item, dict)
            and isinstance(item.get("golden"), str)
            and isinstance(item.get("candidate"), str)
            and item["golden"] in self._golden_at
            and item["candidate"] in self._candidate_at
        ]
        stated = record.get("errors_count")
        counted = stated if isinstance(stated, int) and not isinstance(stated, bool) else 0
        return max(len(listed), counted) - len(known)

    def _check_contradictions(self, golden: set[int], candidates: set[int]) -> None:
        for place in sorted(golden):
            self._odd("contradiction", f"golden comment {place} is found and missed; it counts as found")
        for place in sorted(candidates):
            self._odd("contradiction", f"candidate {place} is matched and a false positive; it counts as matched")

    def _report_displaced(self, unrecorded: set[int], matched: set[int]) -> None:
        siblings = {place for group in self._dedup or () if set(group) & matched for place in group}
        for place in sorted(unrecorded - siblings):
            if place < self._extracted:
                self._odd("displaced candidate", f"candidate {place} is in no list: its match is not recorded")

    def _wrong(self, problem: str, *parts: str | int) -> None:
        self._file.wrong(problem, *self._cell, *parts)

    def _odd(self, kind: str, problem: str, *parts: str | int) -> None:
        self._file.odd(kind, problem, *self._cell, *parts)


def _positions(texts: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        found.setdefault(text, []).append(place)
    return found
