"""What the pictures of a leaderboard show, as tables of plain values: drawn for the eye, read out, and downloaded.

Every picture is made of a leaderboard's rows under some filters. A row that lacks a value is listed in ``absent`` with
the reason; it is never drawn at 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from crb_core.aggregate import f_measure, mean
from crb_core.comment_rows import CommentRow
from crb_core.distribution import percentile
from crb_core.fast_aggregate import f_measure_array
from crb_core.fast_score import golden_inside
from crb_core.protocols import Protocol, protocol_named
from crb_core.row_strata import row_strata
from crb_core.row_usage import comment_usage, row_usage
from crb_core.rows import RANKINGS, Row
from crb_core.samples import Sample
from crb_core.strata import Subset

__all__ = ["BASES", "PICTURES", "Picture", "Shown", "pictures"]

#: Which metrics are shown: against the golden set only, or also with what the judge's classifier calls a true positive.
BASES = ("grounded", "augmented")
#: By name what a picture shows.
PICTURES: Mapping[str, str] = {
    "precision-recall": "Precision against recall",
    "quality-duration": "Quality against duration",
    "quality-cost": "Quality against cost",
    "strata": "Quality by stratum",
    "distribution": "Distribution over pull requests",
    "union": "What each agent adds to the union",
}

AnyRow: TypeAlias = Row | CommentRow
Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Which metrics of a protocol stand for precision, recall and quality, and at which level they are averaged."""

    precision: str
    recall: str
    f: str
    level: str

    @classmethod
    def of(cls, protocol: str, basis: str) -> Shown:
        """Of a protocol; ``basis`` matters where it has grounded and augmented metrics."""
        if protocol == "reviewbench":
            return cls(precision=f"{basis}_precision", recall=f"{basis}_recall", f=f"{basis}_f", level="macro")
        level = "macro" if protocol in RANKINGS else "micro"
        return cls(precision="precision", recall="recall", f="f", level=level)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture: ``records`` of equal fields, rows that are ``absent`` from it, and what it all means.

    A record's ``agent`` and ``place`` (in the table, from 1) say whose it is; ratios are fractions of 1.
    """

    name: str
    caption: str
    records: Sequence[Record]
    absent: Sequence[Record] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return PICTURES[self.name]

    def to_json(self) -> Record:
        return {
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "records": list(self.records),
            "absent": list(self.absent),
            **self.about,
        }


def pictures(
    document: Mapping[str, Any], rows: Sequence[AnyRow], *, basis: str, subset: Subset, pull_requests: Collection[str]
) -> dict[str, Picture]:
    """Every picture of a leaderboard. ``document`` is its JSON, with intervals where these are to be drawn.

    ``rows`` are the same rows as records, in any order; ``pull_requests`` those that count.
    """
    shown = Shown.of(document["protocol"], basis)
    heads = [_Head(place, row, shown) for place, row in enumerate(document["rows"], start=1)]
    by_build = {row.build.build_id: row for row in rows}
    level = "macro mean over pull requests" if shown.level == "macro" else "micro: counts summed over pull requests"
    found = [
        _precision_recall(heads, shown, level, document["beta"]),
        _quality_duration(heads, by_build, shown, level),
        _quality_cost(heads, by_build, shown, level),
        _strata(heads, by_build, shown, protocol_named(document["protocol"])),
        _distribution(heads, by_build, shown),
        _union(heads, by_build, subset, pull_requests),
    ]
    return {each.name: each for each in found}


class _Head:
    """A row of the document as pictures need it: its place, its name, and its values with interval and reason."""

    def __init__(self, place: int, row: Mapping[str, Any], shown: Shown) -> None:
        self.build = str(row["build"])
        self.record: Record = {"place": place, "agent": row["agent"], "build": self.build}
        self._row = row
        self._metrics: Mapping[str, Any] | None = row.get(shown.level)
        self._intervals: Mapping[str, Any] = (row.get("intervals") or {}).get(shown.level) or {}

    def value(self, metric: str) -> float | None:
        value: float | None = self._row[metric] if self._metrics is None else self._metrics[metric]["mean"]
        return value

    def reason(self, metric: str) -> str:
        """Why the metric has no value."""
        words = metric.replace("_", " ")
        if metric.startswith("augmented") and self._row["counts"].get("unclassified_count"):
            return f"{words} is undefined: some unmatched findings have no label"
        reason = None if self._metrics is None else self._metrics[metric]["reason"]
        return f"{words} is undefined: {reason or 'it has no value'}"

    def interval(self, metric: str) -> tuple[float | None, float | None]:
        found = self._intervals.get(metric)
        if found is None and self._metrics is not None:
            found = self._metrics[metric].get("interval")
        return (None, None) if found is None else (found["low"], found["high"])

    def of(self, metric: str, name: str) -> Record:
        """The metric under a name, with the bounds of its interval."""
        low, high = self.interval(metric)
        return {name: self.value(metric), f"{name}_low": low, f"{name}_high": high}

    def missing(self, reason: str) -> Record:
        return {**self.record, "reason": reason}


def _precision_recall(heads: Sequence[_Head], shown: Shown, level: str, beta: float) -> Picture:
    records, absent = [], []
    for head in heads:
        undefined = next((each for each in (shown.precision, shown.recall) if head.value(each) is None), None)
        if undefined is not None:
            absent.append(head.missing(head.reason(undefined)))
            continue
        f = f_measure(head.value(shown.precision), head.value(shown.recall), beta)
        records.append(
            {**head.record, **head.of(shown.precision, "precision"), **head.of(shown.recall, "recall"), "f": f}
        )
    return Picture(
        name="precision-recall",
        caption=f"{_words(shown.precision)} and {_words(shown.recall)}, {level}, mean of the rounds, with 95% "
        f"intervals. Dashed curves: equal F{'' if beta == 1 else f' (beta {beta:g})'}.",
        records=records,
        absent=absent,
        about={"beta": beta},
    )


def _quality_duration(heads: Sequence[_Head], rows: Mapping[str, AnyRow], shown: Shown, level: str) -> Picture:
    records, absent = [], []
    for head in heads:
        seconds, deviation = _duration(rows[head.build])
        if head.value(shown.f) is None:
            absent.append(head.missing(head.reason(shown.f)))
        elif seconds is None:
            absent.append(head.missing("no review of the averaged rounds has a valid duration"))
        else:
            records.append({**head.record, **head.of(shown.f, "f"), "seconds": seconds, "seconds_std": deviation})
    return Picture(
        name="quality-duration",
        caption=f"{_words(shown.f)} ({level}) with 95% intervals, against the seconds of a review: mean of the rounds' "
        "means, of the attempts that succeeded.",
        records=records,
        absent=absent,
    )


def _duration(row: AnyRow) -> tuple[float | None, float | None]:
    """Seconds of a review and their standard deviation over the rounds."""
    if isinstance(row, Row):
        spent = row.duration
        deviation = None if spent.std_ms is None else spent.std_ms / 1000
        return (None, None) if spent.mean_ms is None else (spent.mean_ms / 1000, deviation)
    found = mean(
        mean(trial.milliseconds for trial in row.trials if trial.round == number and trial.succeeded)[0]
        for number in row.used
    )[0]
    return (None if found is None else found / 1000), None


def _quality_cost(heads: Sequence[_Head], rows: Mapping[str, AnyRow], shown: Shown, level: str) -> Picture:
    records, absent = [], []
    for head in heads:
        row = rows[head.build]
        charges = (row_usage(row) if isinstance(row, Row) else comment_usage(row)).charges
        if head.value(shown.f) is None:
            absent.append(head.missing(head.reason(shown.f)))
        elif charges.mean_usd is None:
            absent.append(head.missing(charges.reason or ""))
        else:
            usd = charges.mean_usd
            records.append({**head.record, **head.of(shown.f, "f"), "usd": usd, "reviews": charges.reviews})
    return Picture(
        name="quality-cost",
        caption=f"{_words(shown.f)} ({level}) against the mean charge of a review in US dollars. Only charges that "
        "were observed, with evidence, for every scored review; a list price is no charge.",
        records=records,
        absent=absent,
    )


def _strata(heads: Sequence[_Head], rows: Mapping[str, AnyRow], shown: Shown, protocol: Protocol) -> Picture:
    order = {("severity", value): place for place, value in enumerate(protocol.severities)}
    order |= {("category", value): len(order) + place for place, value in enumerate(protocol.categories)}
    records, absent = [], []
    for head in heads:
        row = rows[head.build]
        strata = row.strata if isinstance(row, CommentRow) else _row_strata(row, shown.f)
        if not strata:
            absent.append(head.missing("no stratum of it is counted in a round that is averaged"))
        for axis, value in sorted(strata, key=lambda name: (order.get(name, len(order)), name)):
            found, reason = strata[axis, value]
            records.append({**head.record, "axis": axis, "stratum": value, "f": found, "reason": reason})
    return Picture(
        name="strata",
        caption=f"{_words(shown.f)} of the findings of one severity or category only, mean of the rounds. "
        "An empty cell is undefined, not 0.",
        records=records,
        absent=absent,
    )


def _row_strata(row: Row, metric: str) -> dict[tuple[str, str], tuple[float | None, str | None]]:
    """By axis and value the mean of the used rounds, or why there is none."""
    found = row_strata(row, "macro", (metric,))
    return {name: (values[metric].mean, values[metric].reason) for name, values in found.items()}


def _distribution(heads: Sequence[_Head], rows: Mapping[str, AnyRow], shown: Shown) -> Picture:
    records, absent = [], []
    for head in heads:
        row = rows[head.build]
        sample = row.sample if isinstance(row, CommentRow) else row.sample() if row.used_groups else None
        scores = [] if sample is None else _by_pull_request(sample, shown.f)
        known = [score for score in scores if score is not None]
        if not known:
            absent.append(head.missing("no pull request has a defined score in a round that is averaged"))
            continue
        figures = {name: percentile(known, p) for name, p in (("p25", 0.25), ("p50", 0.5), ("p75", 0.75))}
        records.append(
            {
                **head.record,
                "minimum": min(known),
                **figures,
                "maximum": max(known),
                "pull_requests": len(known),
                "undefined": len(scores) - len(known),
                "values": sorted(known),
            }
        )
    return Picture(
        name="distribution",
        caption=f"{_words(shown.f)} of single pull requests, each the mean of its rounds: minimum, quartiles, maximum. "
        "A distribution across pull requests mixes easy and hard ones.",
        records=records,
        absent=absent,
    )


def _by_pull_request(sample: Sample, metric: str) -> list[float | None]:
    """Each pull request's F: the mean over the rounds in which it is defined."""
    names = {name: place for place, name in enumerate(sample.names)}
    parts = sample.recipe.measures.f_measures[metric]
    if sample.undefined.intersection(parts):
        return [None] * len(sample.keys)
    precision, recall = (
        np.where(
            sample.present & (sample.data[:, :, names[f"defined {name}"]] > 0),
            sample.data[:, :, names[f"value {name}"]],
            np.nan,
        )
        for name in parts
    )
    scores = f_measure_array(precision, recall, sample.beta).tolist()
    return [mean(value for value in of_rounds if value == value)[0] for of_rounds in scores]


