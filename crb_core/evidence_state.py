"""Reading a blob for an audit: whatever is wrong with it is an answer, not an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from crb_core.errors import StoreError
from crb_core.evidence import ChangedEvidenceError, EvidenceStore

__all__ = ["BlobState", "ReadBlob", "read_blob"]

BlobState = Literal["present", "missing", "malformed", "digest differs", "unreadable"]
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class ReadBlob:
    """``data`` is None unless ``state`` is ``present``; ``detail`` says what is wrong."""

    state: BlobState
    data: bytes | None = None
    detail: str | None = None


def read_blob(evidence: EvidenceStore, digest: Any) -> ReadBlob:
    """Read and verify a blob. A digest that is none is ``malformed``; a store that does not answer, ``unreadable``."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return ReadBlob(state="malformed", detail=f"the recorded digest {digest!r} is no SHA-256 in lower-case hex")
    try:
        return ReadBlob(state="present", data=evidence.get(digest))
    except ChangedEvidenceError as error:
        return ReadBlob(state="digest differs", detail=error.problem)
    except (StoreError, OSError) as error:
        try:
            is_there = evidence.has(digest)
        except (StoreError, OSError):
            is_there = True
        # The folder's place is the operator's business.
        detail = None if not is_there else error.problem if isinstance(error, StoreError) else type(error).__name__
        return ReadBlob(state="unreadable" if is_there else "missing", detail=detail)
