"""What an attempt left, without the values that its agent was given in confidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crb_core.scrub import Scrubber
from crb_worker.sandbox.contract import AttemptResult

__all__ = ["without_secrets"]


def without_secrets(result: AttemptResult, scrubber: Scrubber) -> AttemptResult:
    """The result as it may be stored, hashed and shown."""
    return replace(
        result,
        detail=scrubber.sentence(result.detail),
        findings=tuple(
            finding.model_copy(
                update={
                    "message": scrubber.text(finding.message),
                    "file": None if finding.file is None else scrubber.text(finding.file),
                    "producer": scrubber.text(finding.producer),
                }
            )
            for finding in result.findings
        ),
        usage=_usage(result.usage, scrubber),
        findings_bytes=None if result.findings_bytes is None else scrubber.json_data(result.findings_bytes),
        stdout=scrubber.data(result.stdout, is_cut=result.stdout_truncated),
        stderr=scrubber.data(result.stderr, is_cut=result.stderr_truncated),
        refused_hosts=None
        if result.refused_hosts is None
        else tuple(replace(refused, host=scrubber.sentence(refused.host)) for refused in result.refused_hosts),
    )


def _usage(usage: dict[str, Any] | None, scrubber: Scrubber) -> dict[str, Any] | None:
    """The usage with the names of its models scrubbed: they are all of it that is text."""
    if usage is None or "models" not in usage:
        return usage
    return usage | {"models": sorted({scrubber.text(name) for name in usage["models"]})}
