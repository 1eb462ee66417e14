"""``crb dispute apply|effect|labels|rates|publish``: what comes of decided disputes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli import filters
from crb_cli.dispute_options import FolderOption, opened_folder, written
from crb_cli.label_effect import print_effect
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crb_core.dispute import Correction, Dispute

__all__ = ["apply", "effect", "labels", "publish", "rates"]


def apply(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder.")],
    save: Annotated[
        str | None, typer.Option(metavar="NAME", help="Store the corrected corpus under this name.")
    ] = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List what decided disputes change in a corpus; nothing is changed without --save.

    Corrected labels have the provenance human-corrected. Sweeps over the corrected corpus are measured anew.
    """
    from crb_cli.own_corpora import require_own_corpus_name, store_corpus
    from crb_cli.sweep import load_named_corpus
    from crb_core.dispute import corrected, corrections_of
    from crb_core.errors import InputError
    from crb_core.golden_sets import derived_corpus
    from crb_core.settings import load_settings

    settings = load_settings()
    if save is not None:
        require_own_corpus_name(save)
    loaded = load_named_corpus(settings, corpus)
    found = corrections_of(opened_folder(settings, folder).read_all(), loaded)
    if save is not None and not found:
        raise InputError(f"no decision changes {loaded.name}, so there is nothing to save")
    digest = None
    if save is not None:
        made = derived_corpus(loaded, save, corrected(loaded, found))
        store_corpus(settings, made)
        digest = made.fingerprint
    if as_json:
        print_json(
            {
                "format": "crb.dispute-corrections/1",
                "corpus": loaded.name,
                "fingerprint": loaded.fingerprint,
                "saved_as": save,
                "saved_fingerprint": digest,
                "corrections": [each.model_dump(mode="json") for each in found],
            }
        )
        return
    _print_corrections(found)
    done = "" if save is None else f"; stored as {save}"
    labels = "1 label" if len(found) == 1 else f"{len(found)} labels"
    console.print(plain(f"{labels} of {loaded.name} corrected by decided disputes{done}"), soft_wrap=True)


def _print_corrections(found: Sequence[Correction]) -> None:
    if not found:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("finding", "axis", "was → is", "dispute"):
        table.add_column(title, overflow="fold")
    for each in found:
        table.add_row(
            plain(f"{each.pull_request} {each.finding}"),
            each.axis,
            plain(f"{each.before or '–'} → {each.after}"),
            plain(each.dispute),
        )
    console.print(table)


