"""Where proposed findings come from: reviewers' comments, tools' reports, agents of a sweep, the author's commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crb_cli.model_calls import fake_model_served

if TYPE_CHECKING:
    from crb_core.corpus import Corpus, CorpusEntry, Producer
    from crb_core.finding import Finding
    from crb_core.formats.imported import Irregularities
    from crb_core.proposals import Origin, Proposal
    from crb_core.settings import Settings
    from crb_worker.placing import Placed

__all__ = ["COMMENTS", "COMMITS", "FORMATS", "REPORTS", "SWEEP", "Found", "Options", "collect"]

COMMENTS, SWEEP, COMMITS = "github-review-comments", "sweep", "follow-up-commits"
REPORTS = ("sarif", "rdjson", "gitlab-code-quality")
FORMATS = (COMMENTS, *REPORTS, SWEEP, COMMITS)
_PEOPLE = "human_review"
_NOT_RECORDED = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for; which of it means anything depends on the format."""

    pull_request: str | None
    producer: str | None
    version: str | None
    setting: Mapping[str, str]
    root: str | None
    without: Sequence[str]
    agents: Sequence[str]
    round: int
    is_tool: bool
    author: str | None
    judge: str | None
    max_cost: float | None
    fake_model: bool


@dataclass
class Found:
    """What a source gave so far."""

    origin: Origin
    irregularities: Irregularities
    producers: list[Producer] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)

    def add_placed(
        self,
        key: str,
        at: Placed,
        *,
        message: str,
        producer: str,
        author: str,
        commit: str,
        lines: tuple[int, int],
        more: Mapping[str, object],
    ) -> None:
        """Propose at head, where it was placed, what ``author`` said or showed of ``lines`` of ``commit``.

        ``more`` goes into the proposal's source.
        """
        from crb_core.finding import Finding as FindingRecord
        from crb_core.proposals import Proposal

        assert at.alignment is not None
        self.proposals.append(
            Proposal(
                pull_request=key,
                finding=FindingRecord(
                    file=at.file, start_line=at.start_line, end_line=at.end_line, message=message, producer=producer
                ),
                source={
                    "type": self.origin.source_type,
                    "alignment": at.alignment.value,
                    "author": author,
                    "original_commit": commit,
                    "original_start_line": lines[0],
                    "original_end_line": lines[1],
                    **more,
                },
            )
        )


def collect(
    settings: Settings, corpus: Corpus, format_name: str, path: str, options: Options, irregularities: Irregularities
) -> Found:
    """Everything that one source proposes for a corpus, with its producers; what is left out is an irregularity."""
    from crb_cli.proposals_of_commits import from_commits
    from crb_core.proposals import Origin

    origin = Origin.LLM_REVIEW
    if format_name == COMMENTS:
        origin = Origin.HUMAN_REVIEW
    elif format_name == COMMITS:
        origin = Origin.AUTHOR_ACTION
    elif format_name in REPORTS or options.is_tool:
        origin = Origin.TOOL
    found = Found(origin=origin, irregularities=irregularities)
    if format_name == COMMENTS:
        _from_comments(corpus, Path(path), options, found)
    elif format_name == COMMITS:
        with fake_model_served(wanted=options.fake_model):
            from_commits(settings, corpus, Path(path), options, found)
    elif format_name == SWEEP:
        _from_sweep(settings, corpus, path, options, found)
    else:
        _from_tools(settings, corpus, format_name, Path(path), options, found)
    return found


def _from_comments(corpus: Corpus, path: Path, options: Options, found: Found) -> None:
    """Comments of people, placed at head."""
    from crb_core.corpus import Producer
    from crb_core.formats.checked import Problems
    from crb_core.formats.imported import JsonFile
    from crb_core.formats.located import Places
    from crb_core.formats.review_comments import read_remarks
    from crb_core.formats.review_files import REVIEW_FORMATS, owned_files
    from crb_worker.placing import placer
    from crb_worker.snapshot import source_for

    name = options.producer or _PEOPLE
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    owned = owned_files(REVIEW_FORMATS[COMMENTS], path, tuple(entries), options.pull_request, name)
    problems = Problems()
    read = []
    for each in owned:
        file = JsonFile(each.path, problems, found.irregularities)
        value = file.load()
        places = Places(file=file, agent=name, root=options.root)
        read.append((each, read_remarks(file, value, places, without=options.without) if value is not None else []))
    problems.raise_first()
    source = source_for(corpus.source, corpus.source_template)
    for each, remarks in read:
        if not remarks:
            continue
        with placer(source, entries[each.key].pull_request) as place:
            for remark in remarks:
                at = place.place(
                    remark.commit, remark.file, remark.start_line, remark.end_line, on_old_side=remark.on_old_side
                )
                if at.alignment is None:
                    found.irregularities.add(
                        "comment that cannot be placed",
                        f"{at.problem}, so it has no lines at head",
                        file=each.path,
                        field=remark.field,
                    )
                    continue
                found.add_placed(
                    each.key,
                    at,
                    message=remark.message,
                    producer=name,
                    author=remark.author,
                    commit=remark.commit,
                    lines=(remark.start_line, remark.end_line),
                    more=remark.source,
                )
    found.producers.append(
        Producer(name=name, version=options.version or _NOT_RECORDED, configuration=dict(options.setting))
    )


