"""Time as it is stored: UTC, ISO 8601 with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["utc_now"]


def utc_now() -> str:
    """The present moment, for example ``2026-01-05T09:00:00.123Z``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
