"""Errors that a user reads: one plain sentence, where it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

__all__ = [
    "CrbError",
    "InputError",
    "SettingsError",
    "StoreError",
    "UnavailableError",
    "UsageError",
    "Where",
    "first_problem",
]


@dataclass(frozen=True, kw_only=True)
class Where:
    """A place in outside data.

    ``line`` and ``column`` count from 1. ``field`` is a dotted path such as ``findings[3].start_line``.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        parts = []
        if self.file:
            parts.append(self.file)
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.column is not None:
            parts.append(f"column {self.column}")
        if self.field:
            parts.append(f"field {self.field}")
        return _one_line(", ".join(parts))


#: Longest problem or remedy in characters: a document must not fill a terminal through its error.
_LONGEST = 1500


def _one_line(text: str) -> str:
    """Outside text that an error quotes, as one printable line: controls and the like as escapes, the middle cut."""
    if not text.isprintable():
        text = "".join(
            character if character.isprintable() else " " if character == "\n" else ascii(character)[1:-1]
            for character in text
        )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


class CrbError(Exception):
    """Anything that ends a command with a sentence instead of a traceback.

    ``problem`` says what is wrong, ``where`` the place, ``remedy`` what to do. ``exit_code`` is the process's.
    """

    exit_code = 1

    def __init__(self, problem: str, *, where: Where | None = None, remedy: str | None = None) -> None:
        problem = _one_line(problem)
        super().__init__(problem)
        self.problem = problem.rstrip(".")
        self.where = where
        self.remedy = _one_line(remedy).rstrip(".") if remedy else None

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where and str(self.where) else ""
        advice = f" {self.remedy}." if self.remedy else ""
        return f"{self.problem}{place}.{advice}"


class InputError(CrbError):
    """Data from outside (a file, an agent's output, an argument) breaks a rule."""


class UsageError(InputError):
    """The command line itself is wrong, whatever the store and the files hold: an unknown choice, a missing option."""

    exit_code = 2


class SettingsError(CrbError):
    """A setting is missing, unknown or impossible."""


class StoreError(CrbError):
    """The store cannot be opened, read or written."""


class UnavailableError(CrbError):
    """A part that crb needs (engine, broker, image, tool, mirror) is not there or does not answer."""


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The field path and the message of a pydantic error's first problem."""
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ""
    for part in detail["loc"]:
        path += f"[{part}]" if isinstance(part, int) else (f".{part}" if path else str(part))
    return path, detail["msg"].removeprefix("Value error, ")
