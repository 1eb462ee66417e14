"""What every importer of reviews gives: reviews with the judgments that came with them, and what is irregular.

An irregularity does not stop an import; it is reported with its place, and the file that holds it is kept as evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crb_core.agent import ModelRole, Outcome
from crb_core.errors import InputError, Where
from crb_core.finding import CandidateFinding
from crb_core.formats.checked import Problems
from crb_core.formats.strict_json import field_path
from crb_core.matching import Classification
from crb_core.usage import LARGEST_FIGURE

__all__ = [
    "AGENT_NAME",
    "ImportedCandidate",
    "ImportedJudgment",
    "ImportedPair",
    "ImportedReview",
    "ImportedReviews",
    "Irregularities",
    "Irregularity",
    "JsonFile",
    "check_agent",
    "kind_of",
    "require_keys",
    "shown",
]

#: What a reviewer or judge may be called: one line, 1 to 128 characters, no blanks at its ends.
AGENT_NAME = re.compile(r"(?=\S)[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]{1,128}(?<=\S)")
_MAX_SHOWN = 80


@dataclass(frozen=True, kw_only=True)
class Irregularity:
    """Something that an importer met, kept and did not repair. ``kind`` groups what is alike."""

    kind: str
    problem: str
    file: str
    field: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "problem": self.problem, "file": self.file, "field": self.field}


class Irregularities:
    """The irregularities of one import, in the order of reading."""

    def __init__(self) -> None:
        self.found: list[Irregularity] = []

    def add(self, kind: str, problem: str, *, file: Path | str, field: str | None = None) -> None:
        self.found.append(Irregularity(kind=kind, problem=problem, file=str(file), field=field))

    def unknown_fields(self, item: Mapping[str, Any], known: Iterable[str], *, file: Path | str, field: str) -> None:
        """Note the fields of an object that the format does not define; they stay in the kept record."""
        unknown = sorted(set(item) - set(known))
        if unknown:
            names = ", ".join(shown(name) for name in unknown)
            self.add("unknown field", f"fields that the format does not define: {names}", file=file, field=field)

    def counts(self) -> dict[str, int]:
        """How many there are of each kind, by name."""
        return dict(sorted(Counter(each.kind for each in self.found).items()))


@dataclass(frozen=True, kw_only=True)
class ImportedCandidate:
    """A candidate finding; ``source`` holds what the file says of it beyond the finding's own fields.

    ``is_comment``: it is a whole comment as its author wrote it, which may report several problems.
    """

    finding: CandidateFinding
    source: dict[str, Any] | None = None
    is_comment: bool = False


@dataclass(frozen=True, kw_only=True)
class ImportedPair:
    """One recorded match. ``probability`` (0 to 1) and ``reasoning`` where the judge recorded them."""

    candidate: int
    golden: int
    probability: float | None = None
    reasoning: str | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedJudgment:
    """What a recorded judge said of one review.

    ``description`` is everything known of the judge; its fingerprint is taken over it. ``document`` holds the record as
    it was imported and what it leaves open. ``problem`` says why the judgment cannot be scored.
    """

    judge: str
    description: dict[str, Any]
    classifies: bool = False
    pairs: tuple[ImportedPair, ...] = ()
    classifications: tuple[Classification, ...] = ()
    document: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedReview:
    """One review of one pull request by one agent.

    ``model_roles`` tell apart what the same agent's reviews went through (decision 0005). ``review_ms`` in
    milliseconds, ``duration_seconds`` the legacy value with retries; None where the source gives none.
    """

    agent: str
    pull_request: str
    candidates: tuple[ImportedCandidate, ...]
    judgments: tuple[ImportedJudgment, ...] = ()
    round: int = 1
    model_roles: tuple[ModelRole, ...] = ()
    outcome: Outcome = Outcome.SUCCEEDED
    detail: str | None = None
    review_ms: float | None = None
    duration_seconds: float | None = None
    usage: dict[str, Any] | None = None
    source: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ImportedReviews:
    """All reviews of one import. ``files`` were read; ``root`` is the folder that they are named from."""

    format: str
    reviews: tuple[ImportedReview, ...]
    root: Path
    files: tuple[Path, ...]
    irregularities: tuple[Irregularity, ...]


class JsonFile:
    """One JSON file while it is read: wrong values become located problems, and reading goes on.

    ``line`` (from 1) is the line that is read of a file with one value a line.
    """

    def __init__(self, path: Path, problems: Problems, irregularities: Irregularities) -> None:
        self.path = path
        self.problems = problems
        self.irregularities = irregularities
        self.line: int | None = None

    def load(self) -> Any:
        """The value, or None after noting why it cannot be read (then ``problems`` has grown)."""
        return self.problems.json(self.path)

    def wrong(self, problem: str, *parts: str | int, remedy: str | None = None) -> None:
        self.problems.add(problem, file=self.path, line=self.line, field=field_path(parts) or None, remedy=remedy)

    def odd(self, kind: str, problem: str, *parts: str | int) -> None:
        self.irregularities.add(kind, problem, file=self.path, field=self._place(parts) or None)

    def unknown(self, item: Mapping[str, Any], known: Iterable[str], *parts: str | int) -> None:
        self.irregularities.unknown_fields(item, known, file=self.path, field=self._place(parts))

    def _place(self, parts: Sequence[str | int]) -> str:
        """Like errors, which have a line of their own: ``line 3, field location.range``."""
        path = field_path(parts)
        if self.line is None:
            return path
        return f"line {self.line}, field {path}" if path else f"line {self.line}"

    def object(self, value: Any, *parts: str | int) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value
        self.wrong(f"this must be an object, not {kind_of(value)}", *parts)
        return None

    def array(self, value: Any, *parts: str | int) -> list[Any] | None:
        if isinstance(value, list):
            return value
        self.wrong(f"this must be an array, not {kind_of(value)}", *parts)
        return None

    def text(self, value: Any, *parts: str | int) -> str | None:
        """Text with at least one character that is no blank, and without NUL, which no store takes."""
        if not isinstance(value, str):
            self.wrong(f"this must be text, not {kind_of(value)}", *parts)
            return None
        if not value.strip():
            self.wrong("the text is blank", *parts)
            return None
        if "\0" in value:
            self.wrong("the text holds a NUL character", *parts)
            return None
        return value

    def integer(self, value: Any, *parts: str | int, low: int = 0, high: int = 2**31 - 1) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(f"this must be a whole number, not {kind_of(value)}", *parts)
            return None
        if not low <= value <= high:
            self.wrong(f"this number must be between {low} and {high}", *parts)
            return None
        return value

    def number(self, value: Any, *parts: str | int) -> float | None:
        """A number from 0 to ``LARGEST_FIGURE``."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(f"this must be a number, not {kind_of(value)}", *parts)
            return None
        if not 0 <= value <= LARGEST_FIGURE:
            self.wrong("this number must be at least 0 and not absurdly large", *parts)
            return None
        return float(value)

    def name(self, value: Any, *parts: str | int) -> str | None:
        """The name of an agent or a judge."""
        if isinstance(value, str) and AGENT_NAME.fullmatch(value):
            return value
        self.wrong(
            "this is no usable name",
            *parts,
            remedy="A name is one line of 1 to 128 characters without control characters or blanks at its ends",
        )
        return None


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "missing or null"
    for types, name in ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (list, "an array")):
        if isinstance(value, types):
            return name
    return "an object"


def shown(value: object, limit: int = _MAX_SHOWN) -> str:
    """A value from outside as it may stand in a sentence: quoted, escaped and cut."""
    text = ascii(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def check_agent(name: str | None) -> str | None:
    """An agent's name from the command line; InputError where it is no name."""
    if name is not None and not AGENT_NAME.fullmatch(name):
        raise InputError(
            f"{shown(name)} is no usable agent name",
            where=Where(field="agent"),
            remedy="A name is one line of 1 to 128 characters without control characters or blanks at its ends",
        )
    return name


def require_keys(keys: Sequence[str], key: str, where: Where) -> str:
    """``key`` if the corpus has it; InputError that names near ones otherwise."""
    import difflib

    if key in keys:
        return key
    near = difflib.get_close_matches(key, keys, n=1)
    raise InputError(
        f"the corpus has no pull request {shown(key)}",
        where=where,
        remedy=f"Did you mean {near[0]}" if near else "`crb corpus show NAME` lists its keys",
    )
