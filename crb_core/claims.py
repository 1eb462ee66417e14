"""From many-to-many correspondences to claims and coverage (seed A 6.2.4, rules 4 and 5).

*Covered*: a golden finding that at least one candidate raw-matches; decides recall. *Claimed*: the one golden finding
that a candidate consumes; decides precision. Claims are made once, on the full set, never again under a filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from crb_core.errors import InputError, Where
from crb_core.matching import Correspondence, JudgedPullRequest

__all__ = ["Claims", "check_classifications", "check_correspondences", "check_same_file", "claims_of", "resolve"]


@dataclass(frozen=True)
class Claims:
    """``claimed`` maps candidate to golden; ``covered`` are the golden positions that any candidate matches."""

    claimed: Mapping[int, int]
    covered: frozenset[int]

    def unmatched(self, candidate_count: int) -> tuple[int, ...]:
        """The candidates that claim nothing, ascending: never matched, or every match was claimed before."""
        return tuple(candidate for candidate in range(candidate_count) if candidate not in self.claimed)


def resolve(correspondences: Sequence[Correspondence], golden_count: int, candidate_count: int | None = None) -> Claims:
    """Claims and coverage of one pull request.

    Candidates are taken in ascending order, whatever the order of the records. Each claims the first golden finding,
    in golden order, that it matches and that no earlier candidate claimed.
    Raises InputError for a second record of one candidate, a golden named twice, a position out of range
    (candidates are only checked where ``candidate_count`` is given).
    """
    check_correspondences(correspondences, golden_count, candidate_count)
    claimed: dict[int, int] = {}
    taken: set[int] = set()
    covered: set[int] = set()
    for record in sorted(correspondences, key=lambda record: record.candidate):
        covered.update(record.golden)
        for golden in sorted(record.golden):
            if golden not in taken:
                claimed[record.candidate] = golden
                taken.add(golden)
                break
    return Claims(claimed=MappingProxyType(claimed), covered=frozenset(covered))


def claims_of(judged: JudgedPullRequest) -> Claims:
    """``resolve`` for one judged pull request."""
    return resolve(judged.correspondences, len(judged.golden), len(judged.candidates))


def check_correspondences(
    correspondences: Sequence[Correspondence], golden_count: int, candidate_count: int | None = None
) -> None:
    """Refuse positions out of range and anything said twice."""
    first: dict[int, int] = {}
    for position, record in enumerate(correspondences):
        field = f"correspondences[{position}]"
        if candidate_count is not None and record.candidate >= candidate_count:
            raise _out_of_range("candidate", record.candidate, candidate_count, f"{field}.candidate")
        if record.candidate in first:
            raise InputError(
                f"candidate {record.candidate} already has a record at correspondences[{first[record.candidate]}]",
                where=Where(field=f"{field}.candidate"),
                remedy="Write all golden findings that one candidate matches into one record",
            )
        first[record.candidate] = position
        seen: set[int] = set()
        for place, golden in enumerate(record.golden):
            if golden >= golden_count:
                raise _out_of_range("golden", golden, golden_count, f"{field}.golden[{place}]")
            if golden in seen:
                raise InputError(
                    f"golden finding {golden} is named twice for candidate {record.candidate}",
                    where=Where(field=f"{field}.golden[{place}]"),
                    remedy="Name it once",
                )
            seen.add(golden)


def check_same_file(judged: JudgedPullRequest) -> None:
    """Refuse a correspondence between findings of different files (seed A 6.2.1)."""
    for position, record in enumerate(judged.correspondences):
        candidate = judged.candidates[record.candidate]
        for place, golden in enumerate(record.golden):
            if judged.golden[golden].file != candidate.file:
                raise InputError(
                    f"candidate {record.candidate} is in {candidate.file!r} and golden finding {golden} "
                    f"in {judged.golden[golden].file!r}, but findings of different files are never matched",
                    where=Where(field=f"correspondences[{position}].golden[{place}]"),
                    remedy="Remove this match or choose a protocol without files",
                )


def check_classifications(judged: JudgedPullRequest, claimed: Mapping[int, int]) -> None:
    """Refuse a classification out of range, said twice, or of a candidate that claims a golden finding."""
    first: dict[int, int] = {}
    for position, record in enumerate(judged.classifications):
        where = Where(field=f"classifications[{position}].candidate")
        if record.candidate >= len(judged.candidates):
            raise _out_of_range("candidate", record.candidate, len(judged.candidates), where.field or "")
        if record.candidate in first:
            raise InputError(
                f"candidate {record.candidate} is already classified at classifications[{first[record.candidate]}]",
                where=where,
                remedy="Keep one classification",
            )
        if record.candidate in claimed:
            raise InputError(
                f"candidate {record.candidate} claims golden finding {claimed[record.candidate]} "
                "and takes its label, so it is not classified",
                where=where,
                remedy="Remove this classification",
            )
        first[record.candidate] = position


def _out_of_range(kind: str, position: int, count: int, field: str) -> InputError:
    allowed = f"allowed are 0 to {count - 1}" if count else "the list is empty"
    return InputError(f"there is no {kind} finding {position}: {allowed}", where=Where(field=field))
