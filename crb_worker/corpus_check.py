"""Checking a whole corpus, git included, and sealing a text corpus."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from crb_core.corpus import CorpusEntry
from crb_core.diff import DiffIndex
from crb_core.errors import CrbError, InputError, Where
from crb_core.finding import LABEL_AXES, GoldenFinding
from crb_core.formats.checked import Problems
from crb_core.formats.golden import has_true_positive
from crb_core.formats.reviewbench import is_reviewbench, read_reviewbench_text
from crb_core.formats.showcase import SEAL, CorpusText, PullRequestText, is_text_corpus, read_corpus_text
from crb_core.formats.showcase_seal import BY_HAND, json_text, sealed_golden, sealed_reference, sealed_settings
from crb_core.formats.strict_json import load_json
from crb_core.pull_request import PullRequestTraits
from crb_worker.git import DIFF_OPTIONS, Git, init_repository
from crb_worker.text_repository import check_commits, write_commits

__all__ = ["CorpusReport", "Counts", "check_corpus", "require_corpus", "seal_corpus"]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Pull requests and golden findings of one group."""

    pull_requests: int
    tp: int
    fp: int


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """What a check found: all problems, notes that are none, and what the corpus holds as far as it can be read."""

    kind: Literal["text", "reviewbench"]
    folder: Path
    problems: tuple[CrbError, ...]
    notes: tuple[str, ...] = ()
    total: Counts
    #: By axis (language, change_type, severity, category), then by value; None stands for "not recorded".
    groups: Mapping[str, Mapping[str | None, Counts]] = field(default_factory=dict)
    fingerprint: str | None = None


def check_corpus(folder: Path) -> CorpusReport:
    """Check everything about a text corpus or a ReviewBench folder. InputError if the folder is neither."""
    if is_text_corpus(folder):
        return _check_text(folder)
    require_corpus(folder)
    return _check_reviewbench(folder)


def require_corpus(folder: Path) -> None:
    """InputError for a folder that holds neither form of a corpus."""
    if is_text_corpus(folder) or is_reviewbench(folder):
        return
    if not folder.is_dir():
        raise InputError("the folder does not exist", where=Where(file=str(folder)), remedy="Check the path")
    raise InputError(
        "this is no corpus: it holds neither corpus.toml nor manifest.json",
        where=Where(file=str(folder)),
        remedy="Name the folder of a text corpus or of ReviewBench's corpus",
    )


def seal_corpus(folder: Path) -> tuple[Path, ...]:
    """Write into a text corpus what is computed and not yet there; the files that changed.

    Pull requests with problems are left as they are. Sealing a sealed corpus changes nothing.
    """
    if not is_text_corpus(folder):
        raise InputError("only a text corpus can be sealed", where=Where(file=str(folder / "corpus.toml")))
    problems = Problems()
    text = read_corpus_text(folder, problems)
    if text is None:
        problems.raise_first()
        return ()
    changed: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="crb-corpus-") as scratch:
        git = init_repository(Path(scratch) / "corpus.git")
        for pull_request in text.pull_requests.values():
            if not any(_concerns(problem, pull_request) for problem in problems.found):
                changed += _seal(git, text, pull_request)
    return tuple(changed)


def _check_text(folder: Path) -> CorpusReport:
    problems = Problems()
    text = read_corpus_text(folder, problems)
    if text is None:
        return CorpusReport(
            kind="text", folder=folder, problems=tuple(problems.found), total=Counts(pull_requests=0, tp=0, fp=0)
        )
    with tempfile.TemporaryDirectory(prefix="crb-corpus-") as scratch:
        git = init_repository(Path(scratch) / "corpus.git")
        for key, pull_request in text.pull_requests.items():
            _check_pull_request(git, pull_request, text.golden[key], problems)
    for reviewer in text.reviewers:
        for key, reference in reviewer.references.items():
            if not reference.sealed:
                problems.add(
                    "judgments name findings by position, so a later edit would go unnoticed",
                    file=reviewer.reference_folder / f"{key}.json",
                    field="judgments",
                    remedy=SEAL,
                )
    rows = [(pull_request.traits, text.golden[key]) for key, pull_request in text.pull_requests.items()]
    return CorpusReport(
        kind="text",
        folder=folder,
        problems=tuple(problems.found),
        total=_total(rows),
        groups=_groups(rows),
        fingerprint=None if problems.found else text.corpus().fingerprint,
    )


def _check_pull_request(git: Git, text: PullRequestText, golden: tuple[GoldenFinding, ...], problems: Problems) -> None:
    try:
        base, head = write_commits(git, text)
    except CrbError as error:
        problems.note(error)
        return
    try:
        check_commits(text, base, head)
    except CrbError as error:
        problems.note(error)
    for name, value in _traits(git, base, head).items():
        stated = getattr(text.traits, name)
        if stated != value:
            problems.add(
                f"the change has {value}, but {'nothing' if stated is None else stated} is stated",
                file=text.settings_file,
                field=name,
                remedy=SEAL,
            )
    lines = _line_counts(git, head)
    for place, finding in enumerate(golden):
        count = lines.get(finding.file or "")
        where = f"findings[{place}]"
        if count is None:
            problems.add(f"{finding.file} does not exist at head", file=text.golden_file, field=f"{where}.file")
        elif finding.end_line is not None and finding.end_line > count:
            problems.add(
                f"line {finding.end_line} is past the end of {finding.file}, which has {count} lines at head",
                file=text.golden_file,
                field=f"{where}.end_line",
            )
        for axis in LABEL_AXES:
            if getattr(finding.label, axis) is None:
                problems.add("this field is missing", file=text.golden_file, field=f"{where}.{axis}")
        unexplained = [axis for axis in LABEL_AXES if axis not in finding.label.provenance]
        if unexplained:
            problems.add(
                f"the provenance of {', '.join(unexplained)} is missing",
                file=text.golden_file,
                field=f"{where}.provenance",
                # Sealing states it only where it is known to be a person's.
                remedy=f"{SEAL}, or say who or what set it"
                if finding.producer.startswith(BY_HAND)
                else "Say who or what set it, human for a person",
            )


