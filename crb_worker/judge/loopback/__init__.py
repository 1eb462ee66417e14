"""A server on loopback that speaks the Messages and Batches API over real HTTP, and models for it that are no models.

Tests script it, cause faults with it and assert what was really sent; ``crb demo --judge claude --fake-model`` lets
``ReadingModel`` answer. Nothing here is a language model, and everything that it judged says so.
"""

from __future__ import annotations

from crb_worker.judge.loopback.model import ObedientModel, ReadingModel
from crb_worker.judge.loopback.server import AnthropicServer
from crb_worker.judge.loopback.wire import Answer, Cut, Fault, Raw, RecordedRequest, Reply, Scripted, text, tool_use

__all__ = [
    "Answer",
    "AnthropicServer",
    "Cut",
    "Fault",
    "ObedientModel",
    "Raw",
    "ReadingModel",
    "RecordedRequest",
    "Reply",
    "Scripted",
    "text",
    "tool_use",
]
