"""The prompts: versioned text files, read once, with their SHA-256 (seed A 5.3, A 9)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from crb_core.bundled import bundled
from crb_core.errors import InputError, Where

__all__ = [
    "CLASSIFYING",
    "EXTRACTING",
    "INFERRING",
    "JUDGING",
    "MATCHING",
    "Prompt",
    "PromptSet",
    "bundled_prompts",
    "filled",
    "read_prompt",
    "read_prompts",
]

_PLACE = re.compile(r"\{\{([a-z_]+)\}\}")
_FIELDS = ("name", "version", "purpose")
#: The files that each of the judge's two tasks uses.
MATCHING = ("matcher", "data-rule", "matcher-request", "repair")
CLASSIFYING = ("classifier", "data-rule", "guidelines", "pull-request", "classifier-request", "repair", "last-turn")
#: The judge's: they are its fingerprint.
JUDGING = tuple(dict.fromkeys(MATCHING + CLASSIFYING))
#: Those that split a review's general comments into findings.
EXTRACTING = ("extractor", "data-rule", "extractor-request", "repair")
#: Those that infer findings from commits after a review.
INFERRING = ("actions", "data-rule", "actions-request", "repair")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt file: its header and its text. ``sha256`` covers the file's bytes, header included."""

    name: str
    version: int
    purpose: str
    text: str
    sha256: str

    def describe(self) -> dict[str, object]:
        """Version and digest, as they enter a judge's fingerprint."""
        return {"version": self.version, "sha256": self.sha256}


@dataclass(frozen=True)
class PromptSet:
    """The prompts of one folder, by name."""

    by_name: Mapping[str, Prompt]

    def __getitem__(self, name: str) -> Prompt:
        return self.by_name[name]

    @property
    def matcher_system(self) -> str:
        """The matcher's system text."""
        return f"{self['matcher'].text}\n{self['data-rule'].text}"

    @property
    def extractor_system(self) -> str:
        """The system text of the splitting of comments."""
        return f"{self['extractor'].text}\n{self['data-rule'].text}"

    @property
    def actions_system(self) -> str:
        """The system text of the inference from commits."""
        return f"{self['actions'].text}\n{self['data-rule'].text}"

    @property
    def classifier_system(self) -> str:
        """The classifier's system text, with the guidelines."""
        return f"{self['classifier'].text}\n{self['data-rule'].text}\n{self['guidelines'].text}"


def read_prompt(path: Path) -> Prompt:
    """A prompt file: a header between two lines of three dashes (name, version, purpose), then the text.

    Raises InputError for an unreadable file, a header that lacks a field or has another, a version that is no positive
    integer, a name that is not the file's, and an empty text.
    """
    try:
        data = path.read_bytes()
        content = data.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"the prompt cannot be read: {reason}", where=Where(file=str(path))) from None
    parts = content.split("---\n", 2)
    if len(parts) != 3 or parts[0]:
        raise InputError(
            "the prompt has no header",
            where=Where(file=str(path), line=1),
            remedy=f"Begin with a line ---, then {', '.join(_FIELDS)}, then a line ---",
        )
    header: dict[str, str] = {}
    for number, line in enumerate(parts[1].splitlines(), start=2):
        field, colon, value = line.partition(":")
        if not colon or field not in _FIELDS or field in header or not value.strip():
            raise InputError(
                f"the header line {line[:80]!r} is not one of {', '.join(_FIELDS)} with a value",
                where=Where(file=str(path), line=number),
            )
        header[field] = value.strip()
    for field in _FIELDS:
        if field not in header:
            raise InputError(f"the prompt's header has no {field}", where=Where(file=str(path), field=field))
    if not re.fullmatch(r"[1-9][0-9]{0,8}", header["version"]):
        raise InputError("the version is not a positive integer", where=Where(file=str(path), field="version"))
    if header["name"] != path.stem:
        raise InputError(
            f"the prompt is named {header['name']!r}, its file {path.name}", where=Where(file=str(path), field="name")
        )
    text = parts[2].strip("\n")
    if not text.strip():
        raise InputError("the prompt has no text", where=Where(file=str(path)))
    return Prompt(
        name=header["name"],
        version=int(header["version"]),
        purpose=header["purpose"],
        text=text + "\n",
        sha256=hashlib.sha256(data).hexdigest(),
    )


def read_prompts(folder: Path, names: Sequence[str] = JUDGING) -> PromptSet:
    """The prompts of the judge, or of another task; InputError names the one that is missing or wrong."""
    return PromptSet({name: read_prompt(folder / f"{name}.md") for name in names})


@cache
def bundled_prompts(names: tuple[str, ...] = JUDGING) -> PromptSet:
    """The prompts of this installation, by default the judge's."""
    return read_prompts(bundled("prompts"), names)


def filled(prompt: Prompt, **values: str) -> str:
    """The text with every ``{{name}}`` replaced, once: a value that holds such a place is not filled in again."""
    return _PLACE.sub(lambda match: values[match[1]], prompt.text)
