"""What an address may hold: parameters that its page knows, and one value where it takes one.

A misspelt or doubled filter would otherwise show other numbers than were asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args, get_origin

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from crb_core.errors import InputError, Where

__all__ = ["check_parameters"]


async def check_parameters(request: Request) -> None:
    """InputError for a parameter that the route does not have, or that is given twice where it takes one value."""
    route = request.scope.get("route")
    if not request.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known = _known(route)
    for name in dict.fromkeys(name for name, _ in request.query_params.multi_items()):
        if name not in known:
            raise InputError(
                f"There is no parameter {name}",
                where=Where(field=name),
                remedy="The parameters are in /api/v1/openapi.json",
            )
        count = len(request.query_params.getlist(name))
        if count > 1 and not known[name]:
            raise InputError(
                f"The parameter {name} is given {count} times", where=Where(field=name), remedy="Give it once"
            )


def _known(route: APIRoute) -> dict[str, bool]:
    """By name of a parameter whether it may be given several times."""
    found: dict[str, bool] = {}
    for field in route.dependant.query_params:
        kind: Any = field.field_info.annotation
        found |= _of_model(kind) if _is_model(kind) else {field.alias: _is_list(kind)}
    return found


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


@cache
def _of_model(model: type[BaseModel]) -> dict[str, bool]:
    return {each.alias or name: _is_list(each.annotation) for name, each in model.model_fields.items()}


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) is list or any(get_origin(each) is list for each in get_args(kind))
