"""``--extract`` and ``crb judge extract``: general comments of reviews, taken apart into findings by the model."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.model_calls import FakeModel, MaxCost, fake_model_served, open_call_desk
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.formats.imported import ImportedReview, ImportedReviews
    from crb_core.settings import Settings

__all__ = ["Extract", "Extraction", "extract", "taken_apart"]

FORMAT = "crb.extraction/1"

Extract = Annotated[
    str | None,
    typer.Option(
        metavar="JUDGE",
        help="Take general comments apart into findings: claude, or claude:model=ID.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """What was taken apart: ``comments`` general ones gave ``findings``. ``fingerprint`` says by what."""

    spec: str
    fingerprint: str
    model: str
    fake_model: bool
    comments: int
    findings: int

    def to_json(self) -> dict[str, Any]:
        return {
            "judge": self.spec,
            "fingerprint": self.fingerprint,
            "model": self.model,
            "fake_model": self.fake_model,
            "general_comments": self.comments,
            "findings": self.findings,
        }

    def words(self) -> str:
        """One sentence for the terminal."""
        fake = " (a scripted model)" if self.fake_model else ""
        return f"{self.comments} general comments taken apart into {self.findings} findings by {self.model}{fake}"


def taken_apart(
    settings: Settings, found: ImportedReviews, spec: str, *, max_cost: float | None
) -> tuple[ImportedReviews, Extraction]:
    """The reviews with their general comments split. Answers are stored, so the same import again asks for none."""
    from crb_core.formats.general_comments import general_comments, split_general
    from crb_core.store import open_store
    from crb_worker.judge.client import LOOPBACK_MODEL
    from crb_worker.judge.extractor import Extractor, read_extractor

    setup = read_extractor(spec)
    before = len(general_comments(found.reviews))
    store = open_store(settings.resolved_store_url)
    try:
        desk = open_call_desk(settings, store, setup.fingerprint, max_cost=max_cost)
        reviews = split_general(
            found.reviews,
            Extractor(setup, desk.calls()).split,
            extraction=f"{setup.parameters.model} {setup.fingerprint}",
            slots=settings.judge_slots,
        )
    finally:
        store.close()
    extraction = Extraction(
        spec=spec,
        fingerprint=setup.fingerprint,
        model=setup.parameters.model,
        fake_model=setup.parameters.model == LOOPBACK_MODEL,
        comments=before,
        findings=_count(reviews) - (_count(found.reviews) - before),
    )
    return replace(found, reviews=reviews), extraction


def _count(reviews: Any) -> int:
    return sum(len(review.candidates) for review in reviews)


def extract(
    folder: Annotated[Path, typer.Argument(help="Folder laid out as the golden-comments benchmark.")],
    out: Annotated[Path, typer.Option(help="Folder for NAME/candidates.json; a file that is there is kept.")],
    judge: Annotated[str, typer.Option(help="Who takes comments apart: claude, or claude:model=ID.")] = "claude",
    name: Annotated[
        str | None, typer.Option(help="Name of the extraction, a folder of results; the model's by default.")
    ] = None,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Make candidates of downloaded reviews (benchmark_data.json), in the benchmark's own form.

    A comment at a line is a candidate as it is. A general one is taken apart, each part with the words it comes from.
    """
    from crb_core.errors import InputError, Where
    from crb_core.formats.golden_comments import pull_request_url, read_corpus
    from crb_core.formats.golden_comments_results import read_comments
    from crb_core.settings import load_settings

    with fake_model_served(wanted=fake_model):
        settings = load_settings()
        read = read_corpus(folder, "extraction")
        found = read_comments(folder, read.corpus)
        target = out / _folder_name(name, judge) / "candidates.json"
        _refuse_overwriting(target)
        made, extraction = taken_apart(settings, found, judge, max_cost=max_cost)
    urls = {entry.pull_request.key: pull_request_url(entry.pull_request) for entry in read.corpus.entries}
    content: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for review in made.reviews:
        content.setdefault(urls[review.pull_request], {})[review.agent] = _candidates(review)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as stream:
            stream.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", where=Where(file=str(target))) from None
    if as_json:
        print_json({"format": FORMAT, "file": str(target), "reviews": len(made.reviews), **extraction.to_json()})
        return
    console.print(plain(f"{extraction.words()}; wrote {target}"), soft_wrap=True)


def _candidates(review: ImportedReview) -> list[dict[str, Any]]:
    """The benchmark's records: text, place, and where the text comes from."""
    return [
        {
            "text": each.finding.message,
            "path": each.finding.file,
            "line": each.finding.start_line,
            "source": "inline comment" if each.is_comment else {"kind": "general comment", **(each.source or {})},
        }
        for each in review.candidates
    ]


def _folder_name(name: str | None, judge: str) -> str:
    import re

    from crb_core.errors import InputError, Where
    from crb_worker.judge.extractor import read_extractor

    chosen = name if name is not None else re.sub(r"[^A-Za-z0-9._-]", "_", read_extractor(judge).parameters.model)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", chosen):
        raise InputError(
            f"{chosen[:80]!r} is no usable name",
            where=Where(field="--name"),
            remedy="Use up to 128 letters, digits, dots, dashes and underscores, a letter or digit first",
        )
    return chosen


def _refuse_overwriting(target: Path) -> None:
    from crb_core.errors import InputError, Where

    if target.exists():
        raise InputError(
            "the file is already there", where=Where(file=str(target)), remedy="Name another --out or --name"
        )
