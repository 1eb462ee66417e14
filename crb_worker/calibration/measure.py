"""Run a judge over a reference's examples and count how far it agrees (seed A 5.3, 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from crb_core.calibration import MatchFigures, ReviewAnswers, match_figures, matched_counts
from crb_core.errors import InputError
from crb_core.finding import LABEL_AXES, CandidateFinding, Record
from crb_core.label_calibration import AxisFigures, LabelAnswers, axis_figures
from crb_core.protocols import protocol_named
from crb_worker.calibration.references import LabelExample, MatchExample, Reference
from crb_worker.calibration.tuning import tuning_record
from crb_worker.judge.base import Classifier, Judge, JudgeWork
from crb_worker.judge.complete import complete_labels, complete_matches
from crb_worker.judge.outside import Lend, judged_each
from crb_worker.judge.reference import ReferenceJudge

__all__ = ["Measured", "Split", "calibrate"]


class Split(Record):
    """The figures of one part of the examples: ``judges`` the matcher's by reference judge, ``classifier`` by rater.

    ``classifier`` is None where the judge does not classify or the reference has no labels.
    """

    pull_requests: int
    judges: dict[str, MatchFigures]
    classifier: dict[str, tuple[AxisFigures, ...]] | None


class Measured(Record):
    """A calibration: ``reported`` is over held-out examples only, or over all where ``held_out`` is False.

    ``motivating_pull_requests`` are those that the judge's tuning record names; their own figures are given only where
    they were asked for.
    """

    held_out: bool
    held_out_pull_requests: int
    motivating_pull_requests: int
    reported: Split
    held_out_split: Split | None
    motivating_split: Split | None


def calibrate(
    judge: Judge,
    reference: Reference,
    *,
    lend: Lend,
    include_tuning: bool = False,
    motivating: Collection[str] = (),
    slots: int = 1,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Measured:
    """Judge every example that may be reported and compare.

    ``lend`` makes what a judge with calls or a snapshot needs; such judges work on ``slots`` examples at once.
    ``motivating`` are pull request keys that the caller knows to have motivated the judge's tuning. InputError where
    every example is one of those, unless ``include_tuning``, and where the reference has nothing that this judge does.
    """
    if any(isinstance(each, ReferenceJudge) for each in (judge, *getattr(judge, "members", ()))):
        raise InputError(
            "the judgments of reference are people's own, the measure of every other judge",
            remedy="Calibrate another judge against them; crb judge agreement compares people with each other",
        )
    if not reference.matches and not judge.classifies:
        raise InputError(
            f"the judge {judge.name} does not classify, and {reference.name} has labels but no matches",
            remedy="Calibrate a judge that classifies, or name a reference with matches",
        )
    record = tuning_record(judge, motivating)
    examples: list[MatchExample | LabelExample] = [*reference.matches, *reference.labels]
    entries = {example.entry.pull_request.key: example.entry for example in examples}
    tuned = {key for key, entry in entries.items() if record.names(entry)}
    if len(tuned) == len(entries) and not include_tuning:
        raise InputError(
            f"the judge {judge.name} was tuned on all {len(entries)} pull requests of {reference.name}, "
            "so nothing can be measured on them",
            remedy="Use examples of other repositories; `crb judge list` shows what was measured with each repository "
            "left out of the training; --include-tuning reports these figures, marked as not held out",
        )
    kept = [key for key in entries if include_tuning or key not in tuned]
    answers = _answers(judge, reference, frozenset(kept), lend, slots, progress)

    def split(keys: Collection[str]) -> Split:
        return _split(answers, keys, reference)

    held_out = [key for key in kept if key not in tuned]
    return Measured(
        held_out=not tuned or not include_tuning,
        held_out_pull_requests=len(held_out),
        motivating_pull_requests=len(tuned),
        reported=split(kept),
        held_out_split=split(held_out) if held_out else None,
        motivating_split=split(sorted(tuned)) if include_tuning and tuned else None,
    )


class _Answers(Record):
    """Everything that was judged, by reference judge and by rater."""

    matches: dict[str, list[Any]]
    labels: dict[str, list[Any]]
    classifies: bool


def _split(answers: _Answers, keys: Collection[str], reference: Reference) -> Split:
    wanted = set(keys)
    severities = protocol_named(reference.corpus.protocol).severities
    return Split(
        pull_requests=len(wanted),
        judges={
            name: match_figures([review for review in reviews if review.pull_request in wanted])
            for name, reviews in answers.matches.items()
        },
        classifier={
            rater: axis_figures([each for each in given if each.pull_request in wanted], severities=severities)
            for rater, given in answers.labels.items()
        }
        if answers.classifies and answers.labels
        else None,
    )


def _answers(
    judge: Judge,
    reference: Reference,
    keys: frozenset[str],
    lend: Lend,
    slots: int,
    progress: Callable[[int, int], None],
) -> _Answers:
    protocol = reference.corpus.protocol
    matches = [example for example in reference.matches if example.entry.pull_request.key in keys]
    groups: dict[tuple[str, str], list[LabelExample]] = {}
    if judge.classifies:
        for label in reference.labels:
            key = label.entry.pull_request.key
            if key in keys:
                groups.setdefault((label.rater, key), []).append(label)
    work: list[tuple[Callable[[], JudgeWork], Callable[[Judge], Any]]] = [
        *((partial(lend, example.entry), _matcher(example, protocol)) for example in matches),
        *((partial(lend, group[0].entry), _labeller(group, protocol)) for group in groups.values()),
    ]

    done = judged_each(judge, work, slots=slots, progress=progress)
    found: dict[str, list[Any]] = {name: [] for name in sorted({example.reference for example in matches})}
    for example, answer in zip(matches, done[: len(matches)], strict=True):
        found[example.reference].append(answer)
    labels: dict[str, list[Any]] = {}
    for (rater, _), answer in zip(groups, done[len(matches) :], strict=True):
        labels.setdefault(rater, []).extend(answer)
    return _Answers(matches=found, labels=labels, classifies=judge.classifies)


def _matcher(example: MatchExample, protocol: str) -> Callable[[Judge], ReviewAnswers]:
    def match(judge: Judge) -> ReviewAnswers:
        key = example.entry.pull_request.key
        links = complete_matches(judge, key, example.candidates, example.golden, protocol=protocol)
        ours = {golden for link in links for golden in link.golden}
        asked = [place for place in range(len(example.golden)) if place not in example.unjudged]
        counts = matched_counts(
            example.candidates,
            len(asked),
            [link.model_copy(update=_renumbered(link.golden, link.probabilities, asked)) for link in links],
        )
        return ReviewAnswers(
            reviewer=example.reviewer,
            pull_request=key,
            units=tuple((place in example.covered, place in ours) for place in example.questions(protocol)),
            judged=counts,
            reference=example.counts,
            recorded=example.recorded,
        )

    return match


def _renumbered(golden: Sequence[int], probabilities: Sequence[float] | None, asked: Sequence[int]) -> dict[str, Any]:
    """Matches of the golden findings that the reference judged, by their place among those."""
    places = {position: place for place, position in enumerate(asked)}
    kept = [number for number, position in enumerate(golden) if position in places]
    return {
        "golden": tuple(places[golden[number]] for number in kept),
        "probabilities": None if probabilities is None else tuple(probabilities[number] for number in kept),
    }


def _labeller(group: Sequence[LabelExample], protocol: str) -> Callable[[Judge], list[LabelAnswers]]:
    def classify(judge: Judge) -> list[LabelAnswers]:
        if not isinstance(judge, Classifier):
            raise InputError(f"the judge {judge.name} does not classify")
        findings: tuple[CandidateFinding, ...] = tuple(example.finding for example in group)
        key = group[0].entry.pull_request.key
        made = complete_labels(judge, key, findings, range(len(findings)), protocol=protocol)
        by_place: Mapping[int, Any] = {each.candidate: each.label for each in made}
        return [
            LabelAnswers(
                pull_request=key,
                people=example.labels,
                judge={
                    axis: str(value)
                    for axis in LABEL_AXES
                    if place in by_place and (value := getattr(by_place[place], axis)) is not None
                },
            )
            for place, example in enumerate(group)
        ]

    return classify