def effect(
    sweep: Annotated[str, typer.Argument(help="Name or id of the sweep.")],
    judge: filters.Judge = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Recompute a sweep's rows with the labels as decided disputes have them, beside the rows as they are.

    The corrected key is younger than these trials, so the new figures are a forecast: no row is ranked by them.
    """
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.disputed import effect_json
    from crb_core.store.results import find_judge
    from crb_core.store.sweeps import find_sweep

    settings = load_settings()
    disputes = opened_folder(settings, folder).read_all()
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            chosen = find_judge(connection, find_sweep(connection, sweep).id, judge)
            document, found = effect_json(connection, sweep, chosen, disputes)
    finally:
        store.close()
    if as_json:
        print_json(document)
        return
    _print_corrections(found)
    labels = "1 corrected label" if len(found) == 1 else f"{len(found)} corrected labels"
    console.print(plain(f"Sweep {document['sweep']}, judge {chosen.name}: {labels}"), soft_wrap=True)
    print_effect(document)


def labels(
    out: Annotated[Path, typer.Option(help="Label file (crb.labels/1) to write; it must not be there yet.")],
    corpus: Annotated[str, typer.Option(help="Only disputes about this corpus, by name.")],
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write what upheld disputes decided as a label file, to calibrate and evaluate judges against."""
    from crb_core.errors import InputError
    from crb_core.formats.human_labels import FORMAT
    from crb_core.settings import load_settings

    chosen = [each for each in opened_folder(load_settings(), folder).read_all() if each.submission.corpus == corpus]
    entries = _labels_of(chosen)
    if not entries:
        raise InputError(f"no upheld dispute about {corpus} decides a label", remedy="`crb dispute list` shows them")
    document = {"format": FORMAT, "rater": "disputes", "labels": entries}
    written(out, json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")
    if as_json:
        print_json({"file": str(out), "labels": len(entries)})
        return
    count = "1 finding" if len(entries) == 1 else f"{len(entries)} findings"
    console.print(
        plain(f"{out}: {count}; `crb judge calibrate --against {out} --corpus {corpus}` reads it"), soft_wrap=True
    )


def _labels_of(disputes: Sequence[Dispute]) -> list[dict[str, Any]]:
    """One entry a finding; of several decisions on one axis the last one counts."""
    from crb_core.dispute import MATCH, MATCH_ANSWERS

    decided = [(each.submission, each.decision) for each in disputes if each.decision is not None]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    matches: dict[tuple[str, str], set[str]] = {}
    for about, decision in sorted(decided, key=lambda each: each[1].decided_at):
        for axis, value in decision.corrections.items():
            if axis != MATCH:
                found.setdefault((about.pull_request, about.finding), {})[axis] = value
                continue
            key = (about.pull_request, about.candidate or "")
            mine = matches.setdefault(key, set(about.matches or ()))
            (mine.add if value == MATCH_ANSWERS[0] else mine.discard)(about.finding)
    for key, ids in matches.items():
        found.setdefault(key, {})["matches"] = sorted(ids)
    return [{"pull_request": key, "finding": finding, **axes} for (key, finding), axes in sorted(found.items())]


def rates(
    corpus: Annotated[str | None, typer.Option(help="Only of this corpus, by name.")] = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the rate of upheld disputes by corpus version and by who gave the disputed answer."""
    from crb_core.dispute import rates as rates_of
    from crb_core.settings import load_settings

    disputes = opened_folder(load_settings(), folder).read_all()
    found = rates_of(each for each in disputes if corpus in {None, each.submission.corpus})
    if as_json:
        print_json({"format": "crb.dispute-rates/1", "rates": [each.model_dump(mode="json") for each in found]})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("corpus", "labelled by", "open", "upheld", "partially", "declined", "rate"):
        left = title in {"corpus", "labelled by"}
        table.add_column(title, justify="left" if left else "right", overflow="fold")
    for each in found:
        table.add_row(
            plain(f"{each.corpus} {each.corpus_version}"),
            plain(each.labelled_by or "not recorded"),
            *(str(count) for count in (each.open, each.upheld, each.partially_upheld, each.declined)),
            "–" if each.upheld_rate is None else f"{each.upheld_rate:.0%}",
        )
    console.print(table)
    console.print(
        "rate: upheld among decided; –: none is decided. A falling rate says that labels follow the guidelines.",
        style="dim",
        soft_wrap=True,
    )


def publish(
    out: Annotated[Path, typer.Option(help="Markdown file to write; it must not be there yet.")],
    corpus: Annotated[str | None, typer.Option(help="Only disputes about this corpus, by name.")] = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write every decision with its reasons as a document beside the guidelines."""
    from crb_core.dispute import decisions_document
    from crb_core.errors import InputError
    from crb_core.settings import load_settings

    disputes = opened_folder(load_settings(), folder).read_all()
    chosen = [each for each in disputes if each.decision is not None and corpus in {None, each.submission.corpus}]
    if not chosen:
        raise InputError("no dispute is decided yet", remedy="`crb dispute list` shows those that are open")
    written(out, decisions_document(chosen))
    if as_json:
        print_json({"file": str(out), "decisions": len(chosen)})
        return
    console.print(plain(f"{out}: {'1 decision' if len(chosen) == 1 else f'{len(chosen)} decisions'}"), soft_wrap=True)
