"""The findings that the model reports: their shape, and what is wrong with those that break it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from contract import Finding, is_reportable
from repo_tools import RepositoryTools

__all__ = ["MAX_FINDINGS", "REPORT_TOOL", "check"]

MAX_FINDINGS = 30
MAX_MESSAGE = 4_000

REPORT_TOOL: dict[str, Any] = {
    "name": "report_findings",
    "description": (
        "Hand in the review and end it. One call with all findings, the gravest first; an empty list says that the "
        "change needs no remark."
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "findings": {
                "type": "array",
                "maxItems": MAX_FINDINGS,
                "items": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string", "description": "Path from the root of the repository, with /."},
                        "start_line": {"type": "integer", "description": "First line after the change, from 1."},
                        "end_line": {"type": "integer", "description": "Last line, inclusive."},
                        "message": {"type": "string", "description": "What is wrong, when, and what to do."},
                    },
                    "required": ["file", "start_line", "end_line", "message"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["findings"],
        "additionalProperties": False,
    },
}


def check(arguments: Any, tools: RepositoryTools, deleted: Collection[str]) -> tuple[list[Finding], list[str]]:
    """The findings that keep to the shape, in order, without repetitions, and a sentence for each that does not."""
    if not isinstance(arguments, dict) or not isinstance(arguments.get("findings"), list):
        return [], ["findings has to be a list"]
    good: list[Finding] = []
    problems = []
    for position, entry in enumerate(arguments["findings"]):
        found = _finding(entry, tools, deleted)
        if isinstance(found, str):
            problems.append(f"findings[{position}]: {found}")
        elif found not in good:
            good.append(found)
    if len(good) > MAX_FINDINGS:
        problems.append(f"there are {len(good)} findings, and {MAX_FINDINGS} are read: keep the ones that matter most")
    return good[:MAX_FINDINGS], problems


def _finding(entry: Any, tools: RepositoryTools, deleted: Collection[str]) -> Finding | str:
    if not isinstance(entry, dict):
        return "it has to be an object"
    file, start, end, message = (entry.get(key) for key in ("file", "start_line", "end_line", "message"))
    if not isinstance(file, str) or not isinstance(message, str) or type(start) is not int or type(end) is not int:
        return "file and message have to be text, start_line and end_line whole numbers"
    path = tools.normal(file)
    if not is_reportable(path):
        return f"{file[:200]!r} is not a plain path from the root of the repository"
    if not message.strip() or len(message) > MAX_MESSAGE:
        return f"the message is blank or longer than {MAX_MESSAGE} characters"
    if start < 1 or end < start:
        return "start_line counts from 1, and end_line is not before it"
    if path not in deleted:
        lines = tools.line_count(path)
        if lines is None:
            return f"there is no file {path[:200]!r} after the change"
        if end > max(lines, 1):
            return f"{path[:200]} has {lines} lines after the change"
    elif end > 2**31 - 1:
        return "no file has so many lines"
    return Finding(path, start, end, message.strip())
