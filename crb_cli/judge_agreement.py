"""``crb judge agreement``: how far people agree with each other, the ceiling for any judge; or a sweep's judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from crb_cli.output import JsonFlag, console, plain, print_json

__all__ = ["agreement"]


def agreement(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Two or more label files, CSV or JSON; one a rater.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Instead of files: the judges of this sweep.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="With --sweep: judge by name or fingerprint (repeatable).")
    ] = None,
    protocol: Annotated[str, typer.Option(help="Whose severities and categories the labels use.")] = "reviewbench",
    as_json: JsonFlag = False,
) -> None:
    """Print the agreement of human raters on every axis: kappa of each pair, alpha of all, with 95% intervals.

    With --sweep, that of a sweep's judges: on pairs, on coverage, and on every axis that both labelled.
    """
    from crb_core.errors import UsageError

    if (sweep is None) == (not files):
        raise UsageError("agreement needs label files or a sweep", remedy="Name two label files, or --sweep NAME")
    if judge and sweep is None:
        raise UsageError("--judge belongs to --sweep", remedy="Leave it out, or name the sweep with --sweep")
    if sweep is not None:
        _of_sweep(sweep, judge, as_json=as_json)
        return
    _of_files(files or [], protocol, as_json=as_json)


def _of_sweep(sweep: str, judges: list[str] | None, *, as_json: bool) -> None:
    from crb_cli.judge_compare import chosen_judges, print_pairs
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.judge_comparison import sweep_agreements

    store = open_store(load_settings().resolved_store_url)
    try:
        sweep_id, protocol, chosen = chosen_judges(store, sweep, judges)
        pairs = sweep_agreements(store, sweep_id, chosen)
    finally:
        store.close()
    if as_json:
        print_json({"format": "crb.judge-agreement/1", "sweep_id": sweep_id, "protocol": protocol, "agreement": pairs})
    else:
        print_pairs(pairs)


def _of_files(files: list[Path], protocol: str, *, as_json: bool) -> None:
    from crb_core.errors import InputError, Where
    from crb_core.formats.human_labels import AXES, read_labels
    from crb_core.raters import rater_agreement

    raters = {}
    for path in files:
        read = read_labels(path, protocol=protocol)
        if read.rater in raters:
            raise InputError(
                f"the rater {read.rater} is there twice",
                where=Where(file=str(path)),
                remedy="Name the files after their raters, or give a rater in JSON",
            )
        raters[read.rater] = read.labels
    found = rater_agreement(raters, AXES)
    if as_json:
        print_json(
            {
                "format": "crb.rater-agreement/1",
                "protocol": protocol,
                "raters": {name: len(labels) for name, labels in raters.items()},
                "axes": [each.model_dump(mode="json") for each in found],
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for title in ("axis", "raters", "n", "equal", "kappa", "95%"):
        table.add_column(title, justify="left" if title in {"axis", "raters"} else "right", overflow="fold")
    for axis in found:
        for place, pair in enumerate(axis.pairs):
            each = pair.agreement
            table.add_row(
                axis.axis if place == 0 else "",
                plain(" and ".join(pair.raters)),
                str(each.n),
                "–" if each.raw is None else f"{each.raw:.0%}",
                "–" if each.kappa is None else f"{each.kappa:.2f}",
                _interval(each.kappa_low, each.kappa_high),
            )
        if len(raters) > 2:
            whole = axis.together
            table.add_row(
                "",
                Text("all (alpha)", style="dim"),
                str(whole.units),
                "",
                "–" if whole.alpha is None else f"{whole.alpha:.2f}",
                _interval(whole.low, whole.high),
            )
    console.print(table)
    console.print(Text("–: undefined, as when all answers are equal.", style="dim"))


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"
