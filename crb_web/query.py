"""The whole state of a leaderboard page, as its query string says it."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, field_validator

from crb_core.dimensions import PullRequestFilter
from crb_core.strata import AXES, Subset
from crb_web.show import exact

__all__ = ["BoardQuery"]

#: Values of one axis in one request; vocabularies are shorter.
MAX_VALUES = 64


class BoardQuery(BaseModel):
    """Which leaderboard: the options of ``crb leaderboard``. An empty value is as good as none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sweep: str | None = Field(default=None, description="Name or id of the sweep; the newest by default.")
    judge: list[str] = Field(
        default_factory=list, max_length=MAX_VALUES, description="Judges by name or fingerprint; all by default."
    )
    severity: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    category: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    scope: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    difficulty: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    context_required: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    actionability: list[str] = Field(default_factory=list, max_length=MAX_VALUES)
    producer: list[str] = Field(
        default_factory=list, max_length=MAX_VALUES, description="Golden findings of these producers only."
    )
    exclude_producer: list[str] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Without golden findings of producers that begin with this.",
    )
    dimension: list[str] = Field(
        default_factory=list,
        max_length=MAX_VALUES,
        description="Pull requests with this only, as NAME=VALUE: language, size, change_type, domain, complexity, ...",
    )
    beta: float = Field(default=1.0, allow_inf_nan=False, description="Beta of F; below 1 favours precision.")
    basis: Literal["grounded", "augmented"] = Field(
        default="grounded", description="Which metrics the page and its pictures show; documents always hold both."
    )
    sort: str | None = Field(default=None, description="Macro metric that ranks the rows.")
    allow_partial: bool = Field(default=False, description="Also average incomplete rounds; such rows are not ranked.")
    profile: str | None = Field(default=None, description="golden-comments: strict, core, all, or none.")
    compatible: bool = Field(default=False, description="golden-comments: count as the public tool does.")
    no_dedup: bool = Field(default=False, description="golden-comments: count every candidate.")

    @field_validator("sweep", "sort", "profile", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("basis", mode="before")
    @classmethod
    def _empty_is_grounded(cls, value: Any) -> Any:
        return "grounded" if value == "" else value

    @field_validator("beta", mode="before")
    @classmethod
    def _empty_is_one(cls, value: Any) -> Any:
        return 1.0 if value == "" else value

    @field_validator("allow_partial", "compatible", "no_dedup", mode="before")
    @classmethod
    def _empty_is_no(cls, value: Any) -> Any:
        return False if value == "" else value

    @field_validator("judge", "exclude_producer", "dimension", *AXES, mode="after")
    @classmethod
    def _without_empty(cls, value: list[str]) -> list[str]:
        return list(dict.fromkeys(each for each in value if each))

    @property
    def subset(self) -> Subset:
        """The filters; InputError for a value that an axis does not have."""
        return Subset.parse(**{axis: getattr(self, axis) for axis in AXES})

    @property
    def inside(self) -> PullRequestFilter:
        """The pull requests inside; InputError for a dimension of another form."""
        return PullRequestFilter.parse(self.dimension)

    def encoded(self, **changes: Any) -> str:
        """The query string of this state with some fields changed; what is the default is left out."""
        return urlencode(self.pairs(**changes))

    def pairs(self, **changes: Any) -> list[tuple[str, str]]:
        """The same as names and values."""
        values = {name: getattr(self, name) for name in BoardQuery.model_fields} | changes
        pairs: list[tuple[str, str]] = []
        for name, value in values.items():
            if name in _DEFAULTS and value == _DEFAULTS[name]:
                continue
            each: Any
            for each in value if isinstance(value, list | tuple) else [value]:
                if each is not None:
                    text = exact(each) if isinstance(each, float) else str(each)
                    pairs.append((name, text.lower() if isinstance(each, bool) else text))
        return pairs


#: Made once: pydantic looks at a factory's signature every time.
_DEFAULTS = BoardQuery().model_dump()
