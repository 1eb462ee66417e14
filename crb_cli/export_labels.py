"""``crb export labels``: a label file to fill in, with the findings of a sweep."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Annotated

import typer

from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["export_labels"]

#: Characters of a message in the file; spreadsheets and CSV readers have limits of their own.
_LONGEST = 8000


def export_labels(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="Name or id of the sweep.")],
    out: Annotated[
        Path, typer.Option("--out", help="CSV file to write, named after its rater; - for standard output.")
    ],
    agent: Annotated[list[str] | None, typer.Option("--agent", help="Only this agent (repeatable).")] = None,
    golden: Annotated[bool, typer.Option("--golden", help="Also the golden findings of the corpus.")] = False,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many findings, drawn by --seed.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample; the same for all raters.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Write a label file (crb.labels/1) with one empty row a finding, for people to fill in.

    It does not say whose a finding is, nor what a judge said of it. Equal findings are one row.
    """
    from crb_core.errors import InputError, Where
    from crb_core.formats.csv_table import Table, write_csv
    from crb_core.formats.human_labels import AXES, NOTES
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.corpora import load_corpus
    from crb_core.store.labelling import sweep_candidates
    from crb_core.store.sweeps import find_sweep

    store = open_store(load_settings().resolved_store_url)
    try:
        with store.read() as connection:
            row = find_sweep(connection, sweep)
            found = {
                key: (finding.file, finding.lines, finding.message)
                for key, finding in sweep_candidates(connection, row.id, agent or ()).items()
            }
            if golden:
                corpus = load_corpus(connection, row.corpus_id)
                found |= {
                    (entry.pull_request.key, each.finding_id(entry.pull_request.key)): (
                        each.file,
                        each.lines,
                        each.message,
                    )
                    for entry in corpus.entries
                    for each in entry.golden
                }
    finally:
        store.close()
    if not found:
        raise InputError(
            f"the sweep {row.name} has no findings to label",
            remedy="Check --agent, or wait until reviews have ended",
        )
    names = list(found)
    if sample is not None and sample < len(names):
        names = [names[place] for place in sorted(random.Random(seed).sample(range(len(names)), sample))]
    table = Table(
        name="labels",
        columns=("pull_request", "finding", *AXES, *NOTES),
        rows=[(*name, *(None for _ in AXES), *(_note(each) for each in found[name])) for name in names],
    )
    if str(out) == "-":
        write_csv(table, sys.stdout)
        return
    try:
        with out.open("x", encoding="utf-8", newline="") as stream:
            write_csv(table, stream)
    except FileExistsError:
        raise InputError("the file is already there", where=Where(file=str(out)), remedy="Name another --out") from None
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", where=Where(file=str(out))) from None
    if as_json:
        print_json({"format": "crb.labels-template/1", "file": str(out), "sweep": row.name, "findings": len(names)})
    else:
        console.print(
            plain(f"{out}: {len(names)} findings to label; `crb judge calibrate --against {out}` reads it back"),
            soft_wrap=True,
        )


def _note(text: str | None) -> str | None:
    if not text:
        return None
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [{len(text) - _LONGEST} more characters]"
