"""Printing: JSON for programs, tables for people."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

__all__ = ["JsonFlag", "console", "plain", "print_json", "wrapped"]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs; stable and documented.")]

console = Console(highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output. NaN never occurs: undefined is null.

    Characters that could move or colour a terminal are written as escapes, which mean the same to a program.
    """
    for line in json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).split("\n"):
        print(line if line.isprintable() else "".join(map(_printable, line)))


def _printable(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def plain(text: str) -> Text:
    """Outside text without markup and control characters: a message must not colour or move the terminal."""
    return Text("".join(character if character.isprintable() else "�" for character in text.replace("\n", " ")))


def wrapped(text: str, columns: int) -> list[str]:
    """A text in lines of at most so many columns, broken between words where there are any."""
    return [line.plain.rstrip() for line in Text(text).wrap(console, max(2, columns))]
