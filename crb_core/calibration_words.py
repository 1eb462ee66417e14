"""A judge's calibration in a few words, as it stands beside its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["calibration_words", "trust_words"]


def calibration_words(calibration: Mapping[str, Any] | None) -> str:
    """``uncalibrated``, or the range of kappa with each reference judge, and of the labels' where it classifies."""
    if calibration is None:
        return "uncalibrated"
    parts = []
    matching = [each["kappa"] for each in calibration["judges"].values()]
    if matching:
        parts.append(f"matching kappa {_range(matching)}")
    if calibration["classifier"] is not None:
        labels = [axes["tp_fp"]["kappa"] for axes in calibration["classifier"].values() if "tp_fp" in axes]
        if labels:
            parts.append(f"tp/fp kappa {_range(labels)}")
    figures = ", ".join(parts) or "no kappa"
    return f"calibrated against {calibration['reference']}: {figures}"


def _range(values: list[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return "undefined"
    low, high = f"{known[0]:.2f}", f"{known[-1]:.2f}"
    return low if low == high else f"{low} to {high}"


def trust_words(calibration: Mapping[str, Any] | None, stale: Sequence[str]) -> str:
    """``calibration_words``, and of a judge whose prompts were changed after it judged, which these are."""
    words = calibration_words(calibration)
    return f"{words}, stale: {', '.join(stale)}" if stale else words
