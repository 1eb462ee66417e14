"""Errors of requests, and the form in which the API says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from crb_core.errors import CrbError, StoreError

__all__ = ["NotFoundError", "as_json", "of_database", "of_validation", "status_of"]


class NotFoundError(CrbError):
    """A sweep, judge, pull request, trial or blob of that name does not exist."""


def status_of(error: CrbError) -> int:
    """404 for what is not there, 503 for a store that cannot be read, else 400."""
    if isinstance(error, NotFoundError):
        return 404
    return 503 if isinstance(error, StoreError) else 400


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
