"""Making a golden set: proposals get labels, people correct them, and every label says who gave it (seed A 5.4).

Nothing here changes a corpus: each step makes another one, with a fingerprint of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from crb_core.corpus import Corpus, CorpusEntry, Producer
from crb_core.errors import InputError, first_problem
from crb_core.finding import JUSTIFIED_AXES, LABEL_AXES, GoldenFinding, Label, Record
from crb_core.proposals import Proposal, merged_producers

__all__ = [
    "HUMAN",
    "HUMAN_CORRECTED",
    "Addition",
    "AxisChange",
    "Stale",
    "derived_corpus",
    "golden_of",
    "provenance_counts",
    "relabelled",
    "stale_findings",
    "to_add",
]

#: Provenance of a label that a person gave, or confirmed; and of one that a person changed.
HUMAN, HUMAN_CORRECTED = "human", "human-corrected"
#: Between the version that a corpus came with and what its own golden sets are told by.
_MARK = "+golden."


@dataclass(frozen=True, kw_only=True)
class Addition:
    """What of some proposals is new to a golden set, in their order; the rest repeats a finding that is there."""

    new: tuple[Proposal, ...]
    repeated: tuple[Proposal, ...]


@dataclass(frozen=True, kw_only=True)
class Stale:
    """A golden finding with the axes that the present classifier is to label."""

    position: int
    axes: tuple[str, ...]


class AxisChange(Record):
    """One axis of one golden finding that has another value now; ``was_by`` gave the old one, None: not recorded."""

    pull_request: str
    finding: str
    axis: str
    was: str | None
    was_by: str | None
    now: str | None


def derived_corpus(
    corpus: Corpus, name: str, golden: Mapping[str, Sequence[GoldenFinding]], producers: Sequence[Producer] = ()
) -> Corpus:
    """The corpus under another name with other golden sets, by pull request key; all others stay as they are.

    Where something is another one, the version says so: ``1.0.0+golden.0123abcd``, after the fingerprint.

    InputError for its own name, an unusable one, and a producer that is there with another version.
    """
    if name == corpus.name:
        raise InputError(f"the corpus {name} cannot take its own place", remedy="Save it under another name")
    entries = tuple(
        entry.model_copy(update={"golden": tuple(golden[entry.pull_request.key])})
        if entry.pull_request.key in golden
        else entry
        for entry in corpus.entries
    )
    try:
        # model_copy would not check the name.
        made = Corpus.model_validate(
            {
                **corpus.model_dump(exclude={"entries"}),
                "name": name,
                "producers": merged_producers(corpus.producers, producers),
                "entries": entries,
            }
        )
    except ValidationError as error:
        raise InputError(
            f"the corpus cannot be named {name[:80]!r}: {first_problem(error)[1]}",
            remedy="Use small letters, digits, dots, dashes and underscores",
        ) from None
    if made.fingerprint == corpus.fingerprint:
        return made
    base = corpus.version.partition(_MARK)[0]
    return made.model_copy(update={"version": f"{base}{_MARK}{made.fingerprint[:8]}"})


def to_add(entry: CorpusEntry, proposals: Sequence[Proposal]) -> Addition:
    """What of a pull request's proposals no golden finding and no earlier proposal says at the same place."""
    key = entry.pull_request.key
    known = {golden.content_digest(key) for golden in entry.golden}
    new: list[Proposal] = []
    repeated: list[Proposal] = []
    for each in proposals:
        digest = each.finding.content_digest(key)
        (repeated if digest in known else new).append(each)
        known.add(digest)
    return Addition(new=tuple(new), repeated=tuple(repeated))


def golden_of(proposal: Proposal, label: Label) -> GoldenFinding:
    """The proposed finding as a golden one."""
    finding = proposal.finding
    return GoldenFinding(
        file=finding.file,
        start_line=finding.start_line,
        end_line=finding.end_line,
        message=finding.message,
        producer=finding.producer,
        label=label,
        source=proposal.source,
    )


def stale_findings(
    entry: CorpusEntry, classifier: str, *, others: bool = True, absent: Collection[str] = ()
) -> tuple[Stale, ...]:
    """The golden findings with an axis for the classifier with the fingerprint ``classifier`` to label.

    ``others``: where another classifier labelled it. ``absent``: these axes where they have no value (seed A 7.4).
    What people gave or corrected is never stale, nor is a label of which nobody recorded who gave it.
    """
    found = []
    for position, golden in enumerate(entry.golden):
        by = golden.label.provenance
        axes = tuple(
            axis
            for axis in LABEL_AXES
            if (axis in absent and getattr(golden.label, axis) is None)
            or (others and by.get(axis) not in (None, HUMAN, HUMAN_CORRECTED, classifier))
        )
        if axes:
            found.append(Stale(position=position, axes=axes))
    return tuple(found)


def relabelled(
    key: str, golden: GoldenFinding, axes: Sequence[str], label: Label
) -> tuple[GoldenFinding, tuple[AxisChange, ...]]:
    """A golden finding with some axes (and their justifications and provenance) taken from another label."""
    update: dict[str, object] = {}
    provenance = dict(golden.label.provenance)
    changes = []
    for axis in axes:
        was, now = getattr(golden.label, axis), getattr(label, axis)
        if was != now:
            changes.append(_change(key, golden, axis, was, now))
        update[axis] = now
        if axis in JUSTIFIED_AXES:
            name = f"{axis}_justification"
            update[name] = getattr(label, name)
        provenance.pop(axis, None)
        if now is not None and axis in label.provenance:
            provenance[axis] = label.provenance[axis]
    made = golden.label.model_copy(update={**update, "provenance": provenance})
    return golden.model_copy(update={"label": made}), tuple(changes)


def provenance_counts(corpus: Corpus) -> dict[str, dict[str, int]]:
    """By axis how many golden findings have a value by whom: a person, a classifier's fingerprint, ``not recorded``."""
    found: dict[str, dict[str, int]] = {}
    for entry in corpus.entries:
        for golden in entry.golden:
            for axis in LABEL_AXES:
                if getattr(golden.label, axis) is not None:
                    by = golden.label.provenance.get(axis, "not recorded")
                    of_axis = found.setdefault(axis, {})
                    of_axis[by] = of_axis.get(by, 0) + 1
    return {axis: dict(sorted(found[axis].items())) for axis in LABEL_AXES if axis in found}


def _change(key: str, golden: GoldenFinding, axis: str, was: object, now: object) -> AxisChange:
    return AxisChange(
        pull_request=key,
        finding=golden.finding_id(key),
        axis=axis,
        was=None if was is None else str(was),
        was_by=golden.label.provenance.get(axis),
        now=None if now is None else str(now),
    )
