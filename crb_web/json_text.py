"""JSON as the API writes it."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_bytes"]


def json_bytes(content: Any) -> bytes:
    """JSON in UTF-8, without spaces. NaN is refused; half a surrogate pair is escaped, because UTF-8 has none."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
