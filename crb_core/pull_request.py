"""A pull request as a frozen snapshot (seed A 3.2)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from crb_core.errors import InputError
from crb_core.finding import NonBlank, Record

__all__ = ["PullRequest", "PullRequestTraits", "Sha", "reviewbench_key"]

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_REPO = re.compile(r"^https://github\.com/([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9._-]+)$")


class PullRequestTraits(Record):
    """What a leaderboard can group pull requests by. Absent values were not recorded."""

    language: str | None = None
    change_type: str | None = None
    domain: str | None = None
    complexity: str | None = None
    lines_added: int | None = Field(default=None, ge=0)
    lines_removed: int | None = Field(default=None, ge=0)
    files_changed: int | None = Field(default=None, ge=0)
    repo_size_kb: int | None = Field(default=None, ge=0)


class PullRequest(Record):
    """What a reviewer is shown: repository, number, base and head commit, title and body.

    ``key`` names it inside its corpus and in every table. ``base`` and ``head`` are full commit ids; the diff under
    review is the three-dot diff ``base...head``. A corpus of the golden-comments protocol records no commits: both are
    null there, its reviews can be imported and judged, but nothing can be checked out. ``source`` holds what the corpus
    says of it beyond these fields; no reviewer is ever shown it.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    key: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    repo: str
    number: Annotated[int, Field(ge=1, le=2**31 - 1)]
    recorded_base: Sha | None = Field(alias="base")
    recorded_head: Sha | None = Field(alias="head")
    title: NonBlank
    body: str = ""
    traits: PullRequestTraits = PullRequestTraits()
    source: dict[str, Any] = Field(default_factory=dict)

    @field_validator("repo")
    @classmethod
    def _repo_is_a_github_url(cls, value: str) -> str:
        match = _REPO.match(value)
        if match is None or match[2] in {".", ".."}:
            raise ValueError(f"{value!r} is not of the form https://github.com/OWNER/NAME")
        return value

    @model_validator(mode="after")
    def _commits_are_both_known(self) -> PullRequest:
        if (self.recorded_base is None) != (self.recorded_head is None):
            raise ValueError("base and head are given together or not at all")
        return self

    @property
    def has_commits(self) -> bool:
        """Whether base and head are known, so that a snapshot can be made."""
        return self.recorded_head is not None

    @property
    def base(self) -> str:
        """The full id of the base commit; InputError where the corpus does not record it."""
        return self._commit(self.recorded_base)

    @property
    def head(self) -> str:
        """The full id of the reviewed commit; InputError where the corpus does not record it."""
        return self._commit(self.recorded_head)

    def _commit(self, recorded: str | None) -> str:
        if recorded is None:
            raise InputError(
                f"the corpus records no commits of pull request {self.key}, so it cannot be checked out",
                remedy="Import reviews of it with `crb sweep import`, or use a corpus with base and head",
            )
        return recorded

    @property
    def nwo(self) -> str:
        """``owner/name``."""
        return self.repo.removeprefix("https://github.com/")

    @property
    def owner(self) -> str:
        return self.nwo.split("/")[0]

    @property
    def name(self) -> str:
        return self.nwo.split("/")[1]


def reviewbench_key(repo: str, number: int, head: str) -> str:
    """ReviewBench's key: ``owner_name_number-head8``."""
    return f"{repo.removeprefix('https://github.com/').replace('/', '_', 1)}_{number}-{head[:8]}"
