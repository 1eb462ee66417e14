"""Why a judge left unmatched findings without a label, in a few words."""

from __future__ import annotations

__all__ = ["why_unlabelled"]


def why_unlabelled(*, classifies: bool, is_council: bool) -> str:
    """What follows "the judge": a council is tied where half of its votes say tp and half fp."""
    if not classifies:
        return "does not classify"
    return "has no majority on" if is_council else "has not labelled"
