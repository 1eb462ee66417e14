"""``crb corpus import`` and ``crb sweep import``: what the commands do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crb_cli.output import console, plain, print_json
from crb_core.errors import InputError, UsageError, Where
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.formats.imported import ImportedReviews, Irregularity

__all__ = [
    "CORPUS_FORMATS",
    "SWEEP_FORMATS",
    "import_corpus",
    "import_sweep",
]

FORMAT = "crb.import/1"
CORPUS_FORMATS = ("reviewbench", "golden-comments")
SWEEP_FORMATS = (
    "reviewbench",
    "golden-comments",
    "sarif",
    "rdjson",
    "github-review-comments",
    "gitlab-code-quality",
)


def import_corpus(
    format_name: str, path: Path, *, name: str, mirror: str | None, url: str | None, protocol: str | None, as_json: bool
) -> None:
    """Read a corpus, store it with its files as evidence, and report what is irregular."""
    from crb_cli.own_corpora import require_own_corpus_name
    from crb_core.store import open_store
    from crb_core.store.imports import import_corpus as store_corpus

    _check_format(format_name, CORPUS_FORMATS)
    _check_name(name)
    require_own_corpus_name(name)
    settings = load_settings()
    corpus, root, files, irregularities = _read_corpus(format_name, path, name, mirror, url, protocol)
    record = _record(settings, root, files, irregularities, {})
    store = open_store(settings.resolved_store_url)
    try:
        with store.write() as connection:
            result = store_corpus(connection, corpus, record, format_name)
    finally:
        store.close()
    golden = sum(len(entry.golden) for entry in corpus.entries)
    if as_json:
        print_json(
            {
                "format": FORMAT,
                "kind": "corpus",
                "source_format": format_name,
                "corpus": corpus.name,
                "version": corpus.version,
                "fingerprint": corpus.fingerprint,
                "protocol": corpus.protocol,
                "pull_requests": len(corpus.entries),
                "golden_findings": golden,
                "new": result.is_new,
                "updated": result.updated,
                **record,
                "irregularity_counts": _counts(irregularities),
            }
        )
        return
    state = "stored" if result.is_new else "was stored already"
    console.print(
        plain(
            f"corpus {corpus.name} (version {corpus.version}) {state}: {len(corpus.entries)} pull requests, "
            f"{golden} golden findings, protocol {corpus.protocol}"
        ),
        soft_wrap=True,
    )
    if result.updated:
        console.print(plain(f"{result.updated} pull requests got other traits"))
    if corpus.source == "none" and corpus.protocol != "golden-comments":
        console.print("Reviews can be imported; for agents to run on it, import it again with --mirror or --url.")
    _print_irregularities(irregularities, root)


def import_sweep(
    format_name: str,
    path: Path,
    *,
    corpus_name: str,
    name: str,
    agent: str | None,
    pull_request: str | None,
    judge: str | None,
    round_number: int,
    root: str | None,
    login: str | None,
    extract: str | None,
    dedup: str | None,
    max_cost: float | None,
    fake_model: bool,
    as_json: bool,
) -> None:
    """Read reviews and judgments, store them as a sweep's trials in one transaction, and report what is irregular."""
    from crb_cli.dedup import grouped_reviews
    from crb_cli.extraction import taken_apart
    from crb_cli.model_calls import fake_model_served
    from crb_cli.sweep import load_named_corpus
    from crb_core.store import open_store
    from crb_core.store.corpora import save_corpus
    from crb_core.store.imports import import_reviews

    _check_format(format_name, SWEEP_FORMATS)
    _check_name(name)
    settings = load_settings()
    corpus = load_named_corpus(settings, corpus_name)
    options = {
        "--pr": pull_request,
        "--judge": judge,
        "--root": root,
        "--login": login,
        "--round": round_number if round_number != 1 else None,
    }
    found = _read_reviews(format_name, path, corpus, agent, options)
    extraction, grouping = None, None
    if extract is not None or dedup is not None:
        with fake_model_served(wanted=fake_model):
            if extract is not None:
                found, extraction = taken_apart(load_settings(), found, extract, max_cost=max_cost)
            if dedup is not None:
                found, grouping = grouped_reviews(load_settings(), corpus, found, dedup, max_cost=max_cost)
    record = _record(
        settings,
        found.root,
        found.files,
        found.irregularities,
        {name: value for name, value in options.items() if value is not None}
        | ({"--agent": agent} if agent else {})
        | ({"--extract": extraction.to_json()} if extraction is not None else {})
        | ({"--dedup": grouping.to_json()} if grouping is not None else {}),
    )
    store = open_store(settings.resolved_store_url)
    try:
        with store.write() as connection:
            result = import_reviews(
                connection,
                found.reviews,
                name=name,
                corpus_id=save_corpus(connection, corpus),
                format_name=format_name,
                record=record,
            )
    finally:
        store.close()
    if as_json:
        print_json(
            {
                "format": FORMAT,
                "kind": "sweep",
                "source_format": format_name,
                "sweep": name,
                "sweep_id": result.sweep_id,
                "corpus": corpus.name,
                "corpus_fingerprint": corpus.fingerprint,
                "agents": sorted(result.agents),
                "reviews": result.reviews,
                "new_reviews": result.new_reviews,
                "candidates": result.candidates,
                "judges": [
                    {"name": judge_name, "fingerprint": identifier} for identifier, judge_name in result.judges.items()
                ],
                "judgments": result.judgments,
                "new_judgments": result.new_judgments,
                "unscored_judgments": result.unscored,
                "extraction": extraction.to_json() if extraction is not None else None,
                "dedup": grouping.to_json() if grouping is not None else None,
                **record,
                "irregularity_counts": _counts(found.irregularities),
            }
        )
        return
    console.print(
        plain(
            f"sweep {name} ({result.sweep_id}): {result.reviews} reviews by {len(result.agents)} agents with "
            f"{result.candidates} candidates, {result.new_reviews} of the reviews new; {result.judgments} judgments by "
            f"{len(result.judges)} judges, {result.new_judgments} of them new"
        ),
        soft_wrap=True,
    )
    if extraction is not None:
        console.print(plain(extraction.words()), soft_wrap=True)
    if grouping is not None:
        console.print(plain(grouping.words()), soft_wrap=True)
    if result.unscored:
        console.print(plain(f"{result.unscored} judgments cannot be scored; `crb sweep show {name}` says why"))
    _print_irregularities(found.irregularities, found.root)


