"""``crb corpus dedup`` and ``crb judge dedup``: findings of one issue, by a judge's matcher."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.model_calls import FakeModel, MaxCost, fake_model_served, open_call_desk
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus, CorpusEntry
    from crb_core.duplicates import DuplicateGroup
    from crb_core.finding import Finding
    from crb_core.settings import Settings
    from crb_worker.judge.base import Judge

__all__ = ["dedup_candidates", "dedup_corpus"]

GOLDEN_FORMAT = "crb.golden-dedup/1"

Matcher = Annotated[str, typer.Option("--judge", help="Whose matcher decides: offline, claude, or another judge.")]


def dedup_corpus(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder.")],
    save: Annotated[
        str | None, typer.Option(metavar="NAME", help="Store the corpus without its duplicates under this name.")
    ] = None,
    within: Annotated[
        bool, typer.Option("--within", help="Also groups whose findings are all by one producer.")
    ] = False,
    judge: Matcher = "offline",
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Group golden findings that several producers gave for one issue; the earliest that people reviewed stays.

    Findings of a group that are labelled differently are listed for audit. Nothing is changed without --save.
    """
    from crb_cli.home import open_home
    from crb_cli.sweep import load_named_corpus
    from crb_core.errors import InputError
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.corpora import save_corpus

    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    if save is not None and save == loaded.name:
        raise InputError(f"the corpus {save} cannot take its own place", remedy="Save it under another name")
    with fake_model_served(wanted=fake_model):
        matcher, made = _grouped(settings, loaded, judge, [(e, e.golden) for e in loaded.entries], max_cost)
    found = []
    for entry, alike in zip(loaded.entries, made, strict=True):
        if resolved := _golden_groups(entry, alike, within=within):
            found.append((entry, resolved))
    if save is not None:
        open_home(settings)
        store = open_store(settings.resolved_store_url)
        try:
            with store.write() as connection:
                save_corpus(
                    connection, _without(loaded, {entry.pull_request.key: groups for entry, groups in found}, save)
                )
        finally:
            store.close()
    if as_json:
        print_json(
            {
                "format": GOLDEN_FORMAT,
                "corpus": loaded.name,
                "fingerprint": loaded.fingerprint,
                "matcher": matcher.fingerprint,
                "judge": matcher.name,
                "saved_as": save,
                "pull_requests": [_golden_json(entry, groups) for entry, groups in found],
            }
        )
        return
    for entry, groups in found:
        console.print(plain(entry.pull_request.key), style="bold")
        for group in groups:
            _print_group(entry, group)
    dropped = sum(len(group.dropped) for _, groups in found for group in groups)
    total = sum(len(entry.golden) for entry in loaded.entries)
    done = f"; stored as {save}" if save is not None else ""
    console.print(plain(f"{dropped} of {total} golden findings repeat another one{done} (judge {matcher.name})"))


def _grouped(
    settings: Settings,
    corpus: Corpus,
    spec: str,
    work: Sequence[tuple[CorpusEntry, Sequence[Finding]]],
    max_cost: float | None,
) -> tuple[Judge, list[tuple[tuple[int, ...], ...]]]:
    """The judge of a spec, and the groups that its matcher makes of each list of findings of a pull request."""
    from functools import partial

    from crb_cli.home import open_home
    from crb_core.store import open_store
    from crb_worker.judge import load_judge
    from crb_worker.judge.base import StepBound
    from crb_worker.judge.dedup import duplicate_groups
    from crb_worker.judge.outside import judged_each

    judge = load_judge(spec, corpus=corpus)
    tasks = [
        (
            entry,
            partial(duplicate_groups, key=entry.pull_request.key, findings=findings, protocol=corpus.protocol),
        )
        for entry, findings in work
    ]
    if not isinstance(judge, StepBound):
        return judge, [task(judge) for _, task in tasks]
    open_home(settings)
    store = open_store(settings.resolved_store_url)
    try:
        desk = open_call_desk(settings, store, judge.fingerprint, max_cost=max_cost)
        lend = desk.lender(corpus)
        made = judged_each(judge, [(partial(lend, entry), task) for entry, task in tasks], slots=settings.judge_slots)
        return judge, made
    finally:
        store.close()


def _golden_groups(entry: CorpusEntry, groups: Sequence[Sequence[int]], *, within: bool) -> tuple[DuplicateGroup, ...]:
    from crb_core.duplicates import resolve_duplicates

    resolved = resolve_duplicates(entry.pull_request.key, entry.golden, groups)
    return tuple(group for group in resolved if within or len(group.producers) > 1)


