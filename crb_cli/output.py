"""Printing: JSON for programs, tables for people."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.text import Text

__all__ = ["JsonFlag", "console", "csv_output", "plain", "print_json", "printable_json", "wrapped"]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs; stable and documented.")]

console = Console(highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output. NaN never occurs: undefined is null."""
    for line in printable_json(value, indent=2).split("\n"):
        print(line)


def printable_json(value: Any, *, indent: int | None = None) -> str:
    """JSON in which characters that could move or colour a terminal, or that its encoding lacks, are escapes.

    To a program these mean the same.
    """
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    text = json.dumps(value, indent=indent, ensure_ascii=not is_unicode, allow_nan=False)
    return "\n".join(line if line.isprintable() else "".join(map(_printable, line)) for line in text.split("\n"))


def csv_output() -> TextIO:
    """Standard output for a CSV file: UTF-8 and line ends as they are, whatever the terminal's own encoding is."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="strict", newline="")
    return sys.stdout


def _printable(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def plain(text: str) -> Text:
    """Outside text without markup and control characters: a message must not colour or move the terminal."""
    return Text("".join(character if character.isprintable() else "�" for character in text.replace("\n", " ")))


def wrapped(text: str, columns: int) -> list[str]:
    """A text in lines of at most so many columns, broken between words where there are any."""
    return [line.plain.rstrip() for line in Text(text).wrap(console, max(2, columns))]
