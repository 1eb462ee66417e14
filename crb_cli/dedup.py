"""``crb corpus dedup`` and ``crb judge dedup``: findings of one issue, by a judge's matcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.extended_file import Agents, ByTool, Force, read_by_tool, refuse_unknown_agents, write_by_tool
from crb_cli.model_calls import FakeModel, MaxCost, fake_model_served, open_call_desk
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus, CorpusEntry
    from crb_core.duplicates import DuplicateGroup
    from crb_core.finding import Finding
    from crb_core.formats.imported import ImportedReviews
    from crb_core.settings import Settings
    from crb_worker.judge.base import Judge

__all__ = ["Dedup", "Grouping", "dedup_candidates", "dedup_corpus", "grouped_reviews"]

GOLDEN_FORMAT = "crb.golden-dedup/1"

Dedup = Annotated[
    str | None,
    typer.Option(
        metavar="JUDGE",
        help="golden-comments: group the candidates of each review by the matcher of offline, claude, ...",
        show_default=False,
    ),
]
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
    from crb_cli.own_corpora import require_own_corpus_name, store_corpus
    from crb_cli.sweep import load_named_corpus
    from crb_core.errors import InputError
    from crb_core.settings import load_settings

    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    if save is not None:
        require_own_corpus_name(save)
    if save is not None and save == loaded.name:
        raise InputError(f"the corpus {save} cannot take its own place", remedy="Save it under another name")
    with fake_model_served(wanted=fake_model):
        matcher, made = _grouped(settings, loaded, judge, [(e, e.golden) for e in loaded.entries], max_cost)
    found = []
    for entry, alike in zip(loaded.entries, made, strict=True):
        if resolved := _golden_groups(entry, alike, within=within):
            found.append((entry, resolved))
    if save is not None:
        store_corpus(settings, _without(loaded, {entry.pull_request.key: groups for entry, groups in found}, save))
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
    from crb_core.golden_sets import derived_corpus

    kept = {}
    for entry in corpus.entries:
        groups = found.get(entry.pull_request.key, ())
        dropped = {place for group in groups for place in group.dropped}
        kept[entry.pull_request.key] = [each for place, each in enumerate(entry.golden) if place not in dropped]
    return derived_corpus(corpus, name, kept)


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
    out: Annotated[Path, typer.Option(help="Folder for EXTRACTION/dedup_groups.json; files that are there grow.")],
    judge: Matcher = "offline",
    agent: Agents = None,
    force: Force = False,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Group the candidates of each review that speak of one issue, in the benchmark's own form.

    A file maps pull request and tool to lists of positions in candidates.json, every candidate in exactly one. Reviews
    that it has are kept, so the same command again does only what is missing.
    """
    from crb_core.errors import InputError, Where
    from crb_core.formats.golden_comments import read_corpus
    from crb_core.formats.golden_comments_results import EXTRACTION_ROLE, read_results
    from crb_core.settings import load_settings

    read = read_corpus(folder, "dedup")
    results = read_results(folder, read.corpus)
    refuse_unknown_agents(agent, {review.agent for review in results.reviews})
    entries = {entry.pull_request.key: entry for entry in read.corpus.entries}
    files: dict[str, ByTool] = {}
    work, kept = [], 0
    for review in results.reviews:
        extraction = next((role.model for role in review.model_roles if role.role == EXTRACTION_ROLE), None)
        # Candidates that were made up from an evaluation have no position in candidates.json.
        findings = [each.finding for each in review.candidates if "made_up_from" not in (each.source or {})]
        if extraction is None or not findings or (agent and review.agent not in agent):
            continue
        path = out / extraction / "dedup_groups.json"
        known = files.setdefault(extraction, read_by_tool(path)).get(str(review.source["url"]), {}).get(review.agent)
        if known is None or force:
            work.append((review, extraction, findings))
        elif _is_partition(known, len(findings)):
            kept += 1
        else:
            raise InputError(
                f"the groups of {review.agent} on {review.source['url']} are not of its {len(findings)} candidates",
                where=Where(file=str(path)),
                remedy="They are of another extraction; group it anew with --force",
            )
    if not files:
        raise InputError("there are no candidates", where=Where(file=str(folder)), remedy="It needs candidates.json")
    with fake_model_served(wanted=fake_model):
        matcher, made = _grouped(
            load_settings(),
            read.corpus,
            judge,
            [(entries[review.pull_request], findings) for review, _, findings in work],
            max_cost,
        )
    repeated = 0
    for (review, extraction, findings), groups in zip(work, made, strict=True):
        repeated += sum(len(group) - 1 for group in groups)
        files[extraction].setdefault(str(review.source["url"]), {})[review.agent] = _partition(groups, len(findings))
    for extraction in sorted({extraction for _, extraction, _ in work}):
        write_by_tool(out / extraction / "dedup_groups.json", files[extraction])
    names = [str(out / extraction / "dedup_groups.json") for extraction in files]
    if as_json:
        print_json(
            {
                "matcher": matcher.fingerprint,
                "judge": matcher.name,
                "files": names,
                "reviews": len(work),
                "kept": kept,
                "repeated": repeated,
            }
        )
        return
    before = f"; {kept} reviews were there already" if kept else ""
    console.print(
        plain(
            f"{repeated} candidates of {len(work)} reviews repeat another one of their review{before}; "
            f"wrote {', '.join(names)} ({matcher.name})"
        ),
        soft_wrap=True,
    )


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Candidates of imported reviews that were grouped: ``repeated`` of ``reviews`` say what another one says."""

    judge: str
    fingerprint: str
    reviews: int
    repeated: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> str:
        """One sentence for the terminal."""
        return f"{self.repeated} candidates of {self.reviews} reviews repeat another one of their review ({self.judge})"


def grouped_reviews(
    settings: Settings, corpus: Corpus, found: ImportedReviews, spec: str, *, max_cost: float | None
) -> tuple[ImportedReviews, Grouping]:
    """The reviews with their dedup groups, by a judge's matcher.

    Reviews that have groups, or judgments that were made without, stay as they are. InputError where the corpus's
    protocol has no dedup groups.
    """
    from crb_core.errors import InputError, Where

    if corpus.protocol != "golden-comments":
        raise InputError(
            f"the protocol {corpus.protocol} has no dedup groups",
            where=Where(field="--dedup"),
            remedy="Leave it out; there a repeated finding is judged by what it matches",
        )
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    places = [
        place
        for place, review in enumerate(found.reviews)
        if review.candidates and not review.judgments and "dedup_groups" not in review.source
    ]
    work = [
        (entries[found.reviews[place].pull_request], [each.finding for each in found.reviews[place].candidates])
        for place in places
    ]
    matcher, made = _grouped(settings, corpus, spec, work, max_cost)
    reviews = list(found.reviews)
    for place, groups, (_, findings) in zip(places, made, work, strict=True):
        more = {"dedup_groups": _partition(groups, len(findings)), "dedup": f"{matcher.name} {matcher.fingerprint}"}
        reviews[place] = replace(reviews[place], source={**reviews[place].source, **more})
    grouping = Grouping(
        judge=matcher.name,
        fingerprint=matcher.fingerprint,
        reviews=len(places),
        repeated=sum(len(group) - 1 for groups in made for group in groups),
    )
    return replace(found, reviews=tuple(reviews)), grouping


def _partition(groups: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """The groups, and one of its own for every position in none of them."""
    inside = {place for group in groups for place in group}
    return sorted([list(group) for group in groups] + [[place] for place in range(count) if place not in inside])


def _is_partition(groups: Any, count: int) -> bool:
    """Whether every position below ``count`` is in exactly one group, and nothing else is."""
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        return False
    places = [place for group in groups for place in group]
    return all(type(place) is int for place in places) and sorted(places) == list(range(count))
