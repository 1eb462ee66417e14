"""Bytes from outside as an answer that no browser runs: text where they are text, else a download."""

from __future__ import annotations

from fastapi.responses import Response

__all__ = ["inert"]


def inert(data: bytes, name: str, *, cache: str = "no-store") -> Response:
    """``data`` as plain text where it is UTF-8 without control characters, else to be downloaded as ``name``.

    In a sandbox either way. ``name`` is of our own making.
    """
    shown = _is_text(data)
    return Response(
        data,
        media_type="text/plain; charset=utf-8" if shown else "application/octet-stream",
        headers={
            "content-disposition": "inline" if shown else f'attachment; filename="{name}"',
            "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
            "cache-control": cache,
        },
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(byte < 32 and byte not in b"\t\n\r" for byte in data)
