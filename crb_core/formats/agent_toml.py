"""Agent manifests: ``agent.toml`` and the public ReviewBench agent manifest (facts A6).

Both are read strictly: no value is converted, no unknown field is passed over, and every error names file, field and,
where the text shows it, the line.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from crb_core.agent import AgentManifest
from crb_core.errors import InputError, Where
from crb_core.formats.strict_json import field_path, load_json

__all__ = [
    "MANIFEST_NAME",
    "MAX_MANIFEST_BYTES",
    "REVIEWBENCH_FIELDS",
    "load_agent_toml",
    "load_manifest",
    "load_reviewbench_agent",
    "parse_agent_toml",
    "parse_reviewbench_agent",
]

MANIFEST_NAME = "agent.toml"
MAX_MANIFEST_BYTES = 256 * 1024

#: The fields of the public manifest; it knows none of crb's own.
REVIEWBENCH_FIELDS = (
    "name",
    "display_name",
    "provider",
    "image",
    "image_visibility",
    "configuration",
    "secrets",
    "egress",
    "model_api_url",
    "pr_timeout_seconds",
    "contacts",
    "notes",
)
_REVIEWBENCH_REQUIRED = ("name", "display_name", "image", "contacts")
_REVIEWBENCH_IMAGE = re.compile(r"ghcr\.io/[a-z0-9][a-z0-9._/-]*@sha256:[0-9a-f]{64}")

#: What pydantic calls a wrong type, and what a person who edits the file calls the right one.
_TYPES = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list in square brackets",
    "model_type": "a table",
    "model_attributes_type": "a table",
}

_TOML_PLACE = re.compile(r" ?\(at line (\d+), column (\d+)\)$")
_TABLE = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_.\"' -]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*(?:"([^"\\]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*[.=]""")


def load_manifest(path: Path) -> AgentManifest:
    """The manifest in ``path``: an agent's folder, its ``agent.toml``, or a ReviewBench manifest (``.json``).

    Raises InputError.
    """
    if path.suffix == ".json" and not path.is_dir():
        return load_reviewbench_agent(path)
    return load_agent_toml(path)


def load_agent_toml(path: Path) -> AgentManifest:
    """The manifest of an agent's folder or of an ``agent.toml``. Raises InputError."""
    file = path / MANIFEST_NAME if path.is_dir() else path
    return parse_agent_toml(_read(file), str(file))


def load_reviewbench_agent(path: Path) -> AgentManifest:
    """The manifest in a file of the public ReviewBench schema (facts A6). Raises InputError."""
    return parse_reviewbench_agent(_read(path), str(path))