def _check_reviewbench(folder: Path) -> CorpusReport:
    problems = Problems()
    text = read_reviewbench_text(folder, problems)
    entries: tuple[CorpusEntry, ...] = text.entries if text else ()
    for entry in entries:
        if text and not has_true_positive(entry.golden):
            problems.add(
                "a pull request needs at least one finding that is tp",
                file=text.golden_file(entry.pull_request.key),
                field="findings",
            )
    rows = [(entry.pull_request.traits, entry.golden) for entry in entries]
    return CorpusReport(
        kind="reviewbench",
        folder=folder,
        problems=tuple(problems.found),
        notes=text.irregularities if text else (),
        total=_total(rows),
        groups=_groups(rows),
        fingerprint=text.corpus("reviewbench").fingerprint if text and not problems.found else None,
    )


def _seal(git: Git, text: CorpusText, pull_request: PullRequestText) -> list[Path]:
    base, head = write_commits(git, pull_request)
    values: dict[str, str | int] = {"base": base, "head": head, **_traits(git, base, head)}
    settings = pull_request.settings_file
    wanted = {
        settings: sealed_settings(settings.read_text(encoding="utf-8"), values, settings),
        pull_request.golden_file: json_text(sealed_golden(load_json(pull_request.golden_file))),
    }
    for reviewer in text.reviewers:
        if pull_request.key in reviewer.references:
            path = reviewer.reference_folder / f"{pull_request.key}.json"
            wanted[path] = json_text(sealed_reference(load_json(path), reviewer.references[pull_request.key]))
    changed = [path for path, content in wanted.items() if path.read_text(encoding="utf-8") != content]
    for path in changed:
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(wanted[path], encoding="utf-8")
        temporary.replace(path)
    return changed


def _concerns(problem: CrbError, text: PullRequestText) -> bool:
    file = Path(problem.where.file) if problem.where and problem.where.file else None
    return file is not None and (file.is_relative_to(text.folder) or file.name == f"{text.key}.json")


def _traits(git: Git, base: str, head: str) -> dict[str, int]:
    diff = DiffIndex.parse(git.run("diff", *DIFF_OPTIONS, base, head))
    return {
        "lines_added": diff.lines_added,
        "lines_removed": diff.lines_removed,
        "files_changed": diff.files_changed,
    }


def _line_counts(git: Git, commit: str) -> dict[str, int]:
    """Lines of every file of a commit; a last line without a newline counts."""
    paths: list[str] = []
    blobs: list[str] = []
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        if entry:
            head, name = entry.split(b"\t", 1)
            paths.append(os.fsdecode(name))
            blobs.append(head.decode("ascii").split(" ")[2])
    answer = git.run("cat-file", "--batch=%(objectsize)", stdin="".join(f"{blob}\n" for blob in blobs).encode())
    counts: dict[str, int] = {}
    at = 0
    for path in paths:
        start = answer.index(b"\n", at) + 1
        at = start + int(answer[at : start - 1]) + 1
        data = answer[start : at - 1]
        counts[path] = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return counts


Row = tuple[PullRequestTraits, tuple[GoldenFinding, ...]]


def _total(rows: list[Row]) -> Counts:
    labels = Counter(finding.label.tp_fp.value for _, golden in rows for finding in golden)
    return Counts(pull_requests=len(rows), tp=labels["tp"], fp=labels["fp"])


def _groups(rows: list[Row]) -> dict[str, dict[str | None, Counts]]:
    of_finding: dict[str, Callable[[GoldenFinding], str | None]] = {
        "severity": lambda finding: finding.label.severity,
        "category": lambda finding: finding.label.category,
    }
    groups: dict[str, dict[str | None, Counts]] = {}
    for axis in ("language", "change_type"):
        values = {getattr(traits, axis) for traits, _ in rows}
        groups[axis] = {
            value: _total([row for row in rows if getattr(row[0], axis) == value]) for value in _ordered(values)
        }
    for axis, value_of in of_finding.items():
        values = {value_of(finding) for _, golden in rows for finding in golden}
        groups[axis] = {}
        for value in _ordered(values):
            with_value = [
                (traits, tuple(finding for finding in golden if value_of(finding) == value)) for traits, golden in rows
            ]
            groups[axis][value] = _total([row for row in with_value if row[1]])
    return groups


def _ordered(values: set[str | None]) -> list[str | None]:
    return sorted(values, key=lambda value: (value is None, value or ""))
