"""People go over the labels of a golden set: what they confirm, what they correct, and how often the labels were right.

The figures are those of seed A 5.4: equal answers on tp/fp and category, severity equal and within one level with the
direction of the differences. They are by who gave the label before: a classifier's are its measured agreement, people's
are what was revised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from crb_core.corpus import Corpus
from crb_core.errors import InputError
from crb_core.finding import LABEL_AXES, GoldenFinding, Label, Record
from crb_core.golden_sets import HUMAN, HUMAN_CORRECTED, AxisChange, relabelled

__all__ = ["Audit", "AuditedAxis", "audit_labels"]

#: By (pull request key, golden finding id) the axes that people answered.
Answers = Mapping[tuple[str, str], Mapping[str, str]]
NOT_RECORDED = "not recorded"


class AuditedAxis(Record):
    """Labels of one axis by one origin that people looked at.

    ``confusion`` maps people's answer to the earlier values with their counts; ``filled`` were absent before. Of an
    ordered axis ``within_one`` counts answers at most one level apart, ``people_higher`` and ``people_lower`` those
    that people rate more and less severe; None of all others.
    """

    axis: str
    by: str
    n: int = Field(ge=0)
    equal: int = Field(ge=0)
    within_one: int | None = None
    people_higher: int | None = None
    people_lower: int | None = None
    confusion: dict[str, dict[str, int]]

    @property
    def agreement(self) -> float | None:
        """The share of equal answers; None where nothing was looked at."""
        return self.equal / self.n if self.n else None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The golden sets after an audit, by key of the pull requests that it touches, and what it found.

    ``filled`` counts by axis the values that were absent before.
    """

    golden: Mapping[str, tuple[GoldenFinding, ...]]
    changes: tuple[AxisChange, ...]
    axes: tuple[AuditedAxis, ...]
    filled: Mapping[str, int]
    findings: int


def audit_labels(corpus: Corpus, raters: Mapping[str, Answers], *, severities: Sequence[str]) -> Audit:
    """Apply people's answers, by rater, to the labels of a corpus.

    An axis with the same answer becomes ``human``, another one ``human-corrected``; its earlier value, who gave it and
    why stay in the finding's ``source`` under ``audit``, and a justification that argued for another value goes.
    ``severities`` are from the most to the least severe. InputError for a finding that the corpus does not have, for
    an answer on ``matches``, and where two raters differ.
    """
    answers = _agreed(raters)
    known = {
        (entry.pull_request.key, finding.finding_id(entry.pull_request.key))
        for entry in corpus.entries
        for finding in entry.golden
    }
    for key, identifier in answers:
        if (key, identifier) not in known:
            raise InputError(
                f"the corpus {corpus.name} has no golden finding {identifier[:100]} in {key[:100]}",
                remedy="`crb corpus show NAME --json` lists their ids",
            )
    made: dict[str, tuple[GoldenFinding, ...]] = {}
    changes: list[AxisChange] = []
    seen: list[tuple[str, str, str, str]] = []
    filled: Counter[str] = Counter()
    for entry in corpus.entries:
        key = entry.pull_request.key
        golden = list(entry.golden)
        for place, finding in enumerate(golden):
            given = answers.get((key, finding.finding_id(key)))
            if not given:
                continue
            golden[place], found = _audited(key, finding, given)
            changes += found
            for axis, (value, _) in given.items():
                was = getattr(finding.label, axis)
                if was is None:
                    filled[axis] += 1
                else:
                    seen.append((axis, finding.label.provenance.get(axis, NOT_RECORDED), value, str(was)))
        if tuple(golden) != entry.golden:
            made[key] = tuple(golden)
    return Audit(
        golden=made,
        changes=tuple(changes),
        axes=_figures(seen, severities),
        filled=dict(filled),
        findings=sum(bool(given) for given in answers.values()),
    )


def _agreed(raters: Mapping[str, Answers]) -> dict[tuple[str, str], dict[str, tuple[str, tuple[str, ...]]]]:
    """By finding and axis the one answer with those who gave it."""
    found: dict[tuple[str, str], dict[str, tuple[str, tuple[str, ...]]]] = {}
    for rater, answers in raters.items():
        for (key, finding), given in answers.items():
            if "matches" in given:
                raise InputError(
                    f"{rater} says what golden finding {finding[:100]} of {key[:100]} matches, which is for candidates",
                    remedy="Leave the column matches empty for golden findings",
                )
            of_finding = found.setdefault((key, finding), {})
            for axis, value in given.items():
                first = of_finding.get(axis)
                if first is not None and first[0] != value:
                    raise InputError(
                        f"{first[1][0]} and {rater} differ on {axis} of {finding[:100]} in {key[:100]}: "
                        f"{first[0]} and {value}",
                        remedy="Settle it with each other and give one file; `crb judge agreement` shows all of them",
                    )
                of_finding[axis] = (value, (*(first[1] if first else ()), rater))
    return found


def _audited(
    key: str, golden: GoldenFinding, given: Mapping[str, tuple[str, tuple[str, ...]]]
) -> tuple[GoldenFinding, tuple[AxisChange, ...]]:
    label = golden.label
    update: dict[str, object] = {axis: value for axis, (value, _) in given.items()}
    provenance = {}
    kept = {}
    notes = []
    for axis, (value, who) in given.items():
        was = getattr(label, axis)
        provenance[axis] = HUMAN if was is None or was == value else HUMAN_CORRECTED
        why = getattr(label, f"{axis}_justification", None)
        if was == value:
            kept[f"{axis}_justification"] = why
        if label.provenance.get(axis) == HUMAN_CORRECTED and was == value:
            # Confirmed again: that it was corrected once stays true.
            provenance[axis] = HUMAN_CORRECTED
        notes.append(
            {
                "axis": axis,
                "by": list(who),
                "was": None if was is None else str(was),
                "was_by": label.provenance.get(axis),
                **({"was_because": why} if was != value and why is not None else {}),
            }
        )
    new = Label.model_validate(
        {
            "tp_fp": label.tp_fp,
            **update,
            **{name: why for name, why in kept.items() if name in Label.model_fields},
            "provenance": provenance,
        }
    )
    made, changes = relabelled(key, golden, [axis for axis in LABEL_AXES if axis in given], new)
    source = {**golden.source, "audit": [*golden.source.get("audit", ()), *notes]}
    return made.model_copy(update={"source": source}), changes


def _figures(seen: Sequence[tuple[str, str, str, str]], severities: Sequence[str]) -> tuple[AuditedAxis, ...]:
    level = {name: place for place, name in enumerate(severities)}
    found = []
    for axis in LABEL_AXES:
        for by in sorted({by for name, by, _, _ in seen if name == axis}):
            pairs = [(people, was) for name, who, people, was in seen if (name, who) == (axis, by)]
            confusion: dict[str, Counter[str]] = {}
            for people, was in pairs:
                confusion.setdefault(people, Counter())[was] += 1
            ordered = [(level[people], level[was]) for people, was in pairs if people in level and was in level]
            steps = [was - people for people, was in ordered] if axis == "severity" else None
            found.append(
                AuditedAxis(
                    axis=axis,
                    by=by,
                    n=len(pairs),
                    equal=sum(people == was for people, was in pairs),
                    within_one=None if steps is None else sum(abs(step) <= 1 for step in steps),
                    people_higher=None if steps is None else sum(step > 0 for step in steps),
                    people_lower=None if steps is None else sum(step < 0 for step in steps),
                    confusion={people: dict(sorted(confusion[people].items())) for people in sorted(confusion)},
                )
            )
    return tuple(found)
