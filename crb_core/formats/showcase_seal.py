"""What sealing a text corpus writes: commit ids, traits, provenance, content ids. Text in, text out."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from crb_core.errors import InputError, Where
from crb_core.finding import LABEL_AXES
from crb_core.formats.recordings import Reference

__all__ = ["BY_HAND", "json_text", "sealed_golden", "sealed_reference", "sealed_settings"]

SEALED_FIELDS = ("base", "head", "lines_added", "lines_removed", "files_changed")
#: Producers whose findings were labelled while writing the corpus, by hand.
BY_HAND = ("authors:", "human:", "tool:")
_ASSIGNMENT = re.compile(rf"^({'|'.join(SEALED_FIELDS)})\s*=")


def sealed_settings(text: str, values: dict[str, str | int], path: Path) -> str:
    """``pull_request.toml`` with the sealed fields set, all else (comments too) left as it is."""
    kept: list[str] = []
    quotes = ""
    for line in text.splitlines(keepends=True):
        if not quotes and _ASSIGNMENT.match(line):
            continue
        kept.append(line)
        for token in re.findall(r'"""|\'\'\'', line):
            quotes = "" if token == quotes else quotes or token
    block = "".join(f"{name} = {json.dumps(values[name])}\n" for name in SEALED_FIELDS)
    result = "".join(kept).rstrip("\n") + "\n" + block
    before = {name: value for name, value in tomllib.loads(text).items() if name not in SEALED_FIELDS}
    try:
        intact = tomllib.loads(result) == before | values
    except tomllib.TOMLDecodeError:
        intact = False
    if not intact:
        raise InputError(
            "the file is laid out in a way that sealing cannot extend",
            where=Where(file=str(path)),
            remedy=f"Set {', '.join(SEALED_FIELDS)} by hand",
        )
    return result


def sealed_golden(raw: dict[str, Any]) -> dict[str, Any]:
    """``golden.json`` with provenance ``human`` where an axis labelled by hand has none."""
    return {"findings": [_with_provenance(finding) for finding in raw["findings"]]}


def sealed_reference(raw: dict[str, Any], reference: Reference) -> dict[str, Any]:
    """A reference file with content ids for positions."""
    judgments = [
        {"finding": judgment.finding, "matches": list(judgment.matches), "label": judgment.label}
        for judgment in reference.judgments
    ]
    return raw | {"judgments": judgments}


def json_text(value: Any) -> str:
    """JSON as the corpus keeps it: two blanks of indent, UTF-8 text, a final newline."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _with_provenance(finding: dict[str, Any]) -> dict[str, Any]:
    if not str(finding["producer"]).startswith(BY_HAND):
        return finding
    stated = finding.get("provenance", {})
    axes = {axis: stated.get(axis, "human") for axis in LABEL_AXES if finding.get(axis) is not None}
    return {name: value for name, value in finding.items() if name != "provenance"} | {"provenance": axes}
