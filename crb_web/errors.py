"""Errors of requests, and the form in which the API says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from crb_core.errors import CrbError, StoreError, UnavailableError

__all__ = ["NotFoundError", "RefusedError", "as_json", "of_database", "of_validation", "status_of"]


class NotFoundError(CrbError):
    """A sweep, judge, pull request, trial or blob of that name does not exist."""


class RefusedError(CrbError):
    """The caller may not do this: 401 not known, 403 known but not allowed, 429 too many wrong tokens."""

    def __init__(self, status: int, problem: str, *, remedy: str | None = None, wait: float = 0.0) -> None:
        super().__init__(problem, remedy=remedy)
        self.status = status
        self.wait = wait


def status_of(error: CrbError) -> int:
    """404 for what is not there, 503 for a store that cannot be read and what is busy, a refusal's own, else 400."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, RefusedError):
        return error.status
    return 503 if isinstance(error, StoreError | UnavailableError) else 400


def as_json(error: CrbError, status: int) -> dict[str, Any]:
    """``{"error": {"status", "problem", "field", "remedy"}}``; what is not known is null."""
    return {
        "error": {
            "status": status,
            "problem": error.problem,
            "field": error.where.field if error.where else None,
            "remedy": error.remedy,
        }
    }


def of_validation(errors: Sequence[Any]) -> CrbError:
    """A request's first invalid parameter as a sentence."""
    from crb_core.errors import InputError, Where

    first = errors[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "request"
    if first["type"] == "extra_forbidden":
        return InputError(
            f"There is no parameter {place}",
            where=Where(field=place),
            remedy="The parameters are in /api/v1/openapi.json",
        )
    return InputError(
        f"The parameter {place} is wrong: {first['msg'].removeprefix('Value error, ')}", where=Where(field=place)
    )


def of_database(error: SQLAlchemyError) -> StoreError:
    """What a database library raised, without its statement."""
    cause = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0]
    return StoreError(f"The store cannot be read: {cause}", remedy="Check CRB_HOME or CRB_STORE_URL with `crb doctor`")
