"""Files of the golden-comments benchmark that commands extend: pull request to tool to value."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["Agents", "ByTool", "Force", "read_by_tool", "refuse_unknown_agents", "write_by_tool"]

#: Pull request to tool to what a file says of its review.
ByTool = dict[str, dict[str, Any]]

Agents = Annotated[list[str] | None, typer.Option("--agent", help="Only reviews by this tool (repeatable).")]
Force = Annotated[bool, typer.Option("--force", help="Also make anew what the file has; else that is kept.")]


def refuse_unknown_agents(wanted: Sequence[str] | None, known: Collection[str]) -> None:
    """InputError for a tool that has no review."""
    from crb_core.errors import InputError, Where

    for name in wanted or ():
        if name not in known:
            raise InputError(
                f"there is no review by {name[:80]!r}",
                where=Where(field="--agent"),
                remedy=f"Its tools are {', '.join(sorted(known))}",
            )


def read_by_tool(path: Path) -> ByTool:
    """What the file holds already; empty where there is none. InputError for one of another form."""
    from crb_core.errors import InputError, Where
    from crb_core.formats.strict_json import load_json

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=Where(file=str(path))) from None
    content = load_json(data, str(path))
    if not isinstance(content, dict) or not all(isinstance(tools, dict) for tools in content.values()):
        raise InputError(
            "the file does not map pull requests to tools", where=Where(file=str(path)), remedy="Name another --out"
        )
    return content


def write_by_tool(path: Path, content: ByTool) -> None:
    """Write the whole file or nothing."""
    from crb_core.errors import InputError, Where

    partly = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partly.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            partly.replace(path)
        finally:
            partly.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", where=Where(file=str(path))) from None
