"""What a verification found: the differences, each with its place, and how much was checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from crb_core.errors import CrbError, Where
from crb_core.formats.archive_results import ABSENT
from crb_core.formats.imported import shown

__all__ = ["MAX_LISTED", "Difference", "Verification"]

#: A verification stops listing after this many differences; the rest is counted.
MAX_LISTED = 1000

#: Most characters of an object or array that stands where another value must be.
_MAX_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something in the archive that is not what it must be. ``stored`` and ``recomputed`` where two values differ."""

    file: str
    problem: str
    line: int | None = None
    field: str | None = None
    stored: Any = None
    recomputed: Any = None
    has_values: bool = False

    def to_json(self) -> dict[str, Any]:
        record = {"file": self.file, "line": self.line, "field": self.field, "problem": self.problem}
        if self.has_values:
            record |= {"stored": _plain(self.stored), "recomputed": _plain(self.recomputed)}
        return record

    def __str__(self) -> str:
        where = str(Where(file=self.file, line=self.line, field=self.field))
        values = f": stored {_shown(self.stored)}, recomputed {_shown(self.recomputed)}" if self.has_values else ""
        return f"{where}: {self.problem}{values}"


@dataclass(kw_only=True)
class Verification:
    """What was checked and what differs. ``notes`` are remarks that are no fault of the archive."""

    archive: str
    content_sha256: str | None = None
    sweep: str | None = None
    crb_version: str | None = None
    files: int = 0
    bytes: int = 0
    trials: int = 0
    findings: int = 0
    judgments: int = 0
    numbers: int = 0
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    unlisted: int = 0

    @property
    def ok(self) -> bool:
        return not self.differences

    def add(self, difference: Difference) -> None:
        """Note a difference."""
        if len(self.differences) < MAX_LISTED:
            self.differences.append(difference)
        else:
            self.unlisted += 1

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "crb.verification/1",
            "archive": self.archive,
            "ok": self.ok,
            "content_sha256": self.content_sha256,
            "sweep": self.sweep,
            "crb_version": self.crb_version,
            "checked": {
                name: getattr(self, name) for name in ("files", "bytes", "trials", "findings", "judgments", "numbers")
            },
            "notes": list(self.notes),
            "differences": [each.to_json() for each in self.differences],
            "differences_unlisted": self.unlisted,
        }

    def differs(
        self, file: str, problem: str, stored: Any, recomputed: Any, *, line: int | None = None, at: str | None = None
    ) -> None:
        """Note that two values are not the same."""
        self.add(
            Difference(
                file=file,
                line=line,
                field=at,
                problem=problem,
                stored=stored,
                recomputed=recomputed,
                has_values=True,
            )
        )

    @contextmanager
    def noted(self, file: str, line: int | None = None) -> Iterator[None]:
        """An error inside becomes a difference; ``file`` and ``line`` are its place where it names none itself."""
        try:
            yield
        except CrbError as error:
            where = error.where or Where()
            problem = f"{error.problem}. {error.remedy}" if error.remedy else error.problem
            self.add(Difference(file=where.file or file, line=where.line or line, field=where.field, problem=problem))


def _plain(value: Any) -> Any:
    if value is ABSENT:
        return None
    return shown(value, _MAX_SHOWN) if isinstance(value, dict | list) else value


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, int | float) or value is ABSENT else shown(value)