def _union(
    heads: Sequence[_Head], rows: Mapping[str, AnyRow], subset: Subset, pull_requests: Collection[str]
) -> Picture:
    known = {head.build: _covered(rows[head.build], subset) for head in heads}
    covered = {build: found for build, found in known.items() if found is not None}
    union = frozenset[tuple[str, int]]().union(*covered.values())
    records, absent = [], []
    left, order = dict(covered), []
    together: set[tuple[str, int]] = set()
    # Greedy: next the agent that adds most; of equal ones the better placed.
    while left:
        build = max(left, key=lambda each: len(left[each] - together))
        order.append((build, len(left.pop(build) - together)))
        together |= covered[build]
    added = {build: (step, count) for step, (build, count) in enumerate(order, start=1)}
    for head in heads:
        if head.build not in covered:
            absent.append(
                head.missing("which golden findings it covers is not known: no round is averaged by position")
            )
            continue
        others = frozenset[tuple[str, int]]().union(*(found for build, found in covered.items() if build != head.build))
        step, count = added[head.build]
        records.append(
            {
                **head.record,
                "covered": len(covered[head.build]),
                "only": len(covered[head.build] - others),
                "step": step,
                "adds": count,
            }
        )
    return Picture(
        name="union",
        caption="Golden true positives that an agent covers in at least one round: those that no other agent covers, "
        f"and the rest. All agents together cover {len(union)}. Step and adds: taken one after the other, always the "
        "one that adds most.",
        records=records,
        absent=absent,
        about={"union": len(union), "pull_requests": len(pull_requests)},
    )


def _covered(row: AnyRow, subset: Subset) -> frozenset[tuple[str, int]] | None:
    """The golden true positives that are covered in a used round, as (pull request, place in the golden set).

    None where no round is used, or where nothing says which these are.
    """
    if isinstance(row, CommentRow):
        return row.covered if row.used else None
    groups = row.used_groups
    if not groups:
        return None
    arrays = row.rounds[0].scores.arrays
    position, golden = arrays.covered
    mine = np.isin(position % len(arrays.groups), list(groups.values())) & golden_inside(arrays, subset)[golden]
    prs = arrays.golden_pull_request
    return frozenset((arrays.pull_requests[int(prs[each])], int(each)) for each in np.unique(golden[mine]))


def _words(metric: str) -> str:
    words = metric.replace("_", " ")
    return "F" if words == "f" else words.removesuffix(" f") + " F" if words.endswith(" f") else words
