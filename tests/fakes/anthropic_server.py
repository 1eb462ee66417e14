"""The server of the Messages API on loopback; it lives in the package, because the demo's fake model uses it too."""

from __future__ import annotations

from crb_worker.judge.loopback import (
    Answer,
    AnthropicServer,
    Cut,
    Fault,
    Raw,
    RecordedRequest,
    Reply,
    Scripted,
    text,
    tool_use,
)

__all__ = [
    "Answer",
    "AnthropicServer",
    "Cut",
    "Fault",
    "Raw",
    "RecordedRequest",
    "Reply",
    "Scripted",
    "text",
    "tool_use",
]
