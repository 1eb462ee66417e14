"""Lengths of time for people."""

from __future__ import annotations

__all__ = ["time_text"]


def time_text(seconds: float) -> str:
    """``40 s``, ``4 min 05 s``, ``25 min``, ``2 h 10 min``, ``3 d 4 h``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if 600 <= whole < 3600:
        return f"{whole / 60:.0f} min"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
