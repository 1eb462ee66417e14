"""``crb export labels``: a label file to fill in, with the findings of a sweep or of a golden set."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crb_cli.new_file import new_file
from crb_cli.output import JsonFlag, console, csv_output, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.finding import Finding, Label

__all__ = ["export_labels"]

#: Characters of a message in the file; spreadsheets and CSV readers have limits of their own.
_LONGEST = 8000


def export_labels(
    out: Annotated[
        Path, typer.Option("--out", help="CSV file to write, named after its rater; - for standard output.")
    ],
    sweep: Annotated[str | None, typer.Argument(metavar="[SWEEP]", help="Name or id of the sweep.")] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Instead of a sweep: the golden findings of this corpus.", show_default=False)
    ] = None,
    agent: Annotated[list[str] | None, typer.Option("--agent", help="Only this agent (repeatable).")] = None,
    golden: Annotated[bool, typer.Option("--golden", help="Also the golden findings of the corpus.")] = False,
    filled: Annotated[
        bool, typer.Option("--filled", help="With the labels that golden findings have, to correct them.")
    ] = False,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many findings, drawn by --seed.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample; the same for all raters.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Write a label file (crb.labels/1) with one empty row a finding, for people to fill in.

    It does not say whose a finding is, nor what a judge said of it. Equal findings are one row.
    """
    from crb_cli.sweep import load_named_corpus
    from crb_core.errors import InputError, UsageError
    from crb_core.formats.csv_table import Table, write_csv
    from crb_core.formats.human_labels import AXES, NOTES
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.corpora import load_corpus
    from crb_core.store.labelling import sweep_candidates
    from crb_core.store.sweeps import find_sweep

    if (sweep is None) == (corpus is None):
        raise UsageError(
            "there is a sweep and a corpus" if sweep else "there is neither a sweep nor a corpus",
            remedy="Name a sweep, or give --corpus NAME",
        )
    if corpus is not None and agent:
        raise UsageError("--agent means nothing for golden findings", remedy="Leave it out")
    settings = load_settings()
    found: dict[tuple[str, str], tuple[Finding, Label | None]] = {}
    if corpus is not None:
        loaded = load_named_corpus(settings, corpus)
        what = f"corpus {loaded.name}"
        found = _golden(loaded)
    else:
        store = open_store(settings.resolved_store_url)
        try:
            with store.read() as connection:
                row = find_sweep(connection, sweep or "")
                what = f"sweep {row.name}"
                candidates = sweep_candidates(connection, row.id, agent or ())
                found = {key: (finding, None) for key, finding in candidates.items()}
                if golden:
                    found |= _golden(load_corpus(connection, row.corpus_id))
        finally:
            store.close()
    if not found:
        raise InputError(
            f"the {what} has no findings to label",
            remedy="Check --agent, or wait until reviews have ended" if sweep else "Propose and label some first",
        )
    names = list(found)
    if sample is not None and sample < len(names):
        names = [names[place] for place in sorted(random.Random(seed).sample(range(len(names)), sample))]
    table = Table(
        name="labels",
        columns=("pull_request", "finding", *AXES, *NOTES),
        rows=[
            (*name, *(_answer(found[name][1] if filled else None, axis) for axis in AXES), *_notes(found[name][0]))
            for name in names
        ],
    )
    if str(out) == "-":
        write_csv(table, csv_output())
        return
    with new_file(out, newline="") as stream:
        write_csv(table, stream)
    if as_json:
        kind, name = what.split(" ", 1)
        print_json(
            {
                "format": "crb.labels-template/1",
                "file": str(out),
                "sweep": name if kind == "sweep" else None,
                "corpus": name if kind == "corpus" else None,
                "findings": len(names),
            }
        )
    else:
        reader = f"crb corpus audit {corpus} {out}" if corpus else f"crb judge calibrate --against {out}"
        console.print(
            plain(f"{out}: {len(names)} findings to label; `{reader}` reads it back"),
            soft_wrap=True,
        )


def _golden(corpus: Corpus) -> dict[tuple[str, str], tuple[Finding, Label | None]]:
    """By pull request and id every golden finding with its label."""
    return {
        (entry.pull_request.key, each.finding_id(entry.pull_request.key)): (each, each.label)
        for entry in corpus.entries
        for each in entry.golden
    }


def _answer(label: Label | None, axis: str) -> str | None:
    value = getattr(label, axis, None)
    return None if value is None else str(value)


def _notes(finding: Finding) -> list[str | None]:
    return [_note(each) for each in (finding.file, finding.lines, finding.message)]


def _note(text: str | None) -> str | None:
    if not text:
        return None
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [{len(text) - _LONGEST} more characters]"
