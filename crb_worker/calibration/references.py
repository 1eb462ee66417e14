"""What a judge is held against: matches and labels that people or other judges gave.

Three kinds of reference: a folder laid out as the golden-comments benchmark (all judges in it), a labelled corpus with
its recorded reviews and the reference judgments on them, and label files of people (``crb.labels/1``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crb_core.bundled import bundled
from crb_core.calibration import Counts
from crb_core.corpus import Corpus, CorpusEntry, canonical_json, fingerprint
from crb_core.errors import InputError, Where
from crb_core.finding import LABEL_AXES, CandidateFinding, GoldenFinding, Label
from crb_core.formats.checked import Problems
from crb_core.formats.golden_comments import benchmark_root, pull_request_url, read_corpus
from crb_core.formats.golden_comments_results import is_trigger_text, read_results
from crb_core.formats.human_labels import NO_MATCH, HumanLabels, read_labels
from crb_core.formats.imported import ImportedJudgment, ImportedReview
from crb_core.formats.recordings import candidate_id, read_recording
from crb_worker.judge.base import comparable
from crb_worker.judge.reference import ReferenceJudge

__all__ = [
    "PEOPLE",
    "LabelExample",
    "MatchExample",
    "Reference",
    "benchmark",
    "known_candidates",
    "label_file",
    "labelled_corpus",
    "pull_request_name",
]

#: Name of the reference where people judged and the file names nobody.
PEOPLE = "people"


@dataclass(frozen=True, kw_only=True)
class MatchExample:
    """One reviewer's candidates on one pull request, with what a reference says of them.

    ``covered`` are the golden positions that some candidate matches, ``unjudged`` those that the reference left open.
    ``counts`` are the reference's on the same candidates; ``recorded`` as its own lists have them.
    """

    reference: str
    entry: CorpusEntry
    reviewer: str
    candidates: tuple[CandidateFinding, ...]
    golden: tuple[GoldenFinding, ...]
    covered: frozenset[int]
    unjudged: frozenset[int] = frozenset()
    counts: Counts
    recorded: Counts | None = None

    def questions(self, protocol: str) -> tuple[int, ...]:
        """The golden positions that are counted: judged by the reference, and comparable with some candidate."""
        return tuple(
            place
            for place, golden in enumerate(self.golden)
            if place not in self.unjudged
            and any(comparable(candidate, golden, protocol) for candidate in self.candidates)
        )


@dataclass(frozen=True, kw_only=True)
class LabelExample:
    """A finding with the axes that people labelled; ``rater`` is who."""

    rater: str
    entry: CorpusEntry
    finding: CandidateFinding
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A reference as read. ``sha256`` is over everything that was taken from it; ``skipped`` what could not be used."""

    name: str
    kind: Literal["golden-comments", "corpus", "labels"]
    corpus: Corpus
    sha256: str
    matches: tuple[MatchExample, ...] = ()
    labels: tuple[LabelExample, ...] = ()
    skipped: tuple[str, ...] = ()


def benchmark(folder: Path) -> Reference:
    """Every judge of a folder laid out as the golden-comments benchmark, each on its own extraction of candidates."""
    read = read_corpus(folder, "calibration")
    results = read_results(folder, read.corpus)
    entries = {entry.pull_request.key: entry for entry in read.corpus.entries}
    examples: list[MatchExample] = []
    skipped: list[str] = []
    for review in results.reviews:
        for judgment in review.judgments:
            open_ = judgment.problem or judgment.document.get("unscorable")
            if open_:
                skipped.append(f"{judgment.judge}, {review.agent} on {review.pull_request}: {open_}")
            else:
                examples.append(_recorded_example(entries[review.pull_request], review, judgment))
    if not examples:
        raise InputError(
            "there are no evaluations",
            where=Where(file=str(benchmark_root(folder) / "results")),
            remedy="Name a folder with results/<judge>/evaluations.json",
        )
    digest = hashlib.sha256()
    for path in sorted({*read.files, *results.files}):
        name = path.relative_to(read.root).as_posix()
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return Reference(
        name=read.root.resolve().name or "golden-comments",
        kind="golden-comments",
        corpus=read.corpus,
        sha256=digest.hexdigest(),
        matches=tuple(examples),
        skipped=tuple(skipped),
    )


