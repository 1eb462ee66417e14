"""``crb corpus audit``: people's answers become the labels of a golden set, and say how good the earlier ones were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.label_audit import Audit, AuditedAxis

__all__ = ["audit_corpus"]

FORMAT = "crb.corpus-audit/1"


def audit_corpus(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder.")],
    files: Annotated[list[Path], typer.Argument(help="Label files (crb.labels/1) of its golden findings.")],
    save: Annotated[
        str | None, typer.Option(metavar="NAME", help="Store the corpus with people's labels under this name.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Apply people's labels to golden findings and say how far the earlier labels agreed with them.

    A confirmed axis becomes human, a changed one human-corrected. Nothing is stored without --save.
    """
    from crb_cli.own_corpora import require_own_corpus_name, store_corpus
    from crb_cli.sweep import load_named_corpus
    from crb_core.errors import InputError, Where
    from crb_core.formats.human_labels import read_labels
    from crb_core.golden_sets import derived_corpus
    from crb_core.label_audit import audit_labels
    from crb_core.protocols import protocol_named
    from crb_core.settings import load_settings

    settings = load_settings()
    if save is not None:
        require_own_corpus_name(save)
    loaded = load_named_corpus(settings, corpus)
    raters: dict[str, Any] = {}
    for path in files:
        read = read_labels(path, protocol=loaded.protocol)
        if read.rater in raters:
            raise InputError(
                f"the rater {read.rater[:80]} has two files",
                where=Where(file=str(path)),
                remedy="Give one file a rater, named after them",
            )
        raters[read.rater] = read.labels
    audit = audit_labels(loaded, raters, severities=protocol_named(loaded.protocol).severities)
    if not audit.findings:
        raise InputError(
            f"{' and '.join(map(str, files))} hold no answer",
            remedy="Fill in an axis of a finding; `crb export labels --corpus NAME` writes a file to begin with",
        )
    made = None if save is None else derived_corpus(loaded, save, audit.golden)
    if made is not None:
        store_corpus(settings, made)
    if as_json:
        print_json(_document(loaded, list(raters), audit, made))
    else:
        _print(audit, made)


def _document(corpus: Corpus, raters: list[str], audit: Audit, made: Corpus | None) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "corpus": corpus.name,
        "corpus_fingerprint": corpus.fingerprint,
        "raters": raters,
        "findings": audit.findings,
        "axes": [{**each.model_dump(mode="json"), "agreement": each.agreement} for each in audit.axes],
        "filled": dict(audit.filled),
        "changes": [each.model_dump(mode="json") for each in audit.changes],
        "saved_as": None if made is None else made.name,
        "saved_fingerprint": None if made is None else made.fingerprint,
    }


def _print(audit: Audit, made: Corpus | None) -> None:
    from rich.table import Table

    from crb_core.finding import LABEL_AXES

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("axis", "labelled by"):
        table.add_column(title, overflow="fold")
    for title in ("n", "equal", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for each in audit.axes:
        share = "–" if each.agreement is None else f"{each.agreement:.1%}"
        table.add_row(each.axis, plain(each.by), str(each.n), str(each.equal), share, plain(_note(each)))
    if audit.axes:
        console.print(table)
    for change in audit.changes:
        console.print(
            plain(
                f"  {change.pull_request} {change.finding} {change.axis}: "
                f"{change.was or 'none'} -> {change.now} (was by {change.was_by or 'nobody recorded'})"
            ),
            soft_wrap=True,
        )
    filled = ", ".join(f"{audit.filled[axis]} {axis}" for axis in LABEL_AXES if axis in audit.filled)
    words = f"{audit.findings} golden findings audited, {len(audit.changes)} labels changed"
    console.print(plain(f"{words}{f'; absent before: {filled}' if filled else ''}"), soft_wrap=True)
    if made is not None:
        console.print(plain(f"stored as {made.name}, fingerprint {made.fingerprint[:12]}"), soft_wrap=True)
    else:
        console.print("Nothing is stored without --save.", style="dim")


def _note(axis: AuditedAxis) -> str:
    """What the share does not say: the distance of severities, and which way tp and fp were wrong."""
    if axis.within_one is not None:
        return (
            f"{axis.within_one / axis.n:.1%} within one level; people higher {axis.people_higher}, "
            f"lower {axis.people_lower}"
        )
    if axis.axis == "tp_fp":
        wrong_tp = axis.confusion.get("fp", {}).get("tp", 0)
        wrong_fp = axis.confusion.get("tp", {}).get("fp", 0)
        return f"{wrong_tp} tp were fp, {wrong_fp} fp were tp"
    return ""