def parse_agent_toml(data: bytes, name: str = MANIFEST_NAME) -> AgentManifest:
    """An ``agent.toml``'s bytes as a manifest; ``name`` is what errors call the file. Raises InputError."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise InputError(
            "the file starts with a byte-order mark",
            where=Where(file=name, line=1, column=1),
            remedy="Save it as UTF-8 without one",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"the file is not UTF-8: byte 0x{data[error.start]:02x} cannot be read",
            where=Where(file=name, line=data.count(b"\n", 0, error.start) + 1),
            remedy="Save it as UTF-8",
        ) from None
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _toml_syntax(str(error), text, name) from None
    except (RecursionError, ValueError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"the file is not valid TOML: {reason}", where=Where(file=name)) from None
    return _validate(fields, name, text)


def parse_reviewbench_agent(data: bytes, name: str = "manifest.json") -> AgentManifest:
    """A ReviewBench manifest's bytes; also its own demands that a local agent need not meet. Raises InputError.

    These are: image (pinned by digest on ghcr.io) and contacts are given, and so is a model API or an egress host.
    """
    fields = load_json(data, name, max_bytes=MAX_MANIFEST_BYTES, max_depth=8)
    if not isinstance(fields, dict):
        raise InputError(
            "the manifest is not an object", where=Where(file=name, line=1), remedy="Write one {...} with its fields"
        )
    text = data.decode("utf-8")
    for key in fields:
        if key not in REVIEWBENCH_FIELDS:
            raise _unknown(key, REVIEWBENCH_FIELDS, (key,), name, _json_line(text, key))
    for key in _REVIEWBENCH_REQUIRED:
        if key not in fields:
            raise InputError(f"{key} is missing", where=Where(file=name, field=key), remedy=f"Add {key}")
    manifest = _validate(fields, name, text, is_json=True)
    if not _REVIEWBENCH_IMAGE.fullmatch(manifest.image or ""):
        raise InputError(
            "the image is not pinned by digest on ghcr.io",
            where=Where(file=name, line=_json_line(text, "image"), field="image"),
            remedy="Write ghcr.io/OWNER/NAME@sha256:<64 hex digits>, or use an agent.toml for a local image",
        )
    if not manifest.contacts:
        raise InputError(
            "no contact is given",
            where=Where(file=name, line=_json_line(text, "contacts"), field="contacts"),
            remedy="Name 1 to 8 GitHub users",
        )
    if not manifest.egress and not manifest.model_api_url:
        raise InputError(
            "neither model_api_url nor an egress host is given",
            where=Where(file=name),
            remedy="Add the host that the agent talks to",
        )
    return manifest


def _read(file: Path) -> bytes:
    try:
        if file.exists() and not file.is_file():
            raise InputError("this is not a regular file", where=Where(file=str(file)), remedy="Name a manifest file")
        with file.open("rb") as stream:
            data = stream.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(
            "the agent manifest does not exist",
            where=Where(file=str(file)),
            remedy=f"Check the path; an agent is a folder with an {MANIFEST_NAME}",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the agent manifest cannot be read: {reason}", where=Where(file=str(file))) from None
    if len(data) > MAX_MANIFEST_BYTES:
        raise InputError(
            f"the agent manifest is larger than {MAX_MANIFEST_BYTES} bytes",
            where=Where(file=str(file)),
            remedy="Shorten it",
        )
    return data


def _validate(fields: dict[str, Any], name: str, text: str, *, is_json: bool = False) -> AgentManifest:
    def line_of(path: Sequence[str | int]) -> int | None:
        return (_json_line(text, str(path[0])) if path else None) if is_json else _toml_line(text, path)

    _refuse_what_json_lacks(fields, (), name, line_of)
    try:
        # JSON mode is the strict mode in which a list is a tuple and a string an enum member.
        return AgentManifest.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=True, include_input=False)
    # An unknown field is often a misspelt one, whose right name is then reported as missing.
    problem = next((entry for entry in problems if entry["type"] == "extra_forbidden"), problems[0])
    path = problem["loc"]
    if problem["type"] == "extra_forbidden":
        raise _unknown(str(path[-1]), _known_fields(path), path, name, line_of(path))
    found = InputError(
        _sentence(problem, fields),
        where=Where(file=name, line=line_of(path), field=field_path(path) or None),
        remedy="Add it" if problem["type"] == "missing" else None,
    )
    if len(problems) > 1:
        found.remedy = f"{found.remedy + ' ' if found.remedy else ''}There are {len(problems) - 1} more problems"
    raise found from None


def _refuse_what_json_lacks(value: Any, path: tuple[str | int, ...], name: str, line_of: Any) -> None:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            _refuse_what_json_lacks(child, (*path, key), name, line_of)
        return
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if is_infinite or not isinstance(value, str | int | float | bool | None):
        what = "not a finite number" if is_infinite else "a date or a time, which no field takes"
        raise InputError(
            f"the value is {what}",
            where=Where(file=name, line=line_of(path), field=field_path(path)),
            remedy="Put text in quotes",
        )


def _sentence(problem: ErrorDetails, fields: dict[str, Any]) -> str:
    kind = problem["type"]
    if kind == "missing":
        return f"{problem['loc'][-1]} is missing"
    value: Any = fields
    for part in problem["loc"]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
    shown = json.dumps(value, ensure_ascii=True)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    if kind in _TYPES:
        return f"the value {shown} is not {_TYPES[kind]}"
    if kind == "string_pattern_mismatch":
        return f"the value {shown} does not match {problem['ctx']['pattern']}"
    if kind == "literal_error":
        return f"the value {shown} is not one of {problem['ctx']['expected']}"
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return message
    return f"the value {shown} is refused: {message[:1].lower()}{message[1:]}"


def _unknown(key: str, known: Sequence[str], path: Sequence[str | int], name: str, line: int | None) -> InputError:
    close = difflib.get_close_matches(key, known, n=1)
    shown = field_path((key,))
    return InputError(
        f"{shown} is not a field of an agent manifest",
        where=Where(file=name, line=line, field=field_path(path)),
        remedy=f"Did you mean {close[0]}?" if close else f"The fields here are {', '.join(known)}",
    )


def _known_fields(path: Sequence[str | int]) -> tuple[str, ...]:
    """The fields of the record that holds the last part of ``path``."""
    schema = AgentManifest.model_json_schema()
    here: dict[str, Any] = schema
    for part in path[:-1]:
        here = here["items"] if isinstance(part, int) else here["properties"][part]
        here = next((option for option in here.get("anyOf", ()) if "$ref" in option or "items" in option), here)
        if "items" in here and "$ref" in here["items"]:
            continue
        if "$ref" in here:
            here = schema["$defs"][here["$ref"].rsplit("/", 1)[1]]
    return tuple(here.get("properties", ()))


def _toml_syntax(message: str, text: str, name: str) -> InputError:
    place = _TOML_PLACE.search(message)
    reason = _TOML_PLACE.sub("", message).removesuffix(" (at end of document)")
    line, column = (int(place[1]), int(place[2])) if place else (len(text.splitlines()) or 1, None)
    return InputError(
        f"the file is not valid TOML: {reason[:1].lower()}{reason[1:]}",
        where=Where(file=name, line=line, column=column),
        remedy="Correct the file at this place",
    )


def _toml_line(text: str, path: Sequence[str | int]) -> int | None:
    """The line of a field, found by its table header and its key; the enclosing table's where it has none."""
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), start=1):
        header = _TABLE.match(line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header[2].split("."))
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            here = table
        else:
            key = _KEY.match(line)
            if not key:
                continue
            here = (*table, key[1] or key[2] or key[3] or "")
        if len(here) > best[0] and tuple(path[: len(here)]) == here:
            best = (len(here), number)
    return best[1]


def _json_line(text: str, key: str) -> int | None:
    """The line of the first top-level-looking ``"key":``; None where it cannot be told."""
    place = re.search(r"^[ \t{]*" + re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text, re.MULTILINE)
    return text.count("\n", 0, place.start()) + 1 if place else None
