"""The golden-comments benchmark's corpus: ``golden_comments/*.json``, with ``results/pr_labels.json`` (facts C1, C4).

A golden comment has text, a severity and perhaps a category, but no file and no lines; a pull request has a title and a
URL, but no commits. Its key is ``owner_name_number``.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crb_core.corpus import Corpus, CorpusEntry, Producer, canonical_json
from crb_core.errors import InputError, Where, first_problem
from crb_core.finding import GoldenFinding, Label, TpFp
from crb_core.formats.checked import Problems
from crb_core.formats.imported import Irregularities, Irregularity, JsonFile, shown
from crb_core.protocols.golden_comments import CATEGORIES, SEVERITIES
from crb_core.pull_request import PullRequest, PullRequestTraits

__all__ = ["FORMAT", "GoldenCommentsCorpus", "benchmark_root", "is_golden_comments", "pull_request_url", "read_corpus"]

FORMAT = "golden-comments"
#: Who the golden comments are by; the benchmark names nobody and no version.
PRODUCER = "human_review"
UNRECORDED = "not recorded"

_URL = re.compile(r"(https://github\.com/([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9._-]+))/pull/([1-9][0-9]{0,9})")
_ENTRY_FIELDS = ("pr_title", "url", "original_url", "az_comment", "comments")
_COMMENT_FIELDS = ("comment", "severity", "category")
_TRAITS = {
    "language": ("derived", "language"),
    "change_type": ("llm_pr_labels", "change_type"),
    "domain": ("llm_pr_labels", "domain"),
    "complexity": ("llm_pr_labels", "code_complexity"),
}


@dataclass(frozen=True, kw_only=True)
class GoldenCommentsCorpus:
    """The corpus as read, with the files that it was read from and their irregularities."""

    corpus: Corpus
    root: Path
    files: tuple[Path, ...]
    irregularities: tuple[Irregularity, ...]


def is_golden_comments(folder: Path) -> bool:
    """Whether a folder has this layout."""
    return (folder / "golden_comments").is_dir() or (folder.name == "golden_comments" and folder.is_dir())


def benchmark_root(folder: Path) -> Path:
    """The folder that holds ``golden_comments``; InputError where there is none."""
    if (folder / "golden_comments").is_dir():
        return folder
    if folder.name == "golden_comments" and folder.is_dir():
        return folder.parent
    raise InputError(
        "the folder has no folder golden_comments",
        where=Where(file=str(folder)),
        remedy="Name a folder laid out as the golden-comments benchmark: golden_comments/*.json beside results/",
    )


def pull_request_url(pull_request: PullRequest) -> str:
    """The URL under which the benchmark's files name a pull request."""
    return str(pull_request.source.get("url") or f"{pull_request.repo}/pull/{pull_request.number}")


def read_corpus(folder: Path, name: str) -> GoldenCommentsCorpus:
    """Read the golden comments of a folder as a corpus.

    Its version is the benchmark's own: the first 12 hex digits of the SHA-256 over every file's name, a NUL, its
    canonical JSON and a NUL, in name order (facts C4). InputError names the first problem and how many more there are.
    """
    root = benchmark_root(folder)
    problems, irregularities = Problems(), Irregularities()
    paths = sorted((root / "golden_comments").glob("*.json"))
    if not paths:
        raise InputError("there is no golden comments file", where=Where(file=str(root / "golden_comments")))
    reader = _Reader(problems, irregularities)
    digest = hashlib.sha256()
    for path in paths:
        raw = reader.read(path)
        digest.update(f"{path.name}\0".encode() + canonical_json(raw).encode() + b"\0")
    labels = root / "results" / "pr_labels.json"
    files = list(paths)
    if labels.is_file():
        files.append(labels)
        reader.read_labels(labels)
    problems.raise_first()
    try:
        corpus = Corpus(
            name=name,
            version=digest.hexdigest()[:12],
            title=name,
            description="Imported from the golden-comments benchmark's layout; it records no commits.",
            protocol=FORMAT,
            source="none",
            producers=(
                Producer(name=PRODUCER, version=UNRECORDED, note="The benchmark names no reviewers and no versions."),
            ),
            subsets={path.stem: tuple(reader.subsets[path.stem]) for path in paths},
            entries=tuple(reader.entries()),
        )
    except ValidationError as error:
        field, message = first_problem(error)
        raise InputError(
            f"this is no usable corpus: {message}", where=Where(file=str(root), field=field or None)
        ) from None
    return GoldenCommentsCorpus(
        corpus=corpus, root=root, files=tuple(files), irregularities=tuple(irregularities.found)
    )


