"""Token counts and the prompt cache of the loopback server. The counts are a rule of thumb, the same for every text."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["PromptCache", "tokens_of"]

#: Bytes of UTF-8 for one token.
_BYTES_PER_TOKEN = 3.5
#: Shortest prefix that is cached, in tokens.
_MINIMUM = 1024


def tokens_of(value: Any) -> int:
    """Tokens of a JSON value: its text and its structure."""
    if isinstance(value, str):
        return round(len(value.encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)
    return tokens_of(json.dumps(_unmarked(value), ensure_ascii=False, sort_keys=True)) if value else 0


class PromptCache:
    """Prefixes that were marked with ``cache_control``. Entries do not expire: a test is shorter than five minutes."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def usage(self, body: dict[str, Any], output: Any) -> dict[str, Any]:
        """The usage of a request and its answer; its marked prefixes are known from then on."""
        total = read = written = 0
        digest = hashlib.sha256(str(body.get("model")).encode())
        with self._lock:
            for block, marked in _blocks(body):
                total += tokens_of(block)
                digest.update(json.dumps(_unmarked(block), sort_keys=True).encode("utf-8", "surrogatepass") + b"\0")
                if marked and total >= _MINIMUM:
                    prefix = digest.hexdigest()
                    if prefix in self._known:
                        read = total
                    else:
                        self._known.add(prefix)
                        written = total - read
        return {
            "input_tokens": total - read - written,
            "output_tokens": tokens_of(output),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
        }


def _blocks(body: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Every block in the order in which the API caches: tools, system, messages."""
    system = body.get("system") or []
    for block in [*(body.get("tools") or []), *([system] if isinstance(system, str) else system)]:
        yield block, isinstance(block, dict) and "cache_control" in block
    for each in body["messages"]:
        content = each["content"]
        for block in [content] if isinstance(content, str) else content:
            yield [each["role"], block], isinstance(block, dict) and "cache_control" in block


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value
