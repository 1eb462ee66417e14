"""ReviewBench's public corpus layout: ``manifest.json`` and ``golden/<pull request key>.json`` (facts A1 to A3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crb_core.corpus import Corpus, CorpusEntry, Producer, fingerprint
from crb_core.errors import InputError, Where
from crb_core.finding import GoldenFinding, Record
from crb_core.formats.checked import Problems
from crb_core.formats.golden import golden_from_json
from crb_core.formats.paths import path_problem
from crb_core.formats.strict_json import load_json
from crb_core.pull_request import PullRequest, reviewbench_key

__all__ = [
    "ReviewBenchText",
    "corpus_files",
    "folder_of_manifest",
    "is_reviewbench",
    "read_reviewbench",
    "read_reviewbench_text",
]

PROTOCOL = "reviewbench"
#: What a producer's version is where the corpus does not record one.
UNRECORDED = "not recorded"
_MANIFEST_FIELDS = {
    "repo",
    "pr_number",
    "pr_url",
    "base",
    "head",
    "title",
    "body",
    "nwo",
    "language",
    "repo_size_kb",
    "lines_added",
    "lines_removed",
    "files_changed",
}
#: Subsets by name, and where they lie beside the manifest; the test corpus was once called showcase (seed A 3.2).
_SUBSETS = {"test": "test/test.json", "showcase": "showcase/manifest.json"}
_TRAIT_FIELDS = ("language", "repo_size_kb", "lines_added", "lines_removed", "files_changed")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]$")
_SETTING = re.compile(r"^\s*([^=\s][^=]*?)\s*=\s*(.*?)\s*$")


class _GoldenPullRequest(Record):
    repo: str
    pr_number: int
    base: str
    head: str


class _GoldenFile(Record):
    pr_key: str
    pr: _GoldenPullRequest
    findings: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class ReviewBenchText:
    """A ReviewBench folder as read.

    ``irregularities`` do not stop an import, but are to be reported: unknown fields, derived fields that disagree, and
    golden files of pull requests that the manifest does not list.
    """

    folder: Path
    manifest: Path
    entries: tuple[CorpusEntry, ...]
    subsets: dict[str, tuple[str, ...]]
    irregularities: tuple[str, ...]
    protocol: str = PROTOCOL

    def golden_file(self, key: str) -> Path:
        return self.folder / "golden" / f"{key}.json"

    def corpus(
        self,
        name: str,
        *,
        title: str | None = None,
        version: str | None = None,
        source: Literal["mirror", "git", "none"] = "none",
        source_template: str | None = None,
    ) -> Corpus:
        """The record. Without a ``version`` it is the first 12 hex digits of the SHA-256 over the content."""
        content = [[entry.pull_request.model_dump(mode="json"), entry.answer_key_fingerprint] for entry in self.entries]
        return Corpus(
            name=name,
            version=version or fingerprint(content)[:12],
            title=title or name,
            protocol=self.protocol,
            source=source,
            source_template=source_template,
            producers=_producers(self.entries),
            subsets=self.subsets,
            entries=self.entries,
        )


def folder_of_manifest(file: Path) -> Path:
    """The corpus folder of a manifest that was named instead of it.

    InputError, with line and column, where it is no JSON, and where no corpus is around it: a manifest alone lists
    pull requests, but holds no golden finding.
    """
    load_json(file)
    if file.name == "manifest.json" and (file.parent / "golden").is_dir():
        return file.parent
    raise InputError(
        "a file is no corpus: a manifest lists pull requests, and their golden findings are beside it",
        where=Where(file=str(file)),
        remedy="Name the folder that holds manifest.json and golden/",
    )


def is_reviewbench(folder: Path) -> bool:
    """Whether a folder has this layout."""
    return _manifest(folder).is_file()


def corpus_files(folder: Path) -> tuple[Path, ...]:
    """The files that a corpus in this layout is read from, as far as they exist."""
    manifest = _manifest(folder)
    files = [manifest, *sorted((folder / "golden").glob("*.json"))]
    files += [manifest.parent / path for path in _SUBSETS.values()]
    return tuple(path for path in files if path.is_file())


def read_reviewbench(
    folder: Path,
    name: str,
    *,
    title: str | None = None,
    version: str | None = None,
    source: Literal["mirror", "git", "none"] = "none",
    source_template: str | None = None,
    protocol: str = PROTOCOL,
) -> tuple[Corpus, tuple[str, ...]]:
    """Read a ReviewBench folder as a corpus, with the irregularities to report.

    ``protocol`` is what its findings are for: reviewbench, or answer-key (tp: a defect, fp: an intended trade-off).
    InputError names the first problem and says how many more there are.
    """
    problems = Problems()
    text = read_reviewbench_text(folder, problems, protocol=protocol)
    problems.raise_first()
    if text is None:
        raise InputError("the corpus cannot be read", where=Where(file=str(folder)))
    corpus = text.corpus(name, title=title, version=version, source=source, source_template=source_template)
    return corpus, text.irregularities


def read_reviewbench_text(folder: Path, problems: Problems, *, protocol: str = PROTOCOL) -> ReviewBenchText | None:
    """Read manifest and golden files, noting every problem; None if the manifest itself is unusable."""
    manifest = _manifest(folder)
    raw = problems.json(manifest)
    if raw is None:
        return None
    if not isinstance(raw, list):
        problems.add("the manifest must be an array of pull requests", file=manifest)
        return None
    if not raw:
        problems.add("the manifest lists no pull request", file=manifest)
    irregularities: list[str] = []
    entries: list[CorpusEntry] = []
    seen: dict[str, int] = {}
    numbers: dict[tuple[str, int], int] = {}
    for place, item in enumerate(raw):
        field = f"[{place}]"
        pull_request = _pull_request(item, manifest, field, problems, irregularities)
        if pull_request is None:
            continue
        first = min(
            seen.setdefault(pull_request.key, place),
            numbers.setdefault((pull_request.repo, pull_request.number), place),
        )
        if first != place:
            problems.add(
                f"the pull request {pull_request.nwo} number {pull_request.number} is already [{first}]",
                file=manifest,
                field=field,
                remedy="Remove one of them",
            )
            continue
        golden = _golden(
            folder / "golden" / f"{pull_request.key}.json", pull_request, manifest, field, protocol, problems
        )
        if golden is not None:
            entries.append(CorpusEntry(pull_request=pull_request, golden=golden))
    for path in sorted((folder / "golden").glob("*.json")):
        if path.stem not in seen:
            irregularities.append(f"{path}: the manifest lists no pull request {path.stem}; the file is not used")
    return ReviewBenchText(
        folder=folder,
        manifest=manifest,
        entries=tuple(entries),
        subsets={
            name: members
            for name, path in _SUBSETS.items()
            if (members := _subset(name, manifest.parent / path, set(seen), problems)) is not None
        },
        irregularities=tuple(irregularities),
        protocol=protocol,
    )


def _manifest(folder: Path) -> Path:
    """``manifest.json``, or ``corpus/manifest.json`` as in a checkout of the public repository."""
    nested = folder / "corpus" / "manifest.json"
    return nested if nested.is_file() and not (folder / "manifest.json").is_file() else folder / "manifest.json"


def _pull_request(
    item: Any, manifest: Path, field: str, problems: Problems, irregularities: list[str]
) -> PullRequest | None:
    if not isinstance(item, dict):
        problems.add("a pull request must be an object", file=manifest, field=field)
        return None
    repo, number, head = item.get("repo"), item.get("pr_number"), item.get("head")
    key = "unusable"
    if isinstance(repo, str) and isinstance(number, int) and isinstance(head, str):
        key = reviewbench_key(repo, number, head)
    data = {"key": key, "traits": {name: item[name] for name in _TRAIT_FIELDS if name in item}}
    for name, target in (
        ("repo", "repo"),
        ("pr_number", "number"),
        ("base", "base"),
        ("head", "head"),
        ("title", "title"),
        ("body", "body"),
    ):
        if name in item:
            data[target] = item[name]
    before = len(problems.found)
    record = problems.record(PullRequest, data, file=manifest, field=field, flat="traits")
    if record is None:
        _name_as_manifest(problems, before, field)
        return None
    if not record.has_commits:
        problems.add("base and head are null", file=manifest, field=field, remedy="Write the two commit ids")
        return None
    expected = {"nwo": record.nwo, "pr_url": f"{record.repo}/pull/{record.number}"}
    for name, value in expected.items():
        if name in item and item[name] != value:
            irregularities.append(f"{manifest}, field {field}.{name}: {item[name]!r} is not {value!r}, which is used")
    unknown = sorted(set(item) - _MANIFEST_FIELDS)
    if unknown:
        irregularities.append(f"{manifest}, field {field}: unknown fields are not kept: {', '.join(unknown)}")
    return record


def _name_as_manifest(problems: Problems, start: int, field: str) -> None:
    """Name the manifest's own fields in problems that were found under the record's names."""
    for error in problems.found[start:]:
        if error.where and error.where.field and error.where.field != field:
            name = error.where.field.removeprefix(f"{field}.")
            name = {"number": "pr_number", "key": "repo"}.get(name, name)
            error.where = Where(file=error.where.file, field=f"{field}.{name}")


def _golden(
    path: Path, pull_request: PullRequest, manifest: Path, field: str, protocol: str, problems: Problems
) -> tuple[GoldenFinding, ...] | None:
    if not path.is_file():
        problems.add(
            f"the golden file of {pull_request.key}, listed in {manifest} {field}, is missing",
            file=path,
            remedy="Add it, or take the pull request off the manifest",
        )
        return None
    raw = problems.json(path)
    text = None if raw is None else problems.record(_GoldenFile, raw, file=path)
    if text is None:
        return None
    if text.pr_key != pull_request.key:
        problems.add(f"the key is {text.pr_key!r}, expected {pull_request.key!r}", file=path, field="pr_key")
    for name, expected in (
        ("repo", pull_request.repo),
        ("pr_number", pull_request.number),
        ("base", pull_request.base),
        ("head", pull_request.head),
    ):
        stated = getattr(text.pr, name)
        if stated != expected:
            problems.add(
                f"golden file and manifest disagree: {stated} here, {expected} in {manifest} {field}.{name}",
                file=path,
                field=f"pr.{name}",
                remedy="Correct the one that is wrong",
            )
    return golden_from_json(
        list(text.findings), file=path, protocol=protocol, problems=problems, check_path=path_problem
    )


def _subset(name: str, path: Path, keys: set[str], problems: Problems) -> tuple[str, ...] | None:
    """The keys of a subset, an array of manifest entries; None where the corpus has none of that name."""
    if not path.is_file():
        return None
    raw = problems.json(path)
    if raw is None:
        return None
    if not isinstance(raw, list):
        problems.add(f"the {name} subset must be an array of pull requests", file=path)
        return None
    members = []
    for place, item in enumerate(raw):
        try:
            key = reviewbench_key(item["repo"], item["pr_number"], item["head"])
        except (TypeError, KeyError, AttributeError):
            key = ""
        if key not in keys:
            problems.add("the manifest does not list this pull request", file=path, field=f"[{place}]")
        else:
            members.append(key)
    return tuple(dict.fromkeys(members))


def _producers(entries: tuple[CorpusEntry, ...]) -> tuple[Producer, ...]:
    """The producers that the golden findings name; ReviewBench writes their settings in brackets after the name."""
    names = sorted({finding.producer for entry in entries for finding in entry.golden})
    producers = []
    for name in names:
        brackets = _BRACKETS.search(name)
        pairs = [_SETTING.match(part) for part in brackets[1].split(",")] if brackets else []
        producers.append(
            Producer(
                name=name,
                version=UNRECORDED,
                configuration={pair[1]: pair[2] for pair in pairs if pair},
                note="As named by the corpus; it records no versions.",
            )
        )
    return tuple(producers)
