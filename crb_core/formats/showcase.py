"""The text form of a corpus: repositories as base tree and patch, so that every part can be reviewed and diffed.

    corpus.toml                          name, version, producers, subsets, the ordered list of pull requests
    pull_requests/<key>/base/...         the base tree, byte for byte
    pull_requests/<key>/change.patch     ``git diff`` from base to head
    pull_requests/<key>/pull_request.toml
    pull_requests/<key>/golden.json      {"findings": [...]} as in ReviewBench's golden files, with provenance
    reference/<reviewer>/<key>.json      judgments of people on the recorded reviewers

Commit ids, traits, provenance and content ids are written by ``crb corpus validate --seal``; a corpus is *sealed* when
all are there. Nothing here runs git: whether the patch applies and the ids are right is ``crb_worker``'s to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError, field_validator

from crb_core.corpus import Corpus, CorpusEntry, CorpusName, Producer
from crb_core.diff import DiffIndex
from crb_core.errors import InputError, Where, first_problem
from crb_core.finding import GoldenFinding, NonBlank, Record
from crb_core.formats.checked import Problems
from crb_core.formats.golden import golden_from_json, has_true_positive
from crb_core.formats.paths import path_problem
from crb_core.formats.recordings import Recording, Reference, read_recording, read_reference
from crb_core.formats.text_tree import read_patch, read_tree
from crb_core.pull_request import PullRequest, PullRequestTraits, Sha

__all__ = [
    "CorpusText",
    "PullRequestText",
    "ReviewerText",
    "is_text_corpus",
    "read_corpus_text",
    "read_pull_request_text",
    "read_showcase",
]

CHANGE_TYPES = ("feature", "fix", "refactor", "performance", "dependency", "infrastructure", "docs", "tests")
COMPLEXITIES = ("simple", "moderate", "complex")
#: The protocols that a text corpus can be written for: those whose golden findings have files and lines.
_PROTOCOLS = ("reviewbench", "answer-key")
SEAL = "Run crb corpus validate --seal"

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]


class _RecordedReviewer(Record):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    recordings: NonBlank
    reference: NonBlank


class _CorpusFile(Record):
    name: CorpusName
    version: NonBlank
    title: NonBlank
    description: str = ""
    licence: NonBlank
    protocol: str
    producers: tuple[Producer, ...] = Field(min_length=1)
    subsets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    pull_requests: tuple[Key, ...] = Field(min_length=1)
    recorded_reviewers: tuple[_RecordedReviewer, ...] = ()

    @field_validator("protocol")
    @classmethod
    def _protocol_has_this_form(cls, value: str) -> str:
        if value not in _PROTOCOLS:
            raise ValueError(f"{value!r} is no protocol of text corpora; choose {' or '.join(_PROTOCOLS)}")
        return value


class _PullRequestFile(Record):
    repo: str
    number: int
    title: Annotated[str, StringConstraints(pattern=r"^[^\r\n]*\S[^\r\n]*$")]
    body: str = ""
    language: NonBlank
    change_type: str
    domain: NonBlank
    complexity: str
    executable: tuple[str, ...] = ()
    base: Sha | None = None
    head: Sha | None = None
    lines_added: int | None = Field(default=None, ge=0)
    lines_removed: int | None = Field(default=None, ge=0)
    files_changed: int | None = Field(default=None, ge=0)

    @field_validator("change_type")
    @classmethod
    def _change_type_is_known(cls, value: str) -> str:
        if value not in CHANGE_TYPES:
            raise ValueError(f"{value!r} is no change type; use one of {', '.join(CHANGE_TYPES)}")
        return value

    @field_validator("complexity")
    @classmethod
    def _complexity_is_known(cls, value: str) -> str:
        if value not in COMPLEXITIES:
            raise ValueError(f"{value!r} is no complexity; use one of {', '.join(COMPLEXITIES)}")
        return value


class _GoldenFile(Record):
    findings: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class PullRequestText:
    """One pull request as text.

    ``base`` and ``head`` are the commit ids that its file states, None before sealing. ``files`` pairs each path of the
    base tree with the file that holds its bytes; ``executable`` are the paths with mode 755.
    """

    key: str
    folder: Path
    repo: str
    number: int
    title: str
    body: str
    base: str | None
    head: str | None
    traits: PullRequestTraits
    files: tuple[tuple[str, Path], ...]
    executable: frozenset[str]
    patch: bytes
    diff: DiffIndex

    @property
    def settings_file(self) -> Path:
        return self.folder / "pull_request.toml"

    @property
    def patch_file(self) -> Path:
        return self.folder / "change.patch"

    @property
    def golden_file(self) -> Path:
        return self.folder / "golden.json"

    def pull_request(self) -> PullRequest:
        """The record; InputError if the text is not sealed."""
        if self.base is None or self.head is None:
            missing = "base" if self.base is None else "head"
            raise InputError(
                "the commit id is missing", where=Where(file=str(self.settings_file), field=missing), remedy=SEAL
            )
        return PullRequest(
            key=self.key,
            repo=self.repo,
            number=self.number,
            base=self.base,
            head=self.head,
            title=self.title,
            body=self.body,
            traits=self.traits,
        )


@dataclass(frozen=True, kw_only=True)
class ReviewerText:
    """A recorded reviewer with recordings and reference judgments by pull request key."""

    name: str
    recordings_folder: Path
    reference_folder: Path
    recordings: dict[str, Recording]
    references: dict[str, Reference]


@dataclass(frozen=True, kw_only=True)
class CorpusText:
    """A whole text corpus as far as it could be read."""

    folder: Path
    name: str
    version: str
    title: str
    description: str
    licence: str
    protocol: str
    producers: tuple[Producer, ...]
    subsets: dict[str, tuple[str, ...]]
    pull_requests: dict[str, PullRequestText]
    golden: dict[str, tuple[GoldenFinding, ...]]
    reviewers: tuple[ReviewerText, ...]

    def corpus(self) -> Corpus:
        """The record of this corpus; its source template is the corpus folder. InputError if it is not sealed."""
        return Corpus(
            name=self.name,
            version=self.version,
            title=self.title,
            description=self.description,
            protocol=self.protocol,
            source="showcase",
            source_template=str(self.folder),
            producers=self.producers,
            subsets=self.subsets,
            entries=tuple(
                CorpusEntry(pull_request=text.pull_request(), golden=self.golden[key])
                for key, text in self.pull_requests.items()
            ),
        )


def is_text_corpus(folder: Path) -> bool:
    """Whether a folder has this form."""
    return (folder / "corpus.toml").is_file()


def read_showcase(folder: Path) -> Corpus:
    """Read a sealed text corpus; InputError names the first problem and says how many more there are."""
    problems = Problems()
    text = read_corpus_text(folder, problems)
    problems.raise_first()
    if text is None:
        raise InputError("the corpus cannot be read", where=Where(file=str(folder)))
    return text.corpus()


def read_corpus_text(folder: Path, problems: Problems) -> CorpusText | None:
    """Read a text corpus, noting every problem that needs no git to see; None if corpus.toml itself is unusable."""
    path = folder / "corpus.toml"
    raw = problems.toml(path)
    settings = None if raw is None else problems.record(_CorpusFile, raw, file=path)
    if settings is None:
        return None
    _check_lists(settings, folder, path, problems)
    pull_requests: dict[str, PullRequestText] = {}
    golden: dict[str, tuple[GoldenFinding, ...]] = {}
    numbers: dict[tuple[str, int], str] = {}
    known_producers = {producer.name for producer in settings.producers}
    for key in dict.fromkeys(settings.pull_requests):
        text = read_pull_request_text(folder / "pull_requests" / key, problems)
        if text is None:
            continue
        findings = _read_golden(text.golden_file, settings.protocol, problems)
        for position, finding in enumerate(findings or ()):
            if finding.producer not in known_producers:
                problems.add(
                    f"the producer {finding.producer!r} is not listed in corpus.toml",
                    file=text.golden_file,
                    field=f"findings[{position}].producer",
                    remedy="List it with version and configuration",
                )
        if findings is None:
            continue
        first = numbers.setdefault((text.repo, text.number), key)
        if first != key:
            problems.add(
                f"this is the same pull request as {first}: {text.repo} number {text.number}",
                file=text.settings_file,
                field="number",
            )
        pull_requests[key] = text
        golden[key] = findings
    reviewers = tuple(
        _read_reviewer(reviewer, folder, settings.protocol, golden, problems)
        for reviewer in settings.recorded_reviewers
    )
    return CorpusText(
        folder=folder,
        name=settings.name,
        version=settings.version,
        title=settings.title,
        description=settings.description,
        licence=settings.licence,
        protocol=settings.protocol,
        producers=settings.producers,
        subsets=settings.subsets,
        pull_requests=pull_requests,
        golden=golden,
        reviewers=reviewers,
    )


def read_pull_request_text(folder: Path, problems: Problems) -> PullRequestText | None:
    """Read one pull request; None if a problem was noted that leaves no whole one."""
    if not folder.is_dir():
        problems.add("the pull request's folder is missing", file=folder, remedy="Write it or take it off the list")
        return None
    path = folder / "pull_request.toml"
    raw = problems.toml(path)
    settings = None if raw is None else problems.record(_PullRequestFile, raw, file=path)
    files = read_tree(folder / "base", problems)
    patch, diff = read_patch(folder / "change.patch", problems)
    if settings is None or files is None or diff is None:
        return None
    for place, name in enumerate(settings.executable):
        if name not in files:
            problems.add(f"{name!r} is not in the base tree", file=path, field=f"executable[{place}]")
    traits = PullRequestTraits(
        language=settings.language,
        change_type=settings.change_type,
        domain=settings.domain,
        complexity=settings.complexity,
        lines_added=settings.lines_added,
        lines_removed=settings.lines_removed,
        files_changed=settings.files_changed,
    )
    try:
        # Repository, number and title are held to the record's rules before there are commit ids to fill in.
        PullRequest(
            key=folder.name,
            repo=settings.repo,
            number=settings.number,
            base=settings.base or "0" * 40,
            head=settings.head or "0" * 40,
            title=settings.title,
        )
    except ValidationError as error:
        field, message = first_problem(error)
        problems.add(message, file=path, field=field)
        return None
    return PullRequestText(
        key=folder.name,
        folder=folder,
        repo=settings.repo,
        number=settings.number,
        title=settings.title,
        body=settings.body,
        base=settings.base,
        head=settings.head,
        traits=traits,
        files=tuple(sorted(files.items())),
        executable=frozenset(settings.executable),
        patch=patch,
        diff=diff,
    )


def _check_lists(settings: _CorpusFile, folder: Path, path: Path, problems: Problems) -> None:
    for place, key in enumerate(settings.pull_requests):
        if key in settings.pull_requests[:place]:
            problems.add(f"the pull request {key} is listed twice", file=path, field=f"pull_requests[{place}]")
    for name, members in settings.subsets.items():
        if not members:
            problems.add("the subset is empty", file=path, field=f"subsets.{name}")
        for place, key in enumerate(members):
            if key not in settings.pull_requests:
                problems.add(
                    f"{key!r} is not in the corpus's list of pull requests", file=path, field=f"subsets.{name}[{place}]"
                )
            elif key in members[:place]:
                problems.add(f"{key!r} is named twice", file=path, field=f"subsets.{name}[{place}]")
    for what, names in (
        ("producers", [producer.name for producer in settings.producers]),
        ("recorded_reviewers", [reviewer.name for reviewer in settings.recorded_reviewers]),
    ):
        for place, name in enumerate(names):
            if name in names[:place]:
                problems.add(f"{name!r} is listed twice", file=path, field=f"{what}[{place}].name")
    root = folder / "pull_requests"
    if root.is_dir():
        for child in sorted(root.iterdir()):
            if child.name not in settings.pull_requests:
                problems.add(
                    "this is not in corpus.toml's list of pull_requests", file=child, remedy="List it or remove it"
                )


def _read_golden(path: Path, protocol: str, problems: Problems) -> tuple[GoldenFinding, ...] | None:
    raw = problems.json(path)
    text = None if raw is None else problems.record(_GoldenFile, raw, file=path)
    if text is None:
        return None
    findings = golden_from_json(
        list(text.findings), file=path, protocol=protocol, problems=problems, check_path=path_problem
    )
    if not has_true_positive(findings):
        problems.add("a pull request needs at least one finding that is tp", file=path, field="findings")
    return findings


def _read_reviewer(
    reviewer: _RecordedReviewer,
    folder: Path,
    protocol: str,
    golden: dict[str, tuple[GoldenFinding, ...]],
    problems: Problems,
) -> ReviewerText:
    recordings_folder = folder / reviewer.recordings
    reference_folder = folder / reviewer.reference
    recordings: dict[str, Recording] = {}
    references: dict[str, Reference] = {}
    for key, findings in golden.items():
        recording = read_recording(
            recordings_folder / f"{key}.json", reviewer=reviewer.name, key=key, problems=problems
        )
        if recording is None:
            continue
        recordings[key] = recording
        reference = read_reference(
            reference_folder / f"{key}.json",
            recording=recording,
            golden=findings,
            protocol=protocol,
            problems=problems,
        )
        if reference is not None:
            references[key] = reference
    return ReviewerText(
        name=reviewer.name,
        recordings_folder=recordings_folder,
        reference_folder=reference_folder,
        recordings=recordings,
        references=references,
    )
