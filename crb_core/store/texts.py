"""Texts in databases of two kinds: which can be kept, and an order that is the same in both."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

__all__ = ["by_characters", "is_storable"]


def is_storable(value: str) -> bool:
    """Whether every database can keep a text: no NUL, and no half of a surrogate pair (a byte that was no UTF-8)."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


class _ByCharacters(FunctionElement[str]):
    name = "by_characters"
    inherit_cache = True
    type = String()


def by_characters(column: ColumnElement[Any]) -> _ByCharacters:
    """A text column to order by, as Python and SQLite do: by its characters' numbers.

    A PostgreSQL server sorts by the language that it was set up with, so that a leaderboard or an archive would depend
    on the server.
    """
    return _ByCharacters(column)


@compiles(_ByCharacters)
def _plain(element: _ByCharacters, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_ByCharacters, "postgresql")
def _in_postgresql(element: _ByCharacters, compiler: Any, **options: Any) -> str:
    return f'{compiler.process(element.clauses, **options)} COLLATE "C"'
