"""The options of every command that re-scores a subset (seed A 7.4; rule 7)."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Actionability",
    "Beta",
    "Category",
    "ContextRequired",
    "Difficulty",
    "Dimension",
    "ExcludeProducer",
    "Judge",
    "NoDedup",
    "OneSweep",
    "Producer",
    "Profile",
    "Scope",
    "Severity",
]

Severity = Annotated[list[str] | None, typer.Option(help="Only findings of this severity (repeatable).")]
Category = Annotated[list[str] | None, typer.Option(help="Only findings of this category (repeatable).")]
Scope = Annotated[list[str] | None, typer.Option(help="Only findings of this scope (repeatable).")]
Difficulty = Annotated[list[str] | None, typer.Option(help="Only findings of this difficulty (repeatable).")]
ContextRequired = Annotated[
    list[str] | None, typer.Option(help="Only findings that need this much context (repeatable).")
]
Actionability = Annotated[list[str] | None, typer.Option(help="Only findings of this actionability (repeatable).")]
Producer = Annotated[
    list[str] | None,
    typer.Option(help="Only golden findings of this producer (repeatable); augmented metrics are then undefined."),
]
ExcludeProducer = Annotated[
    list[str] | None,
    typer.Option(help="Leave out golden findings of producers that begin with this, and claim anew (repeatable)."),
]
Dimension = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Only pull requests of this language, size, change_type, domain, ... (repeatable).",
    ),
]
Beta = Annotated[float, typer.Option(help="Beta of the F score, 0.1 to 10; below 1 favours precision.")]
Judge = Annotated[str | None, typer.Option(help="Judge by name or fingerprint; the sweep's first by default.")]
Profile = Annotated[
    str | None, typer.Option(help="golden-comments: strict, core (default), all, or none for no profile.")
]
NoDedup = Annotated[
    bool, typer.Option("--no-dedup", help="golden-comments: count every candidate, not every dedup group.")
]
OneSweep = Annotated[str | None, typer.Option(help="Name or id of the sweep; the newest by default.")]