def _read_corpus(
    format_name: str, path: Path, name: str, mirror: str | None, url: str | None, protocol: str | None
) -> tuple[Corpus, Path, Sequence[Path], Sequence[Irregularity]]:
    from crb_core.formats.golden_comments import read_corpus as read_golden_comments
    from crb_core.formats.imported import Irregularity
    from crb_core.formats.reviewbench import corpus_files, folder_of_manifest, read_reviewbench

    if format_name == "reviewbench" and path.is_file():
        path = folder_of_manifest(path)
    if not path.is_dir():
        raise InputError(
            "this is no folder" if path.exists() else "there is no such folder",
            where=Where(file=str(path)),
            remedy="Name the folder that holds the corpus",
        )
    if mirror and url:
        raise UsageError("both a mirror folder and a git URL are given", remedy="Give one of --mirror and --url")
    _check_protocol(format_name, protocol)
    if format_name == "golden-comments":
        if mirror or url:
            raise InputError(
                "this format records no commits, so its repositories cannot be used",
                remedy="Leave out --mirror and --url",
            )
        found = read_golden_comments(path, name)
        return found.corpus, found.root, found.files, found.irregularities
    corpus, notes = read_reviewbench(
        path,
        name,
        source="mirror" if mirror else "git" if url else "none",
        source_template=mirror or url,
        protocol=protocol or format_name,
    )
    irregularities = [Irregularity(kind="corpus", problem=note, file=str(path)) for note in notes]
    return corpus, path, corpus_files(path), irregularities


