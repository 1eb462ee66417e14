"""The prompts of a judge, with their texts where this installation still has those very texts (seed A 9)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from crb_core.bundled import bundled
from crb_core.formats.archive_records import PromptRecord

__all__ = ["prompts_of"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


def prompts_of(description: Any) -> tuple[tuple[PromptRecord, ...], dict[str, bytes]]:
    """The prompts that a judge's description names, by name, and their texts by path in the archive.

    A description holds ``{"prompts": {NAME: {"version", "sha256"}}}`` at any depth.
    """
    records, texts = [], {}
    for name, known in sorted(_named(description).items()):
        digest = known["sha256"]
        data = _text(name)
        path = f"prompts/{name}-{digest[:12]}.md"
        is_at_hand = data is not None and hashlib.sha256(data).hexdigest() == digest
        if data is not None and is_at_hand:
            texts[path] = data
        version = known.get("version")
        records.append(
            PromptRecord(
                name=name,
                version=version if isinstance(version, int) else None,
                sha256=digest,
                path=path if is_at_hand else None,
            )
        )
    return tuple(records), texts


def _named(value: Any) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name == "prompts" and isinstance(each, Mapping):
            for prompt, known in each.items():
                if isinstance(known, Mapping) and _DIGEST.fullmatch(str(known.get("sha256"))):
                    found.setdefault(str(prompt), known)
        else:
            for prompt, known in _named(each).items():
                found.setdefault(prompt, known)
    return found


def _text(name: str) -> bytes | None:
    file = bundled("prompts") / f"{name}.md"
    return file.read_bytes() if _NAME.fullmatch(name) and file.is_file() else None
