"""``--extract`` and ``crb judge extract``: general comments of reviews, taken apart into findings by the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.extended_file import Agents, ByTool, Force, read_by_tool, refuse_unknown_agents, write_by_tool
from crb_cli.model_calls import FakeModel, MaxCost, fake_model_served, open_call_desk
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.formats.imported import ImportedReview, ImportedReviews
    from crb_core.settings import Settings

__all__ = ["Extract", "Extraction", "extract", "taken_apart"]

FORMAT = "crb.extraction/1"
#: The source of a candidate that is a comment at a line, as it stands.
_INLINE = "inline comment"

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
    out: Annotated[Path, typer.Option(help="Folder for NAME/candidates.json; a file that is there grows.")],
    judge: Annotated[str, typer.Option(help="Who takes comments apart: claude, or claude:model=ID.")] = "claude",
    name: Annotated[
        str | None, typer.Option(help="Name of the extraction, a folder of results; the model's by default.")
    ] = None,
    agent: Agents = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many reviews that are not there yet.")] = None,
    force: Force = False,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Make candidates of downloaded reviews (benchmark_data.json), in the benchmark's own form.

    A comment at a line is a candidate as it is. A general one is taken apart, each part with the words it comes from.
    Reviews that the file has are kept, so the same command again does only what is missing.
    """
    from crb_core.formats.golden_comments import pull_request_url, read_corpus
    from crb_core.formats.golden_comments_results import read_comments
    from crb_core.settings import load_settings

    with fake_model_served(wanted=fake_model):
        settings = load_settings()
        read = read_corpus(folder, "extraction")
        urls = {entry.pull_request.key: pull_request_url(entry.pull_request) for entry in read.corpus.entries}
        found = read_comments(folder, read.corpus)
        refuse_unknown_agents(agent, {review.agent for review in found.reviews})
        target = out / _folder_name(name, judge) / "candidates.json"
        content = read_by_tool(target)
        _refuse_mixing(content, judge, target)
        wanted = [review for review in found.reviews if not agent or review.agent in agent]
        new = [each for each in wanted if force or each.agent not in content.get(urls[each.pull_request], {})]
        chosen = replace(found, reviews=tuple(new[:limit]))
        made, extraction = taken_apart(settings, chosen, judge, max_cost=max_cost)
    for review in made.reviews:
        content.setdefault(urls[review.pull_request], {})[review.agent] = _candidates(review)
    if made.reviews:
        write_by_tool(target, content)
    kept = len(wanted) - len(new)
    if as_json:
        counts = {"reviews": len(made.reviews), "kept": kept, "left": len(new) - len(made.reviews)}
        print_json({"format": FORMAT, "file": str(target), **counts, **extraction.to_json()})
        return
    left = f"; {kept} reviews were there already" if kept else ""
    left += f"; {len(new) - len(made.reviews)} are left" if len(made.reviews) < len(new) else ""
    console.print(plain(f"{extraction.words()}{left}; wrote {target}"), soft_wrap=True)


def _candidates(review: ImportedReview) -> list[dict[str, Any]]:
    """The benchmark's records: text, place, and where the text comes from."""
    return [
        {
            "text": each.finding.message,
            "path": each.finding.file,
            "line": each.finding.start_line,
            "source": _INLINE if each.is_comment else {"kind": "general comment", **(each.source or {})},
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


def _refuse_mixing(content: ByTool, judge: str, target: Path) -> None:
    """One file is one extraction: what another model or other prompts made stays in a file of its own."""
    from crb_core.errors import InputError, Where
    from crb_worker.judge.extractor import read_extractor

    mine = read_extractor(judge).fingerprint
    for url, tools in content.items():
        for tool, candidates in tools.items():
            for each in candidates if isinstance(candidates, list) else (None,):
                source = each.get("source") if isinstance(each, dict) else None
                made_by = source.get("extraction") if isinstance(source, dict) else None
                if source != _INLINE and not (isinstance(made_by, str) and made_by.endswith(f" {mine}")):
                    raise InputError(
                        f"the candidates of {tool} on {url} were made by another extraction"
                        + (f", {made_by[:120]}" if isinstance(made_by, str) else ""),
                        where=Where(file=str(target)),
                        remedy="Name another --out or --name",
                    )