def _check_protocol(format_name: str, protocol: str | None) -> None:
    known = ("reviewbench", "answer-key") if format_name == "reviewbench" else (format_name,)
    if protocol is not None and protocol not in known:
        raise InputError(
            f"a corpus in the format {format_name} cannot be scored by the protocol {protocol!r}",
            where=Where(field="--protocol"),
            remedy=f"Choose from {', '.join(known)}",
        )


def _read_reviews(
    format_name: str, path: Path, corpus: Corpus, agent: str | None, options: dict[str, Any]
) -> ImportedReviews:
    from crb_core.formats.golden_comments_results import read_results
    from crb_core.formats.review_files import read_review_files
    from crb_core.formats.reviewbench_results import read_reviews

    taken = {
        "golden-comments": (),
        "reviewbench": ("--judge", "--round"),
        "github-review-comments": ("--pr", "--root", "--login", "--round"),
    }.get(format_name, ("--pr", "--root", "--round"))
    for name, value in options.items():
        if value is not None and name not in taken:
            raise UsageError(f"{name} means nothing for the format {format_name}", remedy=f"Leave {name} out")
    if format_name == "golden-comments":
        return read_results(path, corpus, agent=agent)
    number = options["--round"] or 1
    if format_name == "reviewbench":
        return read_reviews(path, corpus, agent=agent, judge=options["--judge"], round_number=number)
    return read_review_files(
        format_name,
        path,
        keys=[entry.pull_request.key for entry in corpus.entries],
        pull_request=options["--pr"],
        agent=agent,
        round_number=number,
        root=options["--root"],
        login=options["--login"],
    )


def _check_format(format_name: str, known: Sequence[str]) -> None:
    if format_name not in known:
        raise UsageError(
            f"there is no format {format_name[:80]!r}",
            where=Where(field="FORMAT"),
            remedy=f"Choose from {', '.join(known)}",
        )


def _check_name(name: str) -> None:
    import re

    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise UsageError(
            f"{name[:80]!r} is no usable name",
            where=Where(field="--name"),
            remedy="Use up to 64 lower-case letters, digits, dots, dashes and underscores, a letter or digit first",
        )


def _record(
    settings: Settings,
    root: Path,
    files: Iterable[Path],
    irregularities: Iterable[Irregularity],
    options: dict[str, Any],
) -> dict[str, Any]:
    """What is kept of an import. The files become evidence before any row names them."""
    from crb_core.evidence import open_evidence

    evidence = open_evidence(settings.resolved_evidence_url)
    digests = {}
    for path in files:
        try:
            digests[_relative(str(path), root)] = evidence.put(path.read_bytes())
        except OSError as error:
            raise InputError(f"the file cannot be read: {error.strerror}", where=Where(file=str(path))) from None
    return {
        "options": options,
        "files": digests,
        "irregularities": [{**each.to_json(), "file": _relative(each.file, root)} for each in irregularities],
    }


def _relative(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}/")


def _counts(irregularities: Iterable[Irregularity]) -> dict[str, int]:
    from collections import Counter

    return dict(sorted(Counter(each.kind for each in irregularities).items()))


def _print_irregularities(irregularities: Sequence[Irregularity], root: Path) -> None:
    """One line a kind: how often, and the first with its place."""
    if not irregularities:
        return
    console.print(plain(f"{len(irregularities)} irregularities, all kept; --json lists every one:"), style="yellow")
    for kind, number in _counts(irregularities).items():
        first = next(each for each in irregularities if each.kind == kind)
        place = ", ".join(part for part in (_relative(first.file, root), first.field) if part)
        start = "first: " if number > 1 else ""
        console.print(Text.assemble(f"  {number} x ", plain(kind), f"; {start}", plain(f"{first.problem} ({place})")))