class _Reader:
    """Collects pull requests over all files; equal URLs are refused across files too."""

    def __init__(self, problems: Problems, irregularities: Irregularities) -> None:
        self.problems = problems
        self.irregularities = irregularities
        self.subsets: dict[str, list[str]] = {}
        self._pull_requests: dict[str, dict[str, Any]] = {}
        self._golden: dict[str, tuple[GoldenFinding, ...]] = {}
        self._places: dict[str, str] = {}
        self._urls: dict[str, str] = {}

    def entries(self) -> list[CorpusEntry]:
        return [
            CorpusEntry(pull_request=PullRequest.model_validate(data), golden=self._golden[key])
            for key, data in self._pull_requests.items()
        ]

    def read(self, path: Path) -> Any:
        file = JsonFile(path, self.problems, self.irregularities)
        self.subsets[path.stem] = []
        before = len(self.problems.found)
        raw = file.load()
        if len(self.problems.found) > before:
            return None
        for place, item in enumerate(file.array(raw) or ()):
            self._entry(file, item, place)
        return raw

    def _entry(self, file: JsonFile, item: Any, place: int) -> None:
        record = file.object(item, place)
        if record is None:
            return
        file.unknown(record, _ENTRY_FIELDS, place)
        title = file.text(record.get("pr_title"), place, "pr_title")
        url = file.text(record.get("url"), place, "url")
        comments = file.array(record.get("comments"), place, "comments")
        match = _URL.fullmatch(url) if url is not None else None
        if url is not None and (match is None or match[3] in {".", ".."} or int(match[4]) > 2**31 - 1):
            file.wrong(f"{shown(url)} is not of the form https://github.com/OWNER/NAME/pull/NUMBER", place, "url")
            match = None
        if title is None or url is None or comments is None or match is None:
            return
        key = f"{match[2]}_{match[3]}_{match[4]}"
        if key in self._places:
            file.wrong(
                f"the pull request {shown(url)} is already at {self._places[key]}", place, "url", remedy="Keep one"
            )
            return
        golden = self._comments(file, comments, place)
        data = {"key": key, "repo": match[1], "number": int(match[4]), "base": None, "head": None, "title": title}
        try:
            PullRequest.model_validate(data)
        except ValidationError as error:
            file.wrong(first_problem(error)[1], place)
            return
        self._places[key] = f"{file.path.name} [{place}]"
        self._urls[url] = key
        self._golden[key] = golden
        rest = {name: value for name, value in record.items() if name not in {"pr_title", "comments"}}
        self._pull_requests[key] = data | {"source": {"file": file.path.name, **rest}}
        self.subsets[file.path.stem].append(key)

    def _comments(self, file: JsonFile, comments: list[Any], place: int) -> tuple[GoldenFinding, ...]:
        findings: list[GoldenFinding] = []
        first: dict[str, int] = {}
        for number, item in enumerate(comments):
            parts = (place, "comments", number)
            record = file.object(item, *parts)
            text = file.text(record.get("comment"), *parts, "comment") if record is not None else None
            if record is None or text is None:
                continue
            file.unknown(record, _COMMENT_FIELDS, *parts)
            severity = self._word(file, record, "severity", SEVERITIES, parts)
            category = self._word(file, record, "category", CATEGORIES, parts)
            if first.setdefault(text, number) != number:
                file.odd("equal golden texts", f"the text equals that of comments[{first[text]}]", *parts)
            axes = {"tp_fp": True, "severity": severity, "category": category}
            findings.append(
                GoldenFinding(
                    message=text,
                    producer=PRODUCER,
                    label=Label(
                        tp_fp=TpFp.TP,
                        severity=severity,
                        category=category,
                        provenance={axis: "human" for axis, value in axes.items() if value},
                    ),
                    source={name: value for name, value in record.items() if name != "comment"},
                )
            )
        if not comments:
            file.odd("no golden comments", "the pull request has no golden comment, so nothing can be scored", place)
        return tuple(findings)

    def _word(
        self, file: JsonFile, record: dict[str, Any], name: str, allowed: tuple[str, ...], parts: tuple[str | int, ...]
    ) -> str | None:
        value = record.get(name)
        if value is None:
            file.odd(f"missing {name}", f"the golden comment has no {name}", *parts)
            return None
        if not isinstance(value, str) or value.lower() not in allowed:
            file.wrong(
                f"{shown(value)} is no {name} of this benchmark",
                *parts,
                name,
                remedy=f"Use one of {', '.join(allowed)}",
            )
            return None
        return value.lower()

    def read_labels(self, path: Path) -> None:
        file = JsonFile(path, self.problems, self.irregularities)
        before = len(self.problems.found)
        raw = file.load()
        if len(self.problems.found) > before:
            return
        for url, item in (file.object(raw) or {}).items():
            key = self._urls.get(url)
            if key is None:
                file.odd("labels of an unknown pull request", "no golden comments file has this pull request", url)
                continue
            record = file.object(item, url)
            if record is not None:
                self._labels(file, url, key, record)
        for url in self._urls:
            if isinstance(raw, dict) and url not in raw:
                file.odd("missing labels", f"there are no labels of {url}")

    def _labels(self, file: JsonFile, url: str, key: str, record: dict[str, Any]) -> None:
        file.unknown(record, ("derived", "llm_pr_labels", "comment_bug_types"), url)
        groups = {
            name: (file.object(record[name], url, name) if record.get(name) is not None else None) or {}
            for name in ("derived", "llm_pr_labels")
        }
        traits: dict[str, Any] = {}
        for trait, (group, name) in _TRAITS.items():
            value = groups[group].get(name)
            if value is not None:
                traits[trait] = file.text(value, url, group, name)
        derived = groups["derived"]
        if derived.get("num_files_touched") is not None:
            traits["files_changed"] = file.integer(derived["num_files_touched"], url, "derived", "num_files_touched")
        golden = self._golden[key]
        stated = derived.get("num_golden_comments")
        if stated is not None and stated != len(golden):
            file.odd(
                "totals disagree",
                f"says {shown(stated)} golden comments, the golden comments file has {len(golden)}",
                url,
                "derived",
                "num_golden_comments",
            )
        mix = derived.get("severity_mix")
        counted = Counter(finding.label.severity for finding in golden)
        if isinstance(mix, dict) and {name.lower(): number for name, number in mix.items()} != dict(counted):
            file.odd("totals disagree", "differs from the golden comments' severities", url, "derived", "severity_mix")
        types = record.get("comment_bug_types")
        if isinstance(types, list) and len(types) != len(golden):
            file.odd(
                "totals disagree", f"lists {len(types)} of {len(golden)} golden comments", url, "comment_bug_types"
            )
        self._pull_requests[key]["traits"] = PullRequestTraits(
            **{name: value for name, value in traits.items() if value is not None}
        ).model_dump()
        self._pull_requests[key]["source"]["labels"] = record
