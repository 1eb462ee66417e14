"""The content of an archive: is everything what it says it is, and are the numbers those of the definitions?"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from crb_core.agent import AgentBuild
from crb_core.corpus import Corpus, CorpusEntry, fingerprint
from crb_core.errors import InputError, Where, first_problem
from crb_core.formats.archive_numbers import Numbers
from crb_core.formats.archive_records import (
    BuildRecord,
    CorpusRecord,
    EvidenceRecord,
    JudgeRecord,
    PullRequestRecord,
    SweepRecord,
    read_document,
    read_lines,
)
from crb_core.formats.archive_report import Difference, Verification
from crb_core.formats.archive_results import evidence_digests, headline
from crb_core.formats.archive_tar import MANIFEST, ArchiveReader
from crb_core.protocols import Protocol, protocol_named

__all__ = ["Content"]

_FIXED = ("README.md", "sweep.json", "corpus.json", "pull_requests.jsonl", "builds.jsonl", "judges.jsonl")
_REVIEWS = re.compile(r"reviews/(b-[0-9a-f]{12})/round-([1-9][0-9]{0,5})\.jsonl")


class Content:
    """Checks the parts that numbers rest on, then has the numbers made again."""

    def __init__(self, archive: ArchiveReader, verification: Verification) -> None:
        self._archive = archive
        self._verification = verification
        self._named: set[str] = set(_FIXED) | {MANIFEST, "evidence.jsonl"}
        self._digests: set[str] = set()
        self._entries: dict[str, CorpusEntry] = {}
        self._builds: dict[str, AgentBuild] = {}
        self._judges: dict[str, JudgeRecord] = {}
        self._rounds: dict[str, list[int]] = {}
        self._evidence: dict[str, EvidenceRecord] = {}
        self._sweep: SweepRecord
        self._corpus: CorpusRecord
        self._rules: Protocol

    def check(self) -> None:
        """Everything, in the order of the archive; what is made from a wrong part is not made again."""
        self._sweep = read_document(self._archive, "sweep.json", SweepRecord)
        self._corpus = read_document(self._archive, "corpus.json", CorpusRecord)
        self._verification.sweep = self._sweep.name
        self._verification.crb_version = self._sweep.crb_version
        with self._verification.noted("sweep.json"):
            self._rules = protocol_named(self._sweep.protocol)
        for part in (
            self._check_sweep,
            self._check_pull_requests,
            self._check_builds,
            self._check_judges,
            self._check_evidence,
        ):
            part()
            if not self._verification.ok:
                self._verification.notes.append("numbers were not made again: what they rest on is wrong")
                return
        self._find_rounds()
        Numbers(
            self._archive,
            self._verification,
            sweep=self._sweep,
            corpus=self._corpus,
            rules=self._rules,
            entries=self._entries,
            builds=self._builds,
            judges=self._judges,
            rounds=self._rounds,
            named=self._named,
            digests=self._digests,
        ).check()
        for digest in sorted(self._digests - self._evidence.keys()):
            self._verification.add(
                Difference(file="evidence.jsonl", problem=f"the blob {digest} is named, but not listed")
            )
        for digest in sorted(self._evidence.keys() - self._digests):
            self._verification.add(Difference(file="evidence.jsonl", problem=f"nothing names the blob {digest}"))
        for name in self._archive.members:
            if name not in self._named:
                self._verification.add(Difference(file=name, problem="nothing in the archive names this file"))

    def _equal(self, file: str, at: str | None, stored: Any, recomputed: Any, line: int | None = None) -> None:
        self._verification.numbers += 1
        if stored != recomputed:
            self._verification.differs(file, "it is not what it must be", stored, recomputed, line=line, at=at)

    # -- the parts that numbers rest on --------------------------------------------------------------------------------

    def _check_sweep(self) -> None:
        sweep, corpus = self._sweep, self._corpus
        self._equal("sweep.json", "protocol", sweep.protocol, corpus.protocol)
        self._equal("sweep.json", "corpus", sweep.corpus, corpus.name)
        self._equal("sweep.json", "corpus_fingerprint", sweep.corpus_fingerprint, corpus.fingerprint)
        self._equal("sweep.json", "aggregation.headline", sweep.aggregation.headline, headline(sweep.protocol))
        self._equal("sweep.json", "aggregation.beta", sweep.aggregation.beta, 1.0)
        for name, values in (
            ("builds", sweep.builds),
            ("judges", tuple(each.judge for each in sweep.judges)),
            *((f"judges[{place}].builds", each.builds) for place, each in enumerate(sweep.judges)),
        ):
            if len(set(values)) != len(values):
                self._verification.add(Difference(file="sweep.json", field=name, problem="the same id is listed twice"))
        for place, each in enumerate(sweep.judges):
            unknown = sorted(set(each.builds) - set(sweep.builds))
            if unknown:
                self._verification.add(
                    Difference(
                        file="sweep.json",
                        field=f"judges[{place}].builds",
                        problem=f"the sweep has no build {unknown[0]}",
                    )
                )
        for record in (*corpus.imports, *corpus.sweep_imports):
            self._digests |= evidence_digests(record.get("files"))

    def _check_pull_requests(self) -> None:
        name = "pull_requests.jsonl"
        for line, record in read_lines(self._archive, name, PullRequestRecord):
            key = record.pull_request.key
            if key in self._entries:
                self._verification.add(
                    Difference(file=name, line=line, problem=f"the pull request {key} is there twice")
                )
            entry = CorpusEntry(pull_request=record.pull_request, golden=tuple(each.finding for each in record.golden))
            self._entries[key] = entry
            self._equal(
                name,
                "answer_key_fingerprint",
                record.answer_key_fingerprint,
                entry.answer_key_fingerprint,
                line,
            )
            for place, golden in enumerate(record.golden):
                found = golden.finding.finding_id(key)
                self._equal(name, f"golden[{place}].finding_id", golden.finding_id, found, line)
        if not self._verification.ok:
            return
        corpus = self._corpus
        try:
            whole = Corpus(
                name=corpus.name,
                version=corpus.version,
                title=corpus.title,
                protocol=corpus.protocol,
                source=corpus.source,
                subsets=corpus.subsets,
                entries=tuple(self._entries.values()),
            )
        except ValidationError as error:
            where, problem = first_problem(error)
            raise InputError(problem, where=Where(file="corpus.json", field=where or None)) from None
        self._equal("corpus.json", "fingerprint", corpus.fingerprint, whole.fingerprint)

    def _check_builds(self) -> None:
        name = "builds.jsonl"
        for line, record in read_lines(self._archive, name, BuildRecord):
            self._builds[record.build_id] = record.build
            self._equal(name, "build_id", record.build_id, record.build.build_id, line)
            found = record.build.configuration_fingerprint
            self._equal(name, "configuration_fingerprint", record.configuration_fingerprint, found, line)
        self._equal("sweep.json", "builds", list(self._sweep.builds), list(self._builds))

    def _check_judges(self) -> None:
        name = "judges.jsonl"
        for line, record in read_lines(self._archive, name, JudgeRecord):
            self._judges[record.judge_id] = record
            found = "j-" + fingerprint(record.description)[:12]
            self._equal(name, "judge_id", record.judge_id, found, line)
            for place, prompt in enumerate(record.prompts):
                if prompt.path is None:
                    self._verification.notes.append(
                        f"prompt {prompt.name} of judge {record.name} is known by its SHA-256 only"
                    )
                    continue
                at = f"prompts[{place}]"
                if prompt.path not in self._archive.members:
                    self._verification.add(
                        Difference(file=name, line=line, field=f"{at}.path", problem=f"there is no file {prompt.path}")
                    )
                    continue
                self._named.add(prompt.path)
                self._equal(name, f"{at}.sha256", prompt.sha256, self._archive.digest(prompt.path), line)
        stored = [each.judge for each in self._sweep.judges]
        self._equal("sweep.json", "judges", stored, list(self._judges))

    # -- reviews and evidence ------------------------------------------------------------------------------------------

    def _find_rounds(self) -> None:
        self._rounds = {build_id: [] for build_id in self._builds}
        for name in self._archive.members:
            match = _REVIEWS.fullmatch(name)
            if match is not None and match[1] in self._rounds:
                self._rounds[match[1]].append(int(match[2]))
                self._named.add(name)
        for numbers in self._rounds.values():
            numbers.sort()

    def _check_evidence(self) -> None:
        found = self._evidence
        for line, record in read_lines(self._archive, "evidence.jsonl", EvidenceRecord):
            path = f"evidence/{record.sha256[:2]}/{record.sha256}"
            if record.sha256 in found:
                self._verification.add(Difference(file="evidence.jsonl", line=line, problem="the blob is listed twice"))
            found[record.sha256] = record
            self._named.add(path)
            is_there = path in self._archive.members
            if is_there != (record.state == "present"):
                problem = (
                    f"the blob {record.sha256} is {record.state}, but the archive {'has' if is_there else 'lacks'} it"
                )
                self._verification.add(Difference(file="evidence.jsonl", line=line, field="state", problem=problem))
            elif is_there:
                self._equal(path, None, record.sha256, self._archive.digest(path))
                self._equal("evidence.jsonl", "bytes", record.bytes, self._archive.members[path].size, line)
        for state, why in (
            ("missing", "were not in the evidence store (or damaged there)"),
            ("withheld", "name the exporting machine"),
        ):
            count = sum(record.state == state for record in found.values())
            if count:
                self._verification.notes.append(f"{count} blobs are {state}: they {why} at export")