def _from_tools(
    settings: Settings, corpus: Corpus, format_name: str, path: Path, options: Options, found: Found
) -> None:
    """Reports of tools, as far as they are about changed lines."""
    from crb_core.corpus import Producer
    from crb_core.errors import InputError, UsageError, Where
    from crb_core.formats.review_files import read_review_files

    if options.producer is None:
        raise UsageError(
            "a report needs the name of its tool", where=Where(field="--producer"), remedy="Give --producer NAME"
        )
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    reviews = read_review_files(
        format_name,
        path,
        keys=tuple(entries),
        pull_request=options.pull_request,
        agent=options.producer,
        root=options.root,
    )
    found.irregularities.found += reviews.irregularities
    versions = set()
    for review in reviews.reviews:
        for each in review.source.get("tools", ()):
            versions.add(each.get("semanticVersion") or each.get("version"))
        _add(
            settings,
            corpus,
            entries[review.pull_request],
            [(candidate.finding, candidate.source or {}) for candidate in review.candidates],
            str(review.source["file"]),
            found,
        )
    versions.discard(None)
    said = options.version or (versions.pop() if len(versions) == 1 else None)
    if said is None and len(versions) > 1:
        raise InputError(
            f"the reports are of {len(versions)} versions: {', '.join(sorted(versions))}",
            remedy="Give --version, or collect one version at a time under its own --producer",
        )
    found.producers.append(
        Producer(name=options.producer, version=said or _NOT_RECORDED, configuration=dict(options.setting))
    )


def _from_sweep(settings: Settings, corpus: Corpus, name: str, options: Options, found: Found) -> None:
    """Findings of the agents of a stored sweep over the same commits."""
    from crb_core.corpus import Producer
    from crb_core.errors import InputError
    from crb_core.store import open_store
    from crb_core.store.corpora import load_corpus
    from crb_core.store.labelling import missing_reviews, sweep_candidates
    from crb_core.store.sweeps import builds_of_agent, find_sweep, sweep_builds

    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            row = find_sweep(connection, name)
            for agent in options.agents:
                builds_of_agent(connection, row, agent)
            builds = [
                build
                for build in sweep_builds(connection, row.id)
                if not options.agents or build.agent in options.agents
            ]
            candidates = sweep_candidates(connection, row.id, options.agents, options.round)
            missing = missing_reviews(connection, row.id, options.agents, options.round)
            reviewed = load_corpus(connection, row.corpus_id)
    finally:
        store.close()
    for agent, key in missing:
        found.irregularities.add(
            "review that is not there",
            f"{agent} has no successful review in round {options.round}",
            file=f"sweep {row.name}",
            field=key,
        )
    heads = {entry.pull_request.key: _commits(entry) for entry in reviewed.entries}
    by_key: dict[str, list[tuple[Finding, dict[str, Any]]]] = {}
    for (key, identifier), finding in candidates.items():
        by_key.setdefault(key, []).append((finding, {"sweep": row.name, "finding": identifier}))
    known = {entry.pull_request.key: entry for entry in corpus.entries}
    for key in by_key:
        if key not in known or heads[key] != _commits(known[key]):
            raise InputError(
                f"the sweep {row.name} reviewed {key} at other commits than the corpus {corpus.name} has",
                remedy="Take a sweep over this corpus",
            )
    for entry in corpus.entries:
        _add(settings, corpus, entry, by_key.get(entry.pull_request.key, []), f"sweep {row.name}", found)
    for build in builds:
        configuration = {each.key: each.value for each in build.configuration}
        configuration |= {f"model of {role.role}": role.model for role in build.model_roles}
        found.producers.append(
            Producer(
                name=build.agent,
                version=build.repo_digest or build.image_id,
                configuration={**configuration, "build": build.build_id, **options.setting},
            )
        )


def _add(
    settings: Settings,
    corpus: Corpus,
    entry: CorpusEntry,
    findings: Sequence[tuple[Finding, dict[str, Any]]],
    file: str,
    found: Found,
) -> None:
    """Add findings of one pull request; those without a file, and a tool's on no changed line, are left out."""
    from crb_core.finding import Finding as FindingRecord
    from crb_core.proposals import Origin, Proposal, on_changed_lines
    from crb_worker.snapshot import SnapshotCache, source_for

    key = entry.pull_request.key
    diff = None
    if found.origin is Origin.TOOL and findings:
        source = source_for(corpus.source, corpus.source_template)
        diff = SnapshotCache(settings.snapshots_folder).get(source, entry.pull_request).diff
    for finding, more in findings:
        where = f"{key}: {finding.file or 'no file'} {finding.lines}".rstrip()
        if finding.file is None:
            found.irregularities.add("finding without a file", "a golden finding has a file", file=file, field=where)
        elif diff is not None and not on_changed_lines(diff, finding):
            found.irregularities.add(
                "tool's finding on no changed line", "the change did not write this line", file=file, field=where
            )
        else:
            found.proposals.append(
                Proposal(
                    pull_request=key,
                    finding=FindingRecord.model_validate(finding.bare()),
                    source={"type": found.origin.source_type, "alignment": "generated", **more},
                )
            )


def _commits(entry: CorpusEntry) -> tuple[str | None, str | None]:
    return entry.pull_request.recorded_base, entry.pull_request.recorded_head
