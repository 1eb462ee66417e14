"""Which judges a store holds and which are stale: ``crb_core.store.judge_versions``."""

from __future__ import annotations

from crb_core.store.judge_versions import (
    JudgedAmount,
    JudgeVersion,
    PromptVersion,
    judge_versions,
    stale_prompts,
    sweep_judgments,
)

__all__ = ["JudgeVersion", "JudgedAmount", "PromptVersion", "judge_versions", "stale_prompts", "sweep_judgments"]
