"""``crb.judge-request/1``: a judge's request as evidence. Its long texts are blobs of their own, which it names."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["PART", "parts_of"]

#: Key of an object that stands for a long text: its value is the SHA-256 of the blob.
PART = "$sha256"
_MAX_DEPTH = 64
_DIGEST = re.compile(r"[0-9a-f]{64}")


def parts_of(data: bytes) -> frozenset[str]:
    """The digests of the blobs that a stored request names; empty for a blob that is no such request."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    _collect(document, found, 0)
    return frozenset(found)


def _collect(value: Any, found: set[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        if value.keys() == {PART} and isinstance(value[PART], str) and _DIGEST.fullmatch(value[PART]):
            found.add(value[PART])
            return
        for each in value.values():
            _collect(each, found, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _collect(each, found, depth + 1)
