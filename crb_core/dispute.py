"""Disputes about labels and matches, how they are decided, and what follows (seed A 11).

Anyone can dispute a label of a golden finding, or whether a judge should have matched a candidate to one: a
*submission* cites the finding by its id and says what is right and why. A *decision* upholds it, upholds it partially
(another axis has to change) or declines it, always with its reasons. Both are published and never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import StringConstraints, model_validator

from crb_core.aggregate import ratio
from crb_core.corpus import Corpus, fingerprint
from crb_core.errors import InputError, UsageError, Where
from crb_core.finding import JUSTIFIED_AXES, LABEL_AXES, GoldenFinding, Label, NonBlank, Record
from crb_core.golden_sets import HUMAN_CORRECTED, relabelled

__all__ = [
    "AXES",
    "FORMAT",
    "LONGEST_TEXT",
    "MATCH",
    "MATCH_ANSWERS",
    "Correction",
    "Decision",
    "Dispute",
    "Guidelines",
    "LabellingRate",
    "Outcome",
    "Submission",
    "check_value",
    "corrected",
    "corrections_of",
    "decide",
    "decisions_document",
    "rates",
]

FORMAT: Literal["crb.dispute/1"] = "crb.dispute/1"
#: What can be disputed of a candidate: whether it matches a golden finding.
MATCH = "match"
AXES = (*LABEL_AXES, MATCH)
MATCH_ANSWERS = ("match", "no-match")
#: Most characters of a rationale.
LONGEST_TEXT = 20_000

Reason = Annotated[str, StringConstraints(pattern=r"\S", max_length=LONGEST_TEXT)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Outcome(StrEnum):
    """What became of a dispute."""

    UPHELD = "upheld"
    PARTIALLY_UPHELD = "partially-upheld"
    DECLINED = "declined"


class Guidelines(Record):
    """The labelling guidelines that were published when the dispute was submitted."""

    version: int
    sha256: Digest


class Submission(Record):
    """What is disputed, what the submitter believes, and why.

    ``finding`` is the id of a golden finding, ``labels`` its axes as they were. ``current`` is the disputed answer: the
    label of ``axis`` (None where it has none), or for a match the judge's answer on ``candidate``, whose matches by
    that judge are ``matches``. ``labelled_by`` is who gave it: the provenance of that axis, or the judge's fingerprint;
    None where that is not recorded.
    """

    corpus: NonBlank
    corpus_version: NonBlank
    corpus_fingerprint: Digest
    protocol: NonBlank
    pull_request: NonBlank
    finding: NonBlank
    candidate: NonBlank | None = None
    matches: tuple[str, ...] | None = None
    axis: Literal["tp_fp", "severity", "category", "scope", "difficulty", "context_required", "actionability", "match"]
    current: str | None
    proposed: NonBlank
    rationale: Reason
    labels: dict[str, str]
    labelled_by: str | None
    guidelines: Guidelines
    submitted_by: NonBlank | None = None
    submitted_at: NonBlank

    @model_validator(mode="after")
    def _is_a_dispute(self) -> Submission:
        if self.proposed == self.current:
            raise ValueError(f"the {self.axis} is {self.current} already")
        if (self.axis == MATCH) != (self.candidate is not None):
            raise ValueError("a candidate is named where a match is disputed, and only there")
        return self

    @property
    def dispute_id(self) -> str:
        """``d-`` and 12 hex digits of the SHA-256 over the submission: one that is changed afterwards is noticed."""
        return f"d-{fingerprint(self.model_dump(mode='json', exclude_none=True))[:12]}"

    @property
    def question(self) -> tuple[str, str, str | None, str]:
        """What it asks, whoever asks it."""
        return self.pull_request, self.finding, self.candidate, self.axis


class Decision(Record):
    """The outcome, the labels as they are to be (by axis; none where it was declined), and the reasons."""

    outcome: Outcome
    corrections: dict[str, NonBlank]
    rationale: Reason
    decided_by: NonBlank
    decided_at: NonBlank


class Dispute(Record):
    """``crb.dispute/1``: a submission and, once the working group has decided, its decision."""

    format: Literal["crb.dispute/1"] = FORMAT
    id: NonBlank
    submission: Submission
    decision: Decision | None = None

    @model_validator(mode="after")
    def _hangs_together(self) -> Dispute:
        if self.id != self.submission.dispute_id:
            raise ValueError(f"the id of this submission is {self.submission.dispute_id}: it was changed")
        if self.decision is not None:
            problem = _problem(self.submission, self.decision.outcome, self.decision.corrections)
            if problem is not None:
                raise ValueError(problem)
        return self

    @property
    def state(self) -> str:
        """``open`` or the outcome."""
        return "open" if self.decision is None else self.decision.outcome.value


class Correction(Record):
    """One axis of one golden finding after all decisions: ``before`` is what the corpus says, ``after`` what is right.

    ``dispute`` is the last one that decided it.
    """

    pull_request: str
    finding: str
    axis: str
    before: str | None
    after: str
    dispute: str


class LabellingRate(Record):
    """How disputes about one version of the labels went (seed A 11, item 5).

    ``upheld_rate`` is the share of upheld ones among the decided, ``changed_rate`` of those that changed anything;
    None where none is decided.
    """

    corpus: str
    corpus_version: str
    labelled_by: str | None
    first_submitted_at: str
    submitted: int
    open: int
    decided: int
    upheld: int
    partially_upheld: int
    declined: int
    upheld_rate: float | None
    changed_rate: float | None


def decide(
    dispute: Dispute,
    outcome: Outcome,
    rationale: str,
    *,
    corrections: Mapping[str, str],
    decided_by: str,
    decided_at: str,
    vocabulary: Mapping[str, Sequence[str]],
) -> Dispute:
    """The dispute with its decision. An upheld one takes the proposed value unless ``corrections`` name another.

    ``vocabulary`` has the values of each axis. InputError for a dispute that is decided already, an unknown value, and
    corrections that the outcome does not allow.
    """
    if dispute.decision is not None:
        raise InputError(
            f"the dispute {dispute.id} was decided at {dispute.decision.decided_at}: {dispute.state}",
            remedy="A decision is published and stays; submit another dispute",
        )
    for axis, value in corrections.items():
        check_value(axis, value, vocabulary)
    chosen = dict(corrections)
    if outcome is Outcome.UPHELD:
        chosen.setdefault(dispute.submission.axis, dispute.submission.proposed)
    problem = _problem(dispute.submission, outcome, chosen)
    if problem is not None:
        raise InputError(f"the dispute {dispute.id} cannot be decided so: {problem}", where=Where(field="label"))
    decision = Decision(
        outcome=outcome, corrections=chosen, rationale=rationale, decided_by=decided_by, decided_at=decided_at
    )
    return Dispute(id=dispute.id, submission=dispute.submission, decision=decision)


def check_value(axis: str, value: str, vocabulary: Mapping[str, Sequence[str]]) -> None:
    """Refuse an axis that cannot be disputed and a value that it does not have."""
    known = {**vocabulary, MATCH: MATCH_ANSWERS}
    if axis not in AXES:
        raise UsageError(f"{axis!r} is no axis of a label", where=Where(field="axis"), remedy=_choose(AXES))
    if value not in known[axis]:
        raise UsageError(f"{value!r} is no value of {axis}", where=Where(field=axis), remedy=_choose(known[axis]))


def _choose(values: Iterable[str]) -> str:
    return f"Choose from {', '.join(values)}"


def _problem(submission: Submission, outcome: Outcome, corrections: Mapping[str, str]) -> str | None:
    """Why an outcome does not go with these corrections."""
    axis = submission.axis
    if outcome is Outcome.DECLINED:
        return "a declined dispute changes no label" if corrections else None
    for name, value in corrections.items():
        now = submission.current if name == axis else submission.labels.get(name)
        if value == now:
            return f"the {name} is {value} already"
        if name == MATCH and axis != MATCH:
            return "a match is corrected by a dispute about it"
    if outcome is Outcome.UPHELD:
        return None if axis in corrections else f"an upheld dispute changes the {axis}"
    if axis in corrections:
        return f"a partially upheld dispute changes another axis than the {axis}"
    return None if corrections else "a partially upheld dispute names the axis that changes"


def corrections_of(disputes: Iterable[Dispute], corpus: Corpus) -> tuple[Correction, ...]:
    """What decisions change in a corpus, in its order; of several on one axis the last one counts.

    Findings are found by pull request and id, so decisions on one version of a corpus hold for another. A label that is
    already as decided is no correction; a dispute about a match changes no label of the corpus by itself.
    """
    last: dict[tuple[str, str, str], tuple[str, str]] = {}
    for each in sorted(
        (each for each in disputes if each.decision is not None), key=lambda each: (_decided_at(each), each.id)
    ):
        assert each.decision is not None
        for axis, value in each.decision.corrections.items():
            if axis != MATCH:
                last[each.submission.pull_request, each.submission.finding, axis] = (value, each.id)
    found = []
    for entry in corpus.entries:
        key = entry.pull_request.key
        for golden in entry.golden:
            for axis in LABEL_AXES:
                decided = last.get((key, golden.finding_id(key), axis))
                before = getattr(golden.label, axis)
                if decided is not None and decided[0] != before:
                    found.append(
                        Correction(
                            pull_request=key,
                            finding=golden.finding_id(key),
                            axis=axis,
                            before=None if before is None else str(before),
                            after=decided[0],
                            dispute=decided[1],
                        )
                    )
    return tuple(found)


def _decided_at(dispute: Dispute) -> str:
    assert dispute.decision is not None
    return dispute.decision.decided_at


def corrected(corpus: Corpus, corrections: Iterable[Correction]) -> dict[str, tuple[GoldenFinding, ...]]:
    """By pull request the golden sets that the corrections change, as they are to be.

    Corrected axes have the provenance ``human-corrected`` and the dispute in place of a justification that would
    contradict them. Golden comments are all true positives, so there a finding that is none is left out.
    """
    changes: dict[str, dict[str, list[Correction]]] = {}
    for each in corrections:
        changes.setdefault(each.pull_request, {}).setdefault(each.finding, []).append(each)
    found = {}
    for key, by_finding in changes.items():
        golden = [_relabelled(key, each, by_finding.get(each.finding_id(key), ())) for each in corpus.entry(key).golden]
        if corpus.protocol == "golden-comments":
            golden = [each for each in golden if each.label.tp_fp == "tp"]
        found[key] = tuple(golden)
    return found


def _relabelled(key: str, golden: GoldenFinding, corrections: Sequence[Correction]) -> GoldenFinding:
    if not corrections:
        return golden
    label: dict[str, Any] = {"tp_fp": golden.label.tp_fp}
    for each in corrections:
        label[each.axis] = each.after
        if each.axis in JUSTIFIED_AXES:
            label[f"{each.axis}_justification"] = f"Decided in dispute {each.dispute}."
    axes = [each.axis for each in corrections]
    label["provenance"] = dict.fromkeys(axes, HUMAN_CORRECTED)
    return relabelled(key, golden, axes, Label.model_validate(label))[0]


def rates(disputes: Iterable[Dispute]) -> tuple[LabellingRate, ...]:
    """Upheld disputes by corpus, its version, and who gave the disputed answer; the earliest disputed first."""
    groups: dict[tuple[str, str, str | None], list[Dispute]] = {}
    for each in disputes:
        about = each.submission
        groups.setdefault((about.corpus, about.corpus_version, about.labelled_by), []).append(each)
    found = []
    for (corpus, version, labelled_by), mine in groups.items():
        states = [each.state for each in mine]
        upheld, partially, declined = (states.count(outcome.value) for outcome in Outcome)
        decided = upheld + partially + declined
        found.append(
            LabellingRate(
                corpus=corpus,
                corpus_version=version,
                labelled_by=labelled_by,
                first_submitted_at=min(each.submission.submitted_at for each in mine),
                submitted=len(mine),
                open=len(mine) - decided,
                decided=decided,
                upheld=upheld,
                partially_upheld=partially,
                declined=declined,
                upheld_rate=ratio(upheld, decided),
                changed_rate=ratio(upheld + partially, decided),
            )
        )
    return tuple(
        sorted(
            found, key=lambda each: (each.corpus, each.first_submitted_at, each.corpus_version, each.labelled_by or "")
        )
    )


def decisions_document(disputes: Sequence[Dispute]) -> str:
    """Every decision with its reasons, as Markdown: the part of the guidelines that cases made.

    Texts of people are indented, so that none of them is markup. The same disputes give the same text.
    """
    parts = ["# Decided disputes", "What was disputed, what was decided, and why. Open ones are not here."]
    for each in sorted(disputes, key=lambda each: (each.submission.corpus, each.submission.submitted_at, each.id)):
        about, decision = each.submission, each.decision
        if decision is None:
            continue
        changes = ", ".join(f"{axis} is {value}" for axis, value in decision.corrections.items())
        facts = [
            f"corpus: {about.corpus} {about.corpus_version}",
            f"pull request: {about.pull_request}",
            f"finding: {about.finding}" + (f", candidate {about.candidate}" if about.candidate else ""),
            f"disputed: {about.axis}, {about.current or 'not labelled'} (by {about.labelled_by or 'nobody recorded'})",
            f"proposed: {about.proposed}",
            f"guidelines: version {about.guidelines.version}",
            f"decided: {changes or 'nothing changes'}, {decision.decided_at} by {decision.decided_by}",
        ]
        parts += [
            f"## {each.id}: {decision.outcome}",
            _indented("\n".join(facts)),
            "Why it was disputed:",
            _indented(about.rationale),
            "Why it was decided so:",
            _indented(decision.rationale),
        ]
    return "\n\n".join(parts) + "\n"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