def _without(corpus: Corpus, found: dict[str, tuple[DuplicateGroup, ...]], name: str) -> Corpus:
    from pydantic import ValidationError

    from crb_core.corpus import Corpus as CorpusRecord
    from crb_core.errors import InputError, first_problem

    entries = []
    for entry in corpus.entries:
        dropped = {place for group in found.get(entry.pull_request.key, ()) for place in group.dropped}
        golden = tuple(each for place, each in enumerate(entry.golden) if place not in dropped)
        entries.append(entry.model_copy(update={"golden": golden}))
    try:
        # model_copy would not check the name.
        return CorpusRecord.model_validate(
            {**corpus.model_dump(exclude={"entries"}), "name": name, "entries": tuple(entries)}
        )
    except ValidationError as error:
        raise InputError(
            f"the corpus cannot be named {name[:80]!r}: {first_problem(error)[1]}",
            remedy="Use small letters, digits, dots, dashes and underscores",
        ) from None


def _golden_json(entry: CorpusEntry, groups: tuple[DuplicateGroup, ...]) -> dict[str, Any]:
    key = entry.pull_request.key

    def ids(places: tuple[int, ...]) -> list[str]:
        return [entry.golden[place].finding_id(key) for place in places]

    return {
        "key": key,
        "groups": [
            {
                "survivor": ids((group.survivor,))[0],
                "dropped": ids(group.dropped),
                "producers": list(group.producers),
                "conflicts": [conflict.model_dump(mode="json") for conflict in group.conflicts],
            }
            for group in groups
        ],
    }


def _print_group(entry: CorpusEntry, group: DuplicateGroup) -> None:
    key = entry.pull_request.key
    for place in (group.survivor, *group.dropped):
        finding = entry.golden[place]
        what = "keep" if place == group.survivor else "drop"
        message = " ".join(finding.message.split())
        console.print(plain(f"  {what} {finding.finding_id(key)} {finding.producer}: {message[:60]}"), soft_wrap=True)
    for conflict in group.conflicts:
        answers = ", ".join(f"{name} {answer}" for name, answer in conflict.answers.items())
        console.print(plain(f"  audit {conflict.axis}: {answers}"), style="yellow", soft_wrap=True)


def dedup_candidates(
    folder: Annotated[Path, typer.Argument(help="Folder laid out as the golden-comments benchmark.")],
    out: Annotated[Path, typer.Option(help="Folder for JUDGE/dedup_groups.json; files that are there are kept.")],
    judge: Matcher = "offline",
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Group the candidates of each review that speak of one issue, in the benchmark's own form.

    A file maps pull request and tool to lists of positions in candidates.json, every candidate in exactly one.
    """
    from crb_core.errors import InputError, Where
    from crb_core.formats.golden_comments import read_corpus
    from crb_core.formats.golden_comments_results import EXTRACTION_ROLE, read_results
    from crb_core.settings import load_settings

    read = read_corpus(folder, "dedup")
    results = read_results(folder, read.corpus)
    entries = {entry.pull_request.key: entry for entry in read.corpus.entries}
    work = []
    for review in results.reviews:
        extraction = next((role.model for role in review.model_roles if role.role == EXTRACTION_ROLE), None)
        # Candidates that were made up from an evaluation have no position in candidates.json.
        findings = [each.finding for each in review.candidates if "made_up_from" not in (each.source or {})]
        if extraction is not None and findings:
            work.append((review, extraction, findings))
    with fake_model_served(wanted=fake_model):
        matcher, made = _grouped(
            load_settings(),
            read.corpus,
            judge,
            [(entries[review.pull_request], findings) for review, _, findings in work],
            max_cost,
        )
    files: dict[str, dict[str, dict[str, list[list[int]]]]] = {}
    repeated = 0
    for (review, extraction, findings), groups in zip(work, made, strict=True):
        repeated += sum(len(group) - 1 for group in groups)
        inside = {place for group in groups for place in group}
        whole = [list(group) for group in groups] + [[place] for place in range(len(findings)) if place not in inside]
        files.setdefault(extraction, {}).setdefault(str(review.source["url"]), {})[review.agent] = sorted(whole)
    if not files:
        raise InputError("there are no candidates", where=Where(file=str(folder)), remedy="It needs candidates.json")
    for extraction, content in files.items():
        path = out / extraction / "dedup_groups.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                stream.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        except FileExistsError:
            raise InputError(
                "the file is already there", where=Where(file=str(path)), remedy="Name another --out"
            ) from None
        except OSError as error:
            raise InputError(f"the file cannot be written: {error.strerror}", where=Where(file=str(path))) from None
    names = [str(out / extraction / "dedup_groups.json") for extraction in files]
    if as_json:
        print_json({"matcher": matcher.fingerprint, "judge": matcher.name, "files": names, "repeated": repeated})
        return
    console.print(
        plain(f"{repeated} candidates repeat another one of their review; wrote {', '.join(names)} ({matcher.name})"),
        soft_wrap=True,
    )
