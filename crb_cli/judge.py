"""``crb judge``: the judges with what was measured of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from crb_cli.judge_agreement import agreement
from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The judges, their fingerprints and how far they can be trusted.")


@app.callback()
def root() -> None:
    """The judges, their fingerprints and how far they can be trusted."""


@app.command("list")
def list_(
    corpus: Annotated[str, typer.Option(help="Corpus that the judges are opened for.")] = "showcase",
    as_json: JsonFlag = False,
) -> None:
    """List the judges of this version: fingerprint, whether they classify, and every parameter that decides."""
    from crb_cli.sweep import load_named_corpus
    from crb_core.bundled import bundled
    from crb_core.errors import CrbError
    from crb_core.settings import load_settings
    from crb_worker.judge import judge_names, load_judge

    loaded = load_named_corpus(load_settings(), corpus)
    records: list[dict[str, Any]] = []
    for name in judge_names():
        try:
            judge = load_judge(name, corpus=loaded, reference_folder=bundled("corpus") / loaded.name / "reference")
        except CrbError as error:
            records.append({"name": name, "unavailable": str(error)})
            continue
        records.append(
            {
                "name": judge.name,
                "fingerprint": judge.fingerprint,
                "classifies": judge.classifies,
                "description": judge.describe(),
            }
        )
    if as_json:
        print_json({"corpus": loaded.name, "judges": records})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("judge", "fingerprint", "classifies", ""):
        table.add_column(title)
    for record in records:
        if "unavailable" in record:
            table.add_row(record["name"], "-", "-", plain(str(record["unavailable"])))
        else:
            table.add_row(str(record["name"]), str(record["fingerprint"]), "yes" if record["classifies"] else "no", "")
    console.print(table)


app.command("agreement")(agreement)
