"""A server on loopback that speaks the Messages and Batches API over real HTTP, and models for it that are no models.

Tests script it, cause faults with it and assert what was really sent; ``crb demo --judge claude --fake-model`` lets
``ReadingModel`` answer. Nothing here is a language model, and everything that it judged says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crb_worker.judge.client import LOOPBACK_KEY, LOOPBACK_MODEL
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
    "fake_model",
    "text",
    "tool_use",
]


@contextmanager
def fake_model() -> Iterator[dict[str, str]]:
    """Serve ``ReadingModel`` while the block runs; gives the variables with which the claude judge uses it.

    The judge's name is then ``claude-fake-model``, in every table.
    """
    with AnthropicServer(ReadingModel(), api_key=LOOPBACK_KEY) as server:
        yield {"CRB_JUDGE_MODEL": LOOPBACK_MODEL, "CRB_JUDGE_BASE_URL": server.base_url}
