"""A benchmark's figures, as JSON and as a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["Figure", "show"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure. ``goal`` is what it is held against, None where there is no goal."""

    name: str
    value: float
    unit: str
    goal: str | None = None
    note: str = ""


def show(figures: list[Figure], file: Path) -> None:
    """Print the figures as a table and write them to ``file`` as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"format": "crb.bench/1", "figures": [asdict(figure) for figure in figures]}
    file.write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(document, indent=2))
    table = Table(box=None, pad_edge=False)
    for title in ("figure", "value", "unit", "goal", "note"):
        table.add_column(title, justify="right" if title == "value" else "left", overflow="fold")
    for figure in figures:
        table.add_row(figure.name, f"{figure.value:,.3g}", figure.unit, figure.goal or "", figure.note)
    Console().print(table)