def _recorded_example(entry: CorpusEntry, review: ImportedReview, judgment: ImportedJudgment) -> MatchExample:
    candidates = tuple(each.finding for each in review.candidates)
    covered = frozenset(pair.golden for pair in judgment.pairs)
    unjudged = frozenset(judgment.document.get("golden_unjudged", ()))
    record = judgment.document["recorded"]
    wrong = [_text(item) for item in record["false_positives"]]
    findings = {text for text in wrong if not is_trigger_text(text)}
    return MatchExample(
        reference=judgment.judge,
        entry=entry,
        reviewer=review.agent,
        candidates=candidates,
        golden=entry.golden,
        covered=covered,
        unjudged=unjudged,
        # A golden comment that was left open counts on neither side.
        counts=Counts(len(covered - unjudged), len(findings), len(entry.golden) - len(covered | unjudged)),
        recorded=Counts(len(record["true_positives"]), len(wrong), len(record["false_negatives"])),
    )


def _text(item: object) -> str:
    return str(item.get("candidate", "") if isinstance(item, dict) else item)


def labelled_corpus(corpus: Corpus, reference_folder: Path | None, *, name: str) -> Reference:
    """A corpus's labels, and the reference judgments on the recorded reviews of its pull requests, where it has any.

    Golden findings are examples for a classifier, each with the axes whose provenance is a person; a corpus whose
    labels no person gave has none.
    """
    labels = [
        LabelExample(rater=PEOPLE, entry=entry, finding=_as_candidate(golden), labels=given)
        for entry in corpus.entries
        for golden in entry.golden
        if (given := _human_axes(golden.label))
    ]
    matches: list[MatchExample] = []
    content: list[object] = [corpus.fingerprint]
    if reference_folder is not None and reference_folder.is_dir():
        judge = ReferenceJudge.load(reference_folder, corpus)
        content.append(judge.fingerprint)
        for entry, reviewer, findings in _recordings(corpus, reference_folder):
            matches.append(_judged_example(judge, entry, reviewer, findings, corpus.protocol))
            made = judge.classify(entry.pull_request.key, findings, range(len(findings)), protocol=corpus.protocol)
            labels += [
                LabelExample(rater=PEOPLE, entry=entry, finding=finding, labels=_human_axes(each.label))
                for finding, each in zip(findings, made, strict=True)
            ]
    if not labels and not matches:
        raise InputError(
            f"the corpus {corpus.name} has neither labels that a person gave nor reference judgments",
            remedy="Name a labelled corpus, a golden-comments folder or a label file",
        )
    return Reference(
        name=name,
        kind="corpus",
        corpus=corpus,
        sha256=fingerprint(content),
        matches=tuple(matches),
        labels=tuple(labels),
    )


def _recordings(
    corpus: Corpus, reference_folder: Path
) -> Iterable[tuple[CorpusEntry, str, tuple[CandidateFinding, ...]]]:
    """The judged recordings of the corpus's pull requests; InputError names the first that cannot be used."""
    root = bundled("agents") / "recorded" / "recordings"
    for folder in sorted(path for path in reference_folder.iterdir() if path.is_dir()):
        for entry in corpus.entries:
            key = entry.pull_request.key
            if not (folder / f"{key}.json").is_file():
                continue
            problems = Problems()
            recording = read_recording(
                root / folder.name / f"{key}.json", reviewer=folder.name, key=key, problems=problems
            )
            problems.raise_first()
            if recording is not None:
                yield entry, folder.name, recording.findings


def _judged_example(
    judge: ReferenceJudge,
    entry: CorpusEntry,
    reviewer: str,
    findings: tuple[CandidateFinding, ...],
    protocol: str,
) -> MatchExample:
    links = judge.match(entry.pull_request.key, findings, entry.golden, protocol=protocol)
    covered = frozenset(golden for link in links for golden in link.golden)
    wrong = {findings[link.candidate].message for link in links if not link.golden}
    return MatchExample(
        reference=PEOPLE,
        entry=entry,
        reviewer=reviewer,
        candidates=findings,
        golden=entry.golden,
        covered=covered,
        counts=Counts(len(covered), len(wrong), len(entry.golden) - len(covered)),
    )


