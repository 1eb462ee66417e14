"""What each producer of golden findings contributes (seed A 10; facts A12; rule 8).

Leaving a producer out drops its golden findings before anything is counted: claims are made again, and a candidate
that loses its golden finding becomes unclassified, so augmented metrics are null until a judge classifies it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from crb_core.aggregate import ratio
from crb_core.errors import InputError, Where
from crb_core.finding import GoldenFinding, Record
from crb_core.formats.bundle import UNKNOWN_PRODUCER

__all__ = [
    "Exclusion",
    "MixRow",
    "ProducerMix",
    "check_prefixes",
    "excludes",
    "exclusion",
    "left_out",
    "producer_mix",
]

#: Severities whose TPs count as weighty in a mix; ``critical`` is golden-comments' highest.
WEIGHTY = frozenset({"critical", "high", "medium"})
UNKNOWN = UNKNOWN_PRODUCER

Golden = Mapping[str, Sequence[GoldenFinding]]


class Exclusion(Record):
    """What leaving producers out removed: findings by producer, and the pull requests that have none left."""

    prefixes: tuple[str, ...]
    excluded: int
    left: int
    by_producer: dict[str, int]
    emptied: tuple[str, ...]


class MixRow(Record):
    """One producer, or one type of source. Shares are of all TPs, and of all TPs of at least medium severity."""

    name: str
    findings: int
    tps: int
    tp_rate: float | None
    share_of_tps: float | None
    share_of_weighty_tps: float | None


class ProducerMix(Record):
    """Rows by TPs, then findings (most first), then name; and how many findings name no producer or source type."""

    by_producer: tuple[MixRow, ...]
    by_source_type: tuple[MixRow, ...]
    findings: int
    without_producer: int
    without_source_type: int


def check_prefixes(prefixes: Iterable[str]) -> tuple[str, ...]:
    """The prefixes without repetitions, sorted; InputError for a blank one, which would leave everything out."""
    chosen = sorted(set(prefixes))
    for prefix in chosen:
        if not prefix.strip():
            raise InputError(
                "a blank producer prefix would leave out every golden finding",
                where=Where(field="exclude_producer"),
                remedy="Name a producer or its beginning",
            )
    return tuple(chosen)


def excludes(prefixes: Sequence[str]) -> Callable[[str], bool]:
    """Whether a producer is left out: its name begins with a prefix, case counts. An unknown producer never is."""
    return lambda producer: producer != UNKNOWN and producer.startswith(tuple(prefixes))


def exclusion(golden: Golden, prefixes: Sequence[str]) -> Exclusion:
    """What leaving out producers removes from golden sets (by pull-request key); InputError if nothing matches."""
    leave_out = excludes(prefixes)
    removed = Counter(each.producer for findings in golden.values() for each in findings if leave_out(each.producer))
    for prefix in prefixes:
        if not any(producer.startswith(prefix) for producer in removed):
            known = sorted({each.producer for findings in golden.values() for each in findings})
            raise InputError(
                f"no golden finding is of a producer that begins with {prefix!r}",
                where=Where(field="exclude_producer"),
                remedy=f"The producers are: {', '.join(known) or 'none'}",
            )
    return _exclusion(golden, prefixes, leave_out)


def left_out(golden: Golden, producer: str) -> Exclusion:
    """What leaving out exactly one producer removes."""
    return _exclusion(golden, (producer,), lambda name: name == producer)


def _exclusion(golden: Golden, prefixes: Sequence[str], leave_out: Callable[[str], bool]) -> Exclusion:
    removed = Counter(each.producer for findings in golden.values() for each in findings if leave_out(each.producer))
    return Exclusion(
        prefixes=tuple(prefixes),
        excluded=removed.total(),
        left=sum(map(len, golden.values())) - removed.total(),
        by_producer=dict(sorted(removed.items())),
        emptied=tuple(
            key for key, findings in golden.items() if findings and all(leave_out(each.producer) for each in findings)
        ),
    )


def producer_mix(golden: Golden) -> ProducerMix:
    """The mix table of golden sets (by pull-request key)."""
    findings = [each for of_pr in golden.values() for each in of_pr]
    types = [_source_type(each) for each in findings]
    return ProducerMix(
        by_producer=_rows(findings, [each.producer for each in findings]),
        by_source_type=_rows(findings, types),
        findings=len(findings),
        without_producer=sum(each.producer == UNKNOWN for each in findings),
        without_source_type=types.count(UNKNOWN),
    )


def _source_type(finding: GoldenFinding) -> str:
    value = finding.source.get("type")
    return value if isinstance(value, str) and value.strip() else UNKNOWN


def _rows(findings: Sequence[GoldenFinding], names: Sequence[str]) -> tuple[MixRow, ...]:
    tps = [each.label.tp_fp == "tp" for each in findings]
    weighty = [tp and each.label.severity in WEIGHTY for each, tp in zip(findings, tps, strict=True)]
    rows = []
    for name in set(names):
        mine = [place for place, other in enumerate(names) if other == name]
        my_tps = sum(tps[place] for place in mine)
        rows.append(
            MixRow(
                name=name,
                findings=len(mine),
                tps=my_tps,
                tp_rate=ratio(my_tps, len(mine)),
                share_of_tps=ratio(my_tps, sum(tps)),
                share_of_weighty_tps=ratio(sum(weighty[place] for place in mine), sum(weighty)),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.tps, -row.findings, row.name)))
