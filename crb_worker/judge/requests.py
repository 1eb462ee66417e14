"""One request to a judge's model, its hash, and the stored form of request and answer.

The hash covers what is asked (prompts, model, parameters, findings in their own order), before ids and order are
chosen. So the same question has the same hash in every judgment, and a stored answer can be replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from crb_core.corpus import canonical_json, fingerprint
from crb_core.errors import StoreError
from crb_core.formats.judge_request import PART
from crb_worker.judge.prices import TokenUsage

__all__ = [
    "ModelAnswer",
    "ModelRequest",
    "folded",
    "reported_charge",
    "reported_name",
    "reported_usage",
    "stored_answer",
    "unfolded",
]

#: Texts longer than this are kept as blobs of their own, so that equal prefixes of many requests are stored once.
_FOLD_CHARACTERS = 1500
_MAX_DEPTH = 64
#: Kinds of blocks, beside texts, with which a model's turn is shown to it again.
_REPEATED = ("thinking", "redacted_thinking")
#: Longest name that is kept of an answer, and the highest charge for one call that can be meant, in USD.
_MAX_NAME, _MAX_CHARGE = 200, 1e6


@dataclass(frozen=True)
class ModelRequest:
    """``content`` is what the hash covers; ``body`` is sent as it stands; ``ids`` says which finding each id means.

    ``label`` names the request for people: stage, file, positions. ``read`` is what the session has read so far.
    """

    stage: str
    label: str
    content: Mapping[str, Any]
    body: Mapping[str, Any]
    ids: Mapping[str, str]
    read: Sequence[Mapping[str, Any]] = field(default=())

    @cached_property
    def request_hash(self) -> str:
        """SHA-256 (hex) of the content's canonical JSON."""
        return fingerprint(self.content)

    @property
    def model(self) -> str:
        model: str = self.body["model"]
        return model

    @property
    def max_tokens(self) -> int:
        value: int = self.body["max_tokens"]
        return value

    @cached_property
    def size(self) -> int:
        """Bytes of the body as JSON."""
        return len(json.dumps(self.body, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    def stored(self, put: Callable[[bytes], str]) -> bytes:
        """The request as evidence; long texts become blobs of their own."""
        document = {
            "format": "crb.judge-request/1",
            "request_hash": self.request_hash,
            "label": self.label,
            "content": folded(self.content, put),
            "ids": self.ids,
            "body": folded(self.body, put),
        }
        return canonical_json(document).encode()


@dataclass(frozen=True)
class ModelAnswer:
    """An answer with the ids of the request that it answers. ``call_id`` is its row, None for a replayed one."""

    request_hash: str
    message: Mapping[str, Any]
    ids: Mapping[str, str]
    call_id: int | None = None

    @property
    def stop_reason(self) -> str | None:
        value = self.message.get("stop_reason")
        return value if isinstance(value, str) else None

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content blocks."""
        content = self.message.get("content")
        return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        texts = [block.get("text") for block in self.blocks if block.get("type") == "text"]
        return "".join(text for text in texts if isinstance(text, str))

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The blocks with which the model calls a tool."""
        return [block for block in self.blocks if block.get("type") == "tool_use"]

    def said_again(self, *, with_tools: bool) -> list[dict[str, Any]]:
        """The blocks as a conversation may go on with them: no blank text, no unknown kind, which a service refuses.

        Without tools also no call of one, since a call has to be answered by its result.
        """

        def fits(block: Mapping[str, Any]) -> bool:
            if block.get("type") == "text":
                return isinstance(block.get("text"), str) and bool(block["text"].strip())
            return block.get("type") in _REPEATED or (with_tools and block.get("type") == "tool_use")

        return [block for block in self.blocks if fits(block)]

    @property
    def usage(self) -> TokenUsage:
        return reported_usage(self.message)


def reported_usage(message: Mapping[str, Any]) -> TokenUsage:
    """What an answer says it used. What is absent, or no count, stays None."""
    raw = message.get("usage")
    usage = raw if isinstance(raw, dict) else {}

    def count(name: str) -> int | None:
        value = usage.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None

    return TokenUsage(
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cache_read_tokens=count("cache_read_input_tokens"),
        cache_write_tokens=count("cache_creation_input_tokens"),
        service_tier=reported_name(usage, "service_tier"),
    )


def reported_name(said: Mapping[str, Any], field: str) -> str | None:
    """A short text of an answer, such as the model that gave it, printable and cut; None where it is none."""
    value = said.get(field)
    if not isinstance(value, str):
        return None
    return "".join(character for character in value if character.isprintable())[:_MAX_NAME] or None


def reported_charge(message: Mapping[str, Any]) -> float | None:
    """USD that the service says it charged: ``usage.cost`` of gateways; Anthropic's own service reports none.

    None too for a figure that no call can cost.
    """
    usage = message.get("usage")
    value = usage.get("cost") if isinstance(usage, dict) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _MAX_CHARGE:
        return None
    return float(value)


def folded(value: Any, put: Callable[[bytes], str]) -> Any:
    """A JSON value whose long texts are stored apart and named by their SHA-256."""
    if isinstance(value, str):
        return value if len(value) <= _FOLD_CHARACTERS else {PART: put(value.encode("utf-8", "surrogatepass"))}
    if isinstance(value, Mapping):
        return {key: folded(each, put) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [folded(each, put) for each in value]
    return value


def unfolded(value: Any, get: Callable[[str], bytes], depth: int = 0) -> Any:
    """The value that ``folded`` was given."""
    if depth > _MAX_DEPTH:
        raise StoreError("a stored request is nested too deeply")
    if isinstance(value, dict):
        if value.keys() == {PART}:
            return get(value[PART]).decode("utf-8", "surrogatepass")
        return {key: unfolded(each, get, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [unfolded(each, get, depth + 1) for each in value]
    return value


def stored_answer(
    request_hash: str, request: bytes, answer: bytes, *, call_id: int | None = None, name: str = "a stored answer"
) -> ModelAnswer:
    """An answer from its evidence. InputError where the evidence is none of ours."""
    from crb_core.errors import InputError
    from crb_core.formats.strict_json import load_json

    asked = load_json(request, f"the request of {name}")
    message = load_json(answer, name)
    if not isinstance(asked, dict) or asked.get("request_hash") != request_hash or not isinstance(message, dict):
        raise InputError(f"{name} does not belong to request {request_hash}", remedy="Restore the evidence")
    return ModelAnswer(request_hash=request_hash, message=message, ids=asked["ids"], call_id=call_id)