def label_file(path: Path, corpus: Corpus, *, known: Mapping[tuple[str, str], CandidateFinding]) -> Reference:
    """People's labels of findings of a corpus; ``known`` maps (pull request key, candidate id) to further findings.

    A label of a pull request or a finding that is nowhere to be found is an InputError, because its text is needed.
    """
    read = read_labels(path, protocol=corpus.protocol)
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    findings = dict(known)
    for key, entry in entries.items():
        findings |= {(key, golden.finding_id(key)): _as_candidate(golden) for golden in entry.golden}
    for (key, name), answers in read.labels.items():
        if key not in entries:
            raise InputError(
                f"the corpus {corpus.name} has no pull request {key[:100]!r}",
                where=Where(file=str(path), field=f"{key[:100]}, {name[:100]}"),
                remedy="Name the labels' corpus with --corpus",
            )
        if (key, name) not in findings:
            raise InputError(
                f"no finding {name[:100]!r} of {key} is known",
                where=Where(file=str(path), field=f"{key}, {name[:100]}"),
                remedy="Label findings by their ids: golden ones of the corpus, candidates of its recorded reviewers "
                "or of stored sweeps; crb export labels writes such a file",
            )
        _check_matches(path, key, name, answers, entries[key])
    labels = tuple(
        LabelExample(
            rater=read.rater,
            entry=entries[key],
            finding=findings[key, name],
            labels={axis: answer for axis, answer in answers.items() if axis in LABEL_AXES},
        )
        for (key, name), answers in read.labels.items()
        if set(answers) & set(LABEL_AXES)
    )
    matches = tuple(_labelled_matches(read, entries, findings, corpus.protocol))
    if not labels and not matches:
        raise InputError("the file labels nothing", where=Where(file=str(path)), remedy="Give an axis or matches")
    content = canonical_json([[*key, dict(answers)] for key, answers in sorted(read.labels.items())])
    return Reference(
        name=path.name,
        kind="labels",
        corpus=corpus,
        sha256=fingerprint([corpus.fingerprint, content]),
        matches=matches,
        labels=labels,
    )


def _check_matches(path: Path, key: str, name: str, answers: Mapping[str, str], entry: CorpusEntry) -> None:
    ids = {golden.finding_id(key) for golden in entry.golden}
    for match in answers.get("matches", NO_MATCH).split():
        if match != NO_MATCH and match not in ids:
            raise InputError(
                f"{match[:100]!r} is no golden finding of {key}",
                where=Where(file=str(path), field=f"{key}, {name[:100]}, matches"),
                remedy=f"Use golden finding ids, or {NO_MATCH}",
            )


def _labelled_matches(
    read: HumanLabels,
    entries: Mapping[str, CorpusEntry],
    findings: Mapping[tuple[str, str], CandidateFinding],
    protocol: str,
) -> Iterable[MatchExample]:
    """The findings whose matches a rater gave, by pull request and producer."""
    groups: dict[tuple[str, str], list[tuple[CandidateFinding, set[str]]]] = {}
    for (key, name), answers in read.labels.items():
        if "matches" in answers:
            finding = findings[key, name]
            matches = set(answers["matches"].split()) - {NO_MATCH}
            groups.setdefault((key, finding.producer), []).append((finding, matches))
    for (key, producer), group in sorted(groups.items()):
        entry = entries[key]
        candidates = tuple(finding for finding, _ in group)
        covered = frozenset(
            place
            for place, golden in enumerate(entry.golden)
            if any(
                golden.finding_id(key) in matches and comparable(finding, golden, protocol)
                for finding, matches in group
            )
        )
        wrong = {finding.message for finding, matches in group if not matches}
        yield MatchExample(
            reference=read.rater,
            entry=entry,
            reviewer=producer,
            candidates=candidates,
            golden=entry.golden,
            covered=covered,
            counts=Counts(len(covered), len(wrong), len(entry.golden) - len(covered)),
        )


def known_candidates(corpus: Corpus) -> dict[tuple[str, str], CandidateFinding]:
    """The findings of the recorded reviewers on a corpus's pull requests, by pull request key and candidate id."""
    found: dict[tuple[str, str], CandidateFinding] = {}
    root = bundled("agents") / "recorded" / "recordings"
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for entry in corpus.entries:
            key = entry.pull_request.key
            path = folder / f"{key}.json"
            if path.is_file():
                problems = Problems()
                recording = read_recording(path, reviewer=folder.name, key=key, problems=problems)
                problems.raise_first()
                for finding in recording.findings if recording else ():
                    found[key, candidate_id(key, finding)] = finding
    return found


def pull_request_name(entry: CorpusEntry) -> str:
    """What a tuning record hashes of a pull request: its URL."""
    return pull_request_url(entry.pull_request)


def _as_candidate(golden: GoldenFinding) -> CandidateFinding:
    return CandidateFinding(
        file=golden.file,
        start_line=golden.start_line,
        end_line=golden.end_line,
        message=golden.message,
        producer=golden.producer,
    )


def _human_axes(label: Label) -> dict[str, str]:
    found = {}
    for axis in LABEL_AXES:
        value = getattr(label, axis)
        if value is not None and label.provenance.get(axis, "").startswith("human"):
            found[axis] = str(value)
    return found
