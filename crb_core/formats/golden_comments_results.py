"""The golden-comments benchmark's results: candidates, dedup groups and evaluations of several judges (facts C1 to C3).

Each judge's folder has its own extraction of candidates, so a review is imported once an extraction (decision 0005).
The benchmark keys its state by text; here it becomes positions. Of one recorded evaluation:

* a true positive matches every candidate with its text with every golden comment with its text;
* a candidate that only the evaluation has is made up from the text and stands after the extracted ones, unless it is
  a trigger text (a command to a bot, such as a bare ``/review``), which is no finding and stays in the record only;
* a candidate in neither list was matched and then displaced by a better one, or is a sibling of a matched one in its
  dedup group: *match unrecorded*, neither true nor false positive;
* a golden comment in no list, or missed while a pair of it failed, was not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crb_core.agent import ModelRole
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.errors import InputError, Where
from crb_core.finding import CandidateFinding
from crb_core.formats.checked import Problems
from crb_core.formats.golden_comments import FORMAT, benchmark_root, pull_request_url
from crb_core.formats.golden_comments_evaluation import EvaluationReader, text_lists
from crb_core.formats.imported import (
    ImportedCandidate,
    ImportedJudgment,
    ImportedReview,
    ImportedReviews,
    Irregularities,
    JsonFile,
    shown,
)
from crb_core.formats.paths import path_problem

__all__ = ["EXTRACTION_ROLE", "is_trigger_text", "read_comments", "read_results"]

#: The model role that tells apart the builds of one tool: whose extraction its candidates are.
EXTRACTION_ROLE = "extraction"

_WORDS = r"(please|re-?review|review|run|this|the|pr|it|again|full|now|summary|check|scan|analy[sz]e)"
_TRIGGER = re.compile(
    rf"\s*([/@][\w.-]{{1,60}}(\[bot\])?(\s+{_WORDS})*|([\w.-]{{1,60}}\s+)?(re-?review|review|run)(\s+{_WORDS})*)[.!]?\s*",
    re.IGNORECASE,
)
_CANDIDATE_FIELDS = ("text", "path", "line", "source")
_DOWNLOADED = "benchmark_data.json"
_READ = re.compile(r"candidates\.json|dedup_groups\.json|evaluations(_.+)?\.json")


def is_trigger_text(text: str) -> bool:
    """Whether a recorded candidate is a bot's command rather than a finding."""
    return _TRIGGER.fullmatch(text) is not None


@dataclass
class _Extraction:
    """One folder of results: an extraction of candidates with the evaluations made on it."""

    name: str
    candidates: JsonFile | None = None
    groups: JsonFile | None = None
    evaluations: dict[str, JsonFile] = field(default_factory=dict)
    found: dict[tuple[str, str], list[ImportedCandidate]] = field(default_factory=dict)
    dedup: dict[tuple[str, str], list[list[int]]] = field(default_factory=dict)
    judged: dict[str, dict[tuple[str, str], dict[str, Any]]] = field(default_factory=dict)


def read_results(folder: Path, corpus: Corpus, *, agent: str | None = None) -> ImportedReviews:
    """Read all reviews and judgments of a folder laid out as the benchmark's; ``agent`` takes only that tool.

    ``corpus`` is the stored one that the folder's golden comments were imported as. InputError names the first problem
    and how many more there are; what is odd but usable is reported as an irregularity.
    """
    root = benchmark_root(folder)
    reader = _Results(root, corpus)
    reviews = reader.read()
    reader.problems.raise_first()
    if agent is not None:
        tools = sorted({review.agent for review in reviews})
        reviews = [review for review in reviews if review.agent == agent]
        if not reviews:
            raise InputError(
                f"there is no review by {shown(agent)}",
                where=Where(file=str(root / "results")),
                remedy=f"Its tools are {', '.join(tools)}",
            )
    if not reviews:
        raise InputError(
            "the folder holds no reviews",
            where=Where(file=str(root / "results")),
            remedy="It needs results/<judge>/candidates.json or evaluations.json",
        )
    return reader.imported(reviews)


def read_comments(folder: Path, corpus: Corpus) -> ImportedReviews:
    """The downloaded reviews of ``benchmark_data.json``, one candidate a comment, whatever was extracted before."""
    root = benchmark_root(folder)
    reader = _Results(root, corpus)
    reviews = reader.read_comments()
    reader.problems.raise_first()
    if not reviews:
        raise InputError(
            "there are no downloaded reviews",
            where=Where(file=str(root / "results" / _DOWNLOADED)),
            remedy="It needs reviews with review_comments",
        )
    return reader.imported(reviews)


