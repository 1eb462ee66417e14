"""ReviewBench's reviews: candidate files, and ``results.details.json`` with the judgments of them (facts A4, A10).

Files of one agent for one pull request are concatenated by sorted path (rule 4). A details file names no agent; it
judges the candidates of the candidate files beside it, or brings its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crb_core.agent import Outcome
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.errors import InputError, Where
from crb_core.formats.checked import Problems
from crb_core.formats.imported import (
    ImportedCandidate,
    ImportedJudgment,
    ImportedReview,
    ImportedReviews,
    Irregularities,
    JsonFile,
    check_agent,
    shown,
)
from crb_core.formats.located import Places
from crb_core.formats.reviewbench_details import DetailsReader

__all__ = ["DETAILS_NAME", "FORMAT", "RESULTS_NAME", "read_reviews"]

FORMAT = "reviewbench"
DETAILS_NAME = "results.details.json"
RESULTS_NAME = "results.json"

_FIELDS = ("pr", "agent", "findings", "usage", "status", "failure_reason", "metadata", "review_ms")
_FINDING_FIELDS = ("producer", "file", "start_line", "end_line", "message", "in_diff")
_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "time_in_ms", "cost_usd")
_STATUS = {
    "success": Outcome.SUCCEEDED,
    "timeout": Outcome.TIMEOUT,
    "error": Outcome.NONZERO_EXIT,
}


@dataclass
class _Review:
    """What the files of one agent say of one pull request."""

    candidates: list[ImportedCandidate] = field(default_factory=list)
    outcome: Outcome = Outcome.SUCCEEDED
    detail: str | None = None
    review_ms: float | None = None
    duration_seconds: float | None = None
    usage: dict[str, Any] | None = None
    files: list[dict[str, Any]] = field(default_factory=list)


def read_reviews(
    path: Path, corpus: Corpus, *, agent: str | None = None, judge: str | None = None, round_number: int = 1
) -> ImportedReviews:
    """Read a candidate file, a folder of them, a details file, or a folder with all of it.

    ``agent`` names the agent of a details file, and takes only its reviews from candidate files; ``judge`` names the
    details' judge (by default its models, as ``results.json`` beside it has them). InputError names the first problem
    and how many more there are.
    """
    check_agent(agent)
    check_agent(judge)
    reader = _Reviews(corpus)
    paths = _paths(path)
    details = [each for each in paths if each.name == DETAILS_NAME or reader.is_details(each)]
    for each in paths:
        if each not in details and each.name != RESULTS_NAME:
            reader.read(each)
    reader.problems.raise_first()
    agents = sorted({name for name, _ in reader.reviews})
    if agent is not None:
        reader.reviews = {owner: review for owner, review in reader.reviews.items() if owner[0] == agent}
        if not reader.reviews and not details:
            raise InputError(
                f"there is no review by {shown(agent)}",
                where=Where(file=str(path)),
                remedy=f"The files are of {', '.join(agents)}",
            )
    judgments: dict[tuple[str, str], list[ImportedJudgment]] = {}
    for each in details:
        if agent is None and len(agents) != 1:
            raise InputError(
                "a details file does not say which agent it judges",
                where=Where(file=str(each)),
                remedy="Give --agent NAME",
            )
        name = agent or agents[0]
        for key, judgment in reader.read_details(each, name, judge):
            judgments.setdefault((name, key), []).append(judgment)
    reader.problems.raise_first()
    if not reader.reviews:
        raise InputError("the files hold no reviews", where=Where(file=str(path)), remedy="Name a candidate file")
    return ImportedReviews(
        format=FORMAT,
        reviews=tuple(
            ImportedReview(
                agent=name,
                pull_request=key,
                candidates=tuple(review.candidates),
                judgments=tuple(judgments.get((name, key), ())),
                round=round_number,
                outcome=review.outcome,
                detail=review.detail,
                review_ms=review.review_ms,
                duration_seconds=review.duration_seconds,
                usage=review.usage,
                source={"files": review.files},
            )
            for (name, key), review in sorted(reader.reviews.items())
        ),
        root=path if path.is_dir() else path.parent,
        files=tuple(reader.files),
        irregularities=tuple(reader.irregularities.found),
    )


def _paths(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(each for each in path.rglob("*.json") if each.is_file())
        if not found:
            raise InputError("the folder holds no JSON file", where=Where(file=str(path)), remedy="Check the path")
        return found
    if not path.exists():
        raise InputError("the file does not exist", where=Where(file=str(path)), remedy="Check the path")
    return [path]


class _Reviews:
    def __init__(self, corpus: Corpus) -> None:
        self.problems, self.irregularities = Problems(), Irregularities()
        self.reviews: dict[tuple[str, str], _Review] = {}
        self.files: list[Path] = []
        self._corpus = corpus
        self._entries = {entry.pull_request.key: entry for entry in corpus.entries}
        self._by_number: dict[tuple[str | None, int | None], list[CorpusEntry]] = {}
        for entry in corpus.entries:
            self._by_number.setdefault((entry.pull_request.repo, entry.pull_request.number), []).append(entry)
        self._values: dict[Path, Any] = {}

    def _load(self, file: JsonFile) -> Any:
        """The value of a file, or None with a problem noted; each file is read once."""
        if file.path not in self._values:
            self.files.append(file.path)
            self._values[file.path] = file.load()
        return self._values[file.path]

    def is_details(self, path: Path) -> bool:
        """Whether a file is an array of judged pull requests, whatever it is called."""
        value = self._load(JsonFile(path, self.problems, self.irregularities))
        return isinstance(value, list) and any(
            isinstance(each, dict) and "candidate_findings" in each for each in value
        )

    def read(self, path: Path) -> None:
        file = JsonFile(path, self.problems, self.irregularities)
        before = len(self.problems.found)
        value = self._load(file)
        if value is None and (
            len(self.problems.found) > before or any(_is_of(each, path) for each in self.problems.found)
        ):
            return
        document = file.object(value)
        entry = self._entry(file, document) if document is not None else None
        if document is None or entry is None:
            return
        file.unknown(document, _FIELDS)
        agent = file.name(document.get("agent"), "agent")
        findings = file.array(document.get("findings"), "findings")
        if agent is None or findings is None:
            return
        review = self.reviews.setdefault((agent, entry.pull_request.key), _Review())
        is_first = not review.files
        if not is_first:
            file.odd("review in several files", f"continues {review.files[0]['file']}; findings are added to its own")
        places = Places(file=file, agent=agent)
        for number, item in enumerate(findings):
            candidate = _finding(file, item, number, places)
            if candidate is not None:
                review.candidates.append(candidate)
        self._add_run(file, document, review, is_first)
        rest = {name: each for name, each in document.items() if name not in {"findings", "pr", "agent"}}
        review.files.append({"file": path.name, "findings": len(findings), **rest})

    def _entry(self, file: JsonFile, document: Mapping[str, Any]) -> CorpusEntry | None:
        """The corpus's pull request that a candidate file names; repository, number and commits must agree."""
        pr = file.object(document.get("pr"), "pr")
        if pr is None:
            return None
        before = len(self.problems.found)
        repo = file.text(pr.get("repo"), "pr", "repo")
        number = file.integer(pr.get("pr_number"), "pr", "pr_number", low=1)
        head = file.text(pr.get("head"), "pr", "head")
        if len(self.problems.found) > before:
            return None
        # One pull request can be there at several heads.
        known = self._by_number.get((repo, number), [])
        entry = next((each for each in known if each.pull_request.recorded_head == head), known[0] if known else None)
        if entry is None:
            file.wrong(
                f"the corpus {self._corpus.name} has no pull request {shown(repo)} number {number}",
                "pr",
                remedy=f"`crb corpus show {self._corpus.name}` lists its pull requests",
            )
            return None
        for name, stated, expected in (
            ("head", head, entry.pull_request.recorded_head),
            ("base", pr.get("base"), entry.pull_request.recorded_base),
        ):
            if stated is not None and stated != expected:
                file.wrong(
                    f"the review is of {name} {shown(stated)}, the corpus has {shown(expected)}",
                    "pr",
                    name,
                    remedy="Import the corpus that was reviewed",
                )
                return None
        return entry

    def _add_run(self, file: JsonFile, document: Mapping[str, Any], review: _Review, is_first: bool) -> None:
        """Outcome, times and usage; those of the first file count, later ones are kept and reported."""
        status = document.get("status", "success")
        if not isinstance(status, str) or status not in _STATUS:
            file.wrong(f"{shown(status)} is no status", "status", remedy=f"Use one of {', '.join(_STATUS)}")
        elif _STATUS[status] is not Outcome.SUCCEEDED and review.outcome is Outcome.SUCCEEDED:
            reason = document.get("failure_reason")
            review.outcome = _STATUS[status]
            review.detail = reason if isinstance(reason, str) and reason.strip() else f"the file says {status}"
        metadata = document.get("metadata")
        times = (file.object(metadata, "metadata") if metadata is not None else None) or {}
        for name, at in (("review_ms", document), ("review_ms", times), ("duration_seconds", times)):
            place = (name,) if at is document else ("metadata", name)
            if at.get(name) is not None and getattr(review, name) is None and is_first:
                setattr(review, name, file.number(at[name], *place))
        usage = document.get("usage")
        if usage is None:
            return
        record = file.object(usage, "usage")
        if record is None:
            return
        for name in _USAGE:
            if record.get(name) is not None:
                file.number(record[name], "usage", name)
        if review.usage is None and is_first:
            review.usage = record
        else:
            file.odd("usage of a further file", "the first file's usage counts; this one is kept", "usage")

    def read_details(self, path: Path, agent: str, judge: str | None) -> Iterator[tuple[str, ImportedJudgment]]:
        file = JsonFile(path, self.problems, self.irregularities)
        config = self._eval_config(path.parent / RESULTS_NAME)
        name = judge or _judge_name(config)
        description = {"kind": "imported", "format": FORMAT, "name": name, "eval_config": config}
        had_candidates = {key for owner, key in self.reviews if owner == agent}
        seen: dict[str, int] = {}
        for number, item in enumerate(file.array(self._load(file)) or ()):
            record = file.object(item, number)
            key = file.text(record.get("pr_key"), number, "pr_key") if record is not None else None
            if record is None or key is None:
                continue
            if key not in self._entries:
                file.wrong(f"the corpus {self._corpus.name} has no pull request {shown(key)}", number, "pr_key")
                continue
            if seen.setdefault(key, number) != number:
                file.wrong(f"the pull request {shown(key)} is already at [{seen[key]}]", number, "pr_key")
                continue
            reader = DetailsReader(file, number, self._entries[key].golden, Places(file=file, agent=agent))
            candidates, judgment = reader.read(record, judge=name, description=description)
            review = self.reviews.setdefault((agent, key), _Review(files=[{"file": path.name}]))
            if key in had_candidates:
                _compare(file, number, review.candidates, candidates)
            else:
                review.candidates = candidates
            yield key, judgment

    def _eval_config(self, path: Path) -> dict[str, Any]:
        """What ``results.json`` beside the details records of the judge: models and prompt hashes."""
        if not path.is_file():
            return {}
        value = self._load(JsonFile(path, self.problems, self.irregularities))
        config = value.get("eval_config") if isinstance(value, dict) else None
        return config if isinstance(config, dict) else {}


