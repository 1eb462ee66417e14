"""A corpus: a named, fingerprinted set of pull requests with their golden sets."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from crb_core.finding import GoldenFinding, NonBlank, Record
from crb_core.pull_request import PullRequest

__all__ = ["Corpus", "CorpusEntry", "Producer", "ReferenceJudgment", "canonical_json", "fingerprint"]

CorpusName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces, UTF-8 text and no NaN: the one form that is hashed."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Any) -> str:
    """SHA-256 (hex) of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


class Producer(Record):
    """Who or what proposed golden findings, with version and configuration (seed A 9, item 2)."""

    name: NonBlank
    version: NonBlank
    configuration: dict[str, str] = Field(default_factory=dict)
    note: str = ""


class CorpusEntry(Record):
    """A pull request with its golden findings in golden-set order (the order decides claims)."""

    pull_request: PullRequest
    golden: tuple[GoldenFinding, ...]

    @property
    def answer_key_fingerprint(self) -> str:
        """SHA-256 over the golden findings with their labels, in order."""
        return fingerprint([finding.model_dump(mode="json", exclude_none=True) for finding in self.golden])


class Corpus(Record):
    """``source`` says where the repositories come from: ``showcase`` text, a ``mirror`` or a ``git`` URL template.

    A template may use ``{owner}``, ``{repo}`` and ``{number}``.
    """

    name: CorpusName
    version: NonBlank
    title: NonBlank
    description: str = ""
    protocol: str = "reviewbench"
    source: Literal["showcase", "mirror", "git", "none"]
    source_template: str | None = None
    producers: tuple[Producer, ...] = ()
    subsets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    entries: tuple[CorpusEntry, ...]

    @model_validator(mode="after")
    def _keys_are_unique_and_known(self) -> Corpus:
        keys = Counter(entry.pull_request.key for entry in self.entries)
        for key, count in keys.items():
            if count > 1:
                raise ValueError(f"pull request {key} is listed twice")
        for subset, members in self.subsets.items():
            for key in members:
                if key not in keys:
                    raise ValueError(f"subset {subset} names {key}, which is not in the corpus")
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything that decides a number: pull requests and golden sets, in order."""
        return fingerprint(
            [
                [entry.pull_request.model_dump(mode="json", exclude={"traits", "source"}), entry.answer_key_fingerprint]
                for entry in self.entries
            ]
        )

    def entry(self, key: str) -> CorpusEntry:
        """The entry of a pull request key; KeyError if the corpus has none."""
        for entry in self.entries:
            if entry.pull_request.key == key:
                return entry
        raise KeyError(key)


class ReferenceJudgment(Record):
    """What a person says of one recorded finding: the golden ids it truly matches, and its label on its own."""

    finding: str
    matches: tuple[str, ...]
    label: dict[str, Any]