class _Results:
    def __init__(self, root: Path, corpus: Corpus) -> None:
        self.root = root
        self.problems, self.irregularities = Problems(), Irregularities()
        self.files: list[JsonFile] = []
        self._entries = {pull_request_url(entry.pull_request): entry for entry in corpus.entries}
        self._order = {url: place for place, url in enumerate(self._entries)}
        self._corpus = corpus.name

    def read(self) -> list[ImportedReview]:
        results = self.root / "results"
        if not results.is_dir():
            return []
        recorded = self._benchmark_data(results / _DOWNLOADED)
        reviews: list[ImportedReview] = []
        extracted: set[tuple[str, str]] = set()
        for extraction in self._extractions(results):
            self._load(extraction)
            made = list(self._reviews(extraction, recorded))
            extracted.update((review.agent, review.pull_request) for review in made)
            reviews += made
        for (url, tool), (place, review) in recorded.items():
            if (tool, self._entries[url].pull_request.key) in extracted:
                continue
            found = self._from_comments(url, tool, place, review)
            if found is not None:
                reviews.append(found)
        return reviews

    def read_comments(self) -> list[ImportedReview]:
        recorded = self._benchmark_data(self.root / "results" / _DOWNLOADED)
        made = (
            self._from_comments(url, tool, place, {**review, "candidates": None})
            for (url, tool), (place, review) in recorded.items()
        )
        return [review for review in made if review is not None and review.candidates]

    def imported(self, reviews: list[ImportedReview]) -> ImportedReviews:
        return ImportedReviews(
            format=FORMAT,
            reviews=tuple(reviews),
            root=self.root,
            files=tuple(file.path for file in self.files),
            irregularities=tuple(self.irregularities.found),
        )

    # -- files -------------------------------------------------------------------------------------------------------

    def _file(self, path: Path) -> JsonFile:
        self.files.append(JsonFile(path, self.problems, self.irregularities))
        return self.files[-1]

    def _extractions(self, results: Path) -> Iterator[_Extraction]:
        for folder in sorted(path for path in results.iterdir() if path.is_dir()):
            names = sorted(path.name for path in folder.iterdir())
            usable = [name for name in names if _READ.fullmatch(name)]
            for name in names:
                if name not in usable:
                    self.irregularities.add(
                        "unread file", "the file is none that this format defines", file=folder / name
                    )
            if not usable:
                continue
            extraction = _Extraction(name=folder.name)
            first = self._file(folder / usable[0])
            first.name(folder.name)
            for name in usable:
                file = first if name == usable[0] else self._file(folder / name)
                if name == "candidates.json":
                    extraction.candidates = file
                elif name == "dedup_groups.json":
                    extraction.groups = file
                else:
                    variant = name.removeprefix("evaluations").removesuffix(".json").removeprefix("_")
                    extraction.evaluations[f"{folder.name}:{variant}" if variant else folder.name] = file
            yield extraction

    def _cells(self, file: JsonFile) -> Iterator[tuple[str, str, Any]]:
        """The (URL, tool, value) of a file that maps URL to tool to value."""
        before = len(self.problems.found)
        raw = file.load()
        if len(self.problems.found) > before:
            return
        for url, tools in (file.object(raw) or {}).items():
            if url not in self._entries:
                file.wrong(
                    f"the corpus {self._corpus} has no pull request {shown(url)}",
                    url,
                    remedy="Import the corpus from the same folder first",
                )
                continue
            for tool, value in (file.object(tools, url) or {}).items():
                if file.name(tool, url, tool) is not None:
                    yield url, tool, value

    def _load(self, extraction: _Extraction) -> None:
        if extraction.candidates is None:
            self.irregularities.add(
                "missing file",
                "there is no candidates.json; candidates are made up from the evaluations",
                file=self.root / "results" / extraction.name,
            )
        else:
            for url, tool, value in self._cells(extraction.candidates):
                extraction.found[url, tool] = self._candidates(extraction.candidates, url, tool, value)
        if extraction.groups is not None:
            for url, tool, value in self._cells(extraction.groups):
                count = len(extraction.found.get((url, tool), ()))
                extraction.dedup[url, tool] = self._groups(extraction.groups, url, tool, value, count)
        for judge, file in extraction.evaluations.items():
            extraction.judged[judge] = {}
            for url, tool, value in self._cells(file):
                record = file.object(value, url, tool)
                if record is not None:
                    extraction.judged[judge][url, tool] = record

    def _candidates(self, file: JsonFile, url: str, tool: str, value: Any) -> list[ImportedCandidate]:
        candidates: list[ImportedCandidate] = []
        first: dict[str, int] = {}
        for place, item in enumerate(file.array(value, url, tool) or ()):
            parts = (url, tool, place)
            record = {"text": item} if isinstance(item, str) else file.object(item, *parts)
            text = file.text(record.get("text"), *parts, "text") if record is not None else None
            if record is None or text is None:
                continue
            file.unknown(record, _CANDIDATE_FIELDS, *parts)
            if first.setdefault(text, place) != place:
                file.odd("equal candidate texts", f"the text equals that of candidate {first[text]}", *parts)
            path, line = self._location(file, record, parts)
            candidates.append(
                ImportedCandidate(
                    finding=CandidateFinding(file=path, start_line=line, end_line=line, message=text, producer=tool),
                    source={name: each for name, each in record.items() if name != "text"} or None,
                )
            )
        return candidates

    def _location(
        self, file: JsonFile, record: Mapping[str, Any], parts: tuple[str | int, ...]
    ) -> tuple[str | None, int | None]:
        path, line = record.get("path"), record.get("line")
        if path is None:
            if line is not None:
                file.odd("unusable location", "a line is given without a path", *parts, "line")
            return None, None
        if not isinstance(path, str) or not path.strip() or "\0" in path or path_problem(path):
            file.odd("unusable location", f"the path {shown(path)} is not one inside a repository", *parts, "path")
            return None, None
        return path, file.integer(line, *parts, "line", low=1) if line is not None else None

    def _groups(self, file: JsonFile, url: str, tool: str, value: Any, count: int) -> list[list[int]]:
        """The groups of candidate positions; what cannot be used is reported and left out.

        Groups that name a candidate that is not there belong to another extraction (facts C6): their other positions
        mean other candidates too, so none of the review's groups is used.
        """
        groups: list[list[int]] = []
        seen: set[int] = set()
        is_stale = False
        for number, item in enumerate(file.array(value, url, tool) or ()):
            group: list[int] = []
            for place, candidate in enumerate(file.array(item, url, tool, number) or ()):
                parts = (url, tool, number, place)
                if isinstance(candidate, bool) or not isinstance(candidate, int):
                    file.wrong(f"a dedup group holds positions of candidates, not {shown(candidate)}", *parts)
                elif not 0 <= candidate < count:
                    is_stale = True
                    problem = f"there is no candidate {candidate} of {count}; no group of this review is used"
                    file.odd("stale dedup group", problem, *parts)
                elif candidate in seen:
                    file.odd("candidate in two dedup groups", f"candidate {candidate} keeps its first group", *parts)
                else:
                    seen.add(candidate)
                    group.append(candidate)
            if group:
                groups.append(group)
        if is_stale:
            return []
        if seen and len(seen) < count:
            alone = ", ".join(str(place) for place in range(count) if place not in seen)
            file.odd("candidate in no dedup group", f"candidates {alone[:80]} of {count} are in no group", url, tool)
        return groups

    # -- reviews -----------------------------------------------------------------------------------------------------

    def _reviews(
        self, extraction: _Extraction, recorded: Mapping[tuple[str, str], tuple[int, dict[str, Any]]]
    ) -> Iterator[ImportedReview]:
        cells = set(extraction.found).union(*extraction.judged.values())
        for url, tool in sorted(cells, key=lambda cell: (self._order[cell[0]], cell[1])):
            entry = self._entries[url]
            extracted = extraction.found.get((url, tool), [])
            candidates = [*extracted, *self._made_up(extraction, url, tool, extracted)]
            judgments = [
                self._judgment(extraction, judge, entry, url, tool, candidates, len(extracted))
                for judge in extraction.evaluations
            ]
            yield ImportedReview(
                agent=tool,
                pull_request=entry.pull_request.key,
                candidates=tuple(candidates),
                judgments=tuple(judgments),
                model_roles=(ModelRole(role=EXTRACTION_ROLE, model=extraction.name),),
                source=_review_source(extraction, url, tool, recorded.get((url, tool))),
            )

    def _made_up(
        self, extraction: _Extraction, url: str, tool: str, extracted: list[ImportedCandidate]
    ) -> Iterator[ImportedCandidate]:
        known = {candidate.finding.message for candidate in extracted}
        for judge, records in extraction.judged.items():
            file = extraction.evaluations[judge]
            for parts, text in text_lists(records.get((url, tool), {})):
                if text in known or not text.strip():
                    continue
                known.add(text)
                if is_trigger_text(text):
                    file.odd("trigger text", f"{shown(text)} is a command to a bot, no finding", url, tool, *parts)
                    continue
                file.odd("candidate only in an evaluation", "it is made up from the text", url, tool, *parts)
                yield ImportedCandidate(
                    finding=CandidateFinding(message=text, producer=tool), source={"made_up_from": file.path.name}
                )

    def _judgment(
        self,
        extraction: _Extraction,
        judge: str,
        entry: CorpusEntry,
        url: str,
        tool: str,
        candidates: list[ImportedCandidate],
        extracted: int,
    ) -> ImportedJudgment:
        description = {"kind": "imported", "format": FORMAT, "model": judge}
        file = extraction.evaluations[judge]
        record = extraction.judged[judge].get((url, tool))
        if record is None:
            file.odd("review without evaluation", "the judge recorded no evaluation of this review", url, tool)
            return ImportedJudgment(
                judge=judge, description=description, problem="the judge recorded no evaluation of this review"
            )
        reader = EvaluationReader(
            file,
            (url, tool),
            golden=entry.golden,
            candidates=[candidate.finding.message for candidate in candidates],
            extracted=extracted,
            dedup_groups=extraction.dedup.get((url, tool)),
        )
        return reader.read(record, judge=judge, description=description, is_trigger=is_trigger_text)

    # -- reviews that were downloaded, but not extracted ---------------------------------------------------------------

    def _benchmark_data(self, path: Path) -> dict[tuple[str, str], tuple[int, dict[str, Any]]]:
        if not path.is_file():
            return {}
        file = self._file(path)
        found: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        before = len(self.problems.found)
        raw = file.load()
        if len(self.problems.found) > before:
            return {}
        for url, item in (file.object(raw) or {}).items():
            entry = self._entries.get(url)
            record = file.object(item, url)
            if record is None:
                continue
            if entry is None:
                file.wrong(f"the corpus {self._corpus} has no pull request {shown(url)}", url)
                continue
            self._compare_golden(file, url, entry, record)
            for place, each in enumerate(file.array(record.get("reviews", []), url, "reviews") or ()):
                review = file.object(each, url, "reviews", place)
                tool = file.name(review.get("tool"), url, "reviews", place, "tool") if review is not None else None
                if review is None or tool is None:
                    continue
                if (url, tool) in found:
                    first = found[url, tool][0]
                    file.odd("two reviews by one tool", f"reviews[{first}] is used", url, "reviews", place)
                else:
                    found[url, tool] = (place, review)
        return found

    def _compare_golden(self, file: JsonFile, url: str, entry: CorpusEntry, record: Mapping[str, Any]) -> None:
        golden = record.get("golden_comments")
        if not isinstance(golden, list):
            return
        texts = [item.get("comment") if isinstance(item, dict) else item for item in golden]
        if texts != [finding.message for finding in entry.golden]:
            file.odd("golden comments differ", "they are not those of the corpus", url, "golden_comments")

    def _from_comments(self, url: str, tool: str, place: int, review: dict[str, Any]) -> ImportedReview | None:
        """A review of which no extraction knows: its own candidates, else one a comment."""
        file = next(file for file in self.files if file.path.name == _DOWNLOADED)
        parts = (url, "reviews", place)
        if review.get("candidates"):
            candidates = self._candidates(file, url, tool, review["candidates"])
        else:
            candidates = []
            for number, item in enumerate(
                file.array(review.get("review_comments", []), *parts, "review_comments") or ()
            ):
                at = (*parts, "review_comments", number)
                comment = file.object(item, *at)
                if comment is None:
                    continue
                body = comment.get("body")
                if not isinstance(body, str) or not body.strip():
                    file.odd("empty comment", "a comment without text is no finding", *at)
                    continue
                path, line = self._location(file, comment, at)
                finding = CandidateFinding(file=path, start_line=line, end_line=line, message=body, producer=tool)
                rest = {name: value for name, value in comment.items() if name != "body"}
                candidates.append(ImportedCandidate(finding=finding, source=rest or None, is_comment=True))
            file.odd("review without extraction", "each comment is taken as one finding", *parts)
        return ImportedReview(
            agent=tool,
            pull_request=self._entries[url].pull_request.key,
            candidates=tuple(candidates),
            source=_downloaded(place, review),
        )


def _review_source(
    extraction: _Extraction, url: str, tool: str, recorded: tuple[int, dict[str, Any]] | None
) -> dict[str, Any]:
    source: dict[str, Any] = {"extraction": extraction.name, "url": url}
    if (url, tool) in extraction.dedup:
        source["dedup_groups"] = extraction.dedup[url, tool]
    if recorded is not None:
        source |= _downloaded(*recorded)
    return source


def _downloaded(place: int, review: Mapping[str, Any]) -> dict[str, Any]:
    """Where the downloaded review stands; its comments stay in the file, which is kept as evidence."""
    small = {name: value for name, value in review.items() if name not in {"review_comments", "candidates", "tool"}}
    return {"benchmark_data": {"review": place, **small}}