def _judge_name(config: Mapping[str, Any]) -> str:
    models = [config.get("matcher_model"), config.get("classifier_model")]
    names = list(dict.fromkeys(each for each in models if isinstance(each, str) and each.strip()))
    return "+".join(names)[:128] if names else "reviewbench"


def _is_of(error: Exception, path: Path) -> bool:
    where = getattr(error, "where", None)
    return where is not None and where.file == str(path)


def _finding(file: JsonFile, item: Any, number: int, places: Places) -> ImportedCandidate | None:
    at = ("findings", number)
    record = file.object(item, *at)
    if record is None:
        return None
    file.unknown(record, _FINDING_FIELDS, *at)
    before = len(file.problems.found)
    path = file.text(record.get("file"), *at, "file")
    start = places.line(record.get("start_line"), *at, "start_line")
    end = places.line(record.get("end_line"), *at, "end_line")
    message = file.text(record.get("message"), *at, "message")
    producer = file.text(record.get("producer"), *at, "producer")
    in_diff = record.get("in_diff")
    if in_diff is not None and not isinstance(in_diff, bool):
        file.wrong("this must be true or false", *at, "in_diff")
    if len(file.problems.found) > before:
        return None
    rest = {name: value for name, value in record.items() if name not in _FINDING_FIELDS}
    candidate = places.candidate(message, path, start, end, at=at, path_at=(*at, "file"), source=rest or None)
    if candidate is None:
        return None
    finding = candidate.finding.model_copy(update={"producer": producer, "in_diff": in_diff})
    return ImportedCandidate(finding=finding, source=candidate.source)


def _compare(
    file: JsonFile, number: int, mine: Sequence[ImportedCandidate], judged: Sequence[ImportedCandidate]
) -> None:
    """Refuse details whose candidates are not those of the candidate files: their positions would mean others."""

    def content(each: ImportedCandidate) -> tuple[object, ...]:
        found = each.finding
        return (found.file, found.start_line, found.end_line, found.message)

    at = (number, "candidate_findings")
    if len(mine) != len(judged):
        file.wrong(f"there are {len(judged)} candidates, the candidate files have {len(mine)}", *at)
        return
    for place, (one, other) in enumerate(zip(mine, judged, strict=True)):
        if content(one) != content(other):
            file.wrong("this is not the candidate that the candidate files have at this position", *at, place)
            return
