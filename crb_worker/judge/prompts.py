"""The prompts of this installation, for judges; the files and their rules are ``crb_core.prompts``."""

from __future__ import annotations

from crb_core.prompts import (
    CLASSIFYING,
    EXTRACTING,
    JUDGING,
    MATCHING,
    Prompt,
    PromptSet,
    bundled_prompts,
    filled,
    read_prompt,
    read_prompts,
)

__all__ = [
    "CLASSIFYING",
    "EXTRACTING",
    "JUDGING",
    "MATCHING",
    "Prompt",
    "PromptSet",
    "bundled_prompts",
    "filled",
    "read_prompt",
    "read_prompts",
]
