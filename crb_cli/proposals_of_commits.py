"""Findings proposed from the author's commits after the review, which a model reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crb_cli.model_calls import open_call_desk

if TYPE_CHECKING:
    from crb_cli.proposal_sources import Found, Options
    from crb_core.corpus import Corpus, CorpusEntry
    from crb_core.formats.pull_commits import FollowUp
    from crb_core.settings import Settings
    from crb_worker.judge.author_actions import ActionReader
    from crb_worker.placing import Placer

__all__ = ["from_commits"]

_AUTHOR = "inferred_author_action"


def from_commits(settings: Settings, corpus: Corpus, path: Path, options: Options, found: Found) -> None:
    """Problems of the reviewed code that the author's later commits show."""
    from crb_cli.home import open_home
    from crb_core.corpus import Producer
    from crb_core.formats.checked import Problems
    from crb_core.formats.imported import JsonFile
    from crb_core.formats.pull_commits import read_follow_ups
    from crb_core.formats.review_files import REVIEW_FORMATS, owned_files
    from crb_core.store import open_store
    from crb_worker.judge.author_actions import ActionReader, read_actions
    from crb_worker.placing import placer
    from crb_worker.snapshot import source_for

    setup = read_actions(options.judge or "claude")
    name = options.producer or _AUTHOR
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    # The files are named like those of comments: one a pull request, by its key.
    owned = owned_files(REVIEW_FORMATS["github-review-comments"], path, tuple(entries), options.pull_request, _AUTHOR)
    problems = Problems()
    read: list[tuple[CorpusEntry, Path, list[FollowUp]]] = []
    for each in owned:
        file = JsonFile(each.path, problems, found.irregularities)
        value = file.load()
        entry = entries[each.key]
        if value is not None:
            commits = read_follow_ups(file, value, entry.pull_request.head, author=options.author)
            read.append((entry, each.path, commits))
    problems.raise_first()
    source = source_for(corpus.source, corpus.source_template)
    open_home(settings)
    store = open_store(settings.resolved_store_url)
    try:
        desk = open_call_desk(settings, store, setup.fingerprint, max_cost=options.max_cost)
        reader = ActionReader(setup, desk.calls())
        for entry, file_path, commits in read:
            if commits:
                with placer(source, entry.pull_request) as place:
                    for commit in commits:
                        _infer(reader, place, entry, commit, file_path, name, found)
    finally:
        store.close()
    model = f"{setup.parameters.model} {setup.fingerprint}"
    found.producers.append(
        Producer(
            name=name,
            version=options.version or setup.fingerprint,
            configuration={"inference": model, **options.setting},
        )
    )


def _infer(
    reader: ActionReader, place: Placer, entry: CorpusEntry, commit: FollowUp, file: Path, producer: str, found: Found
) -> None:
    """The problems that one commit shows, at their lines at head; those that are not sure are left out."""
    from crb_core.follow_ups import modified_files
    from crb_core.proposals import Alignment
    from crb_worker.judge.author_actions import MAX_SHOWN, Confidence
    from crb_worker.judge.questions import AnswerError

    def odd(kind: str, problem: str) -> None:
        found.irregularities.add(kind, problem, file=file, field=commit.field)

    missing = place.missing((commit.parent, commit.sha))
    if missing:
        odd("commit that cannot be read", f"commit {missing[0]} is not in the repository")
        return
    files = modified_files(place.diff(commit.parent, commit.sha))
    if not files:
        odd("commit without modified lines", f"commit {commit.sha} modifies no text that was there before")
        return
    size = sum(len(each.text) for each in files)
    if size > MAX_SHOWN:
        odd("commit that is too large", f"commit {commit.sha} shows {size} characters, more than {MAX_SHOWN}")
        return
    key = entry.pull_request.key
    try:
        inferred = reader.infer(entry.pull_request, commit.message, files, f"{key}: commit {commit.sha[:12]}")
    except AnswerError as error:
        # One commit that cannot be read is no reason to lose what the others show.
        odd("commit without a usable answer", error.problem)
        return
    for each in inferred:
        at = place.place(commit.parent, each.file, each.start_line, each.end_line)
        if each.confidence is not Confidence.HIGH:
            odd("inference that is not sure", f"confidence {each.confidence}: {each.statement}")
        elif at.alignment is None or at.alignment is Alignment.CODE_CHANGED:
            why = at.problem or "another commit after the review changed these lines before"
            odd("inference that is not about the reviewed code", f"{why}: {each.statement}")
        else:
            found.add_placed(
                key,
                at,
                message=each.statement,
                producer=producer,
                author=commit.author,
                commit=commit.parent,
                lines=(each.start_line, each.end_line),
                more={
                    "commit": commit.sha,
                    "quote": each.quote,
                    "reason": each.reason,
                    "confidence": each.confidence.value,
                    "inference": f"{reader.setup.parameters.model} {reader.setup.fingerprint}",
                    "request_hash": each.request_hash,
                },
            )
