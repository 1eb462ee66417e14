"""``crb corpus effect``, and the table of every command that shows what other labels would make of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from crb_cli import filters
from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["corpus_effect", "print_effect"]


def corpus_effect(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder: whose labels.")],
    sweep: Annotated[str, typer.Argument(help="Name or id of a sweep over an earlier version of it.")],
    judge: filters.Judge = None,
    as_json: JsonFlag = False,
) -> None:
    """Recompute a sweep's rows with the labels of a relabelled or audited corpus, beside the rows as they are.

    These labels are younger than the trials, so the new figures are a forecast: no row is ranked by them.
    """
    from crb_cli.sweep import load_named_corpus
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.label_effect import corpus_effect_json
    from crb_core.store.results import find_judge
    from crb_core.store.sweeps import find_sweep

    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            chosen = find_judge(connection, find_sweep(connection, sweep).id, judge)
            document = corpus_effect_json(connection, sweep, chosen, loaded)
    finally:
        store.close()
    if as_json:
        print_json(document)
        return
    for change in document["changes"]:
        console.print(
            plain(
                f"  {change['pull_request']} {change['finding']} {change['axis']}: "
                f"{change['was'] or 'none'} → {change['now'] or 'none'}"
            ),
            soft_wrap=True,
        )
    count = len(document["changes"])
    labels = "1 other label" if count == 1 else f"{count} other labels"
    console.print(plain(f"Sweep {document['sweep']}, judge {chosen.name}: {labels}"), soft_wrap=True)
    print_effect(document)


def print_effect(document: Mapping[str, Any]) -> None:
    """The rows as they are and as they would be; ``document`` has ``metrics`` and ``rows``."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("agent", overflow="fold")
    for title in ("#", *(name.removeprefix("grounded_") for name in document["metrics"])):
        table.add_column(title, justify="right")
    for row in document["rows"]:
        was, now = row["was"], row["now"]
        table.add_row(
            plain(row["agent"]),
            _change(was["rank"], now["rank"], "d"),
            *(_change(was[name], now[name], ".3f") for name in document["metrics"]),
        )
    console.print(table)
    console.print(
        "Macro, was → would be. These labels are younger than the trials, so this ranks nobody.",
        style="dim",
        soft_wrap=True,
    )


def _change(was: float | None, now: float | None, form: str) -> str:
    left, right = ("–" if value is None else format(value, form) for value in (was, now))
    return left if left == right else f"{left} → {right}"
