"""One call to the Messages API through the anthropic SDK, and what can go wrong with it, in our words.

The SDK's own retries are off: every attempt is a call of ours, with a row, a place in the rate limit and in the budget.
"""

from __future__ import annotations

import atexit
import datetime
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from crb_core.errors import InputError, UnavailableError
from crb_core.formats.strict_json import load_json
from crb_core.store.judge_calls import CallOutcome

__all__ = [
    "LOOPBACK_KEY",
    "LOOPBACK_MODEL",
    "CallFailedError",
    "Endpoint",
    "RawAnswer",
    "failure_of",
    "find_key",
    "is_loopback",
    "open_client",
    "send",
]

#: The model id of the loopback server's model. It is no language model, and every table that shows it says so.
LOOPBACK_MODEL = "crb-loopback"
#: Key that the loopback server takes; it is no secret.
LOOPBACK_KEY = "loopback"
#: Seconds until a connection stands.
CONNECT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
#: Longest part of an error text from outside that is kept.
_MAX_DETAIL = 300
_LOOPBACK = re.compile(r"^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?(/.*)?$")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a model is reached. None is the SDK's default URL. ``key`` is never printed or stored."""

    base_url: str | None
    key: str

    def __repr__(self) -> str:
        return f"Endpoint(base_url={self.base_url!r})"


@dataclass(frozen=True, kw_only=True)
class RawAnswer:
    """The body of a successful answer, byte by byte, and decoded."""

    data: bytes
    message: Mapping[str, Any]


class CallFailedError(Exception):
    """A call that brought no answer. ``retry_after`` is what the service asked for, in seconds."""

    def __init__(
        self,
        outcome: CallOutcome,
        detail: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        body: bytes | None = None,
    ) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail
        self.status = status
        self.retry_after = retry_after
        self.body = body


def is_loopback(base_url: str | None) -> bool:
    """Whether a URL is on this machine, plain HTTP."""
    return base_url is not None and _LOOPBACK.match(base_url) is not None


def find_key(model: str, base_url: str | None) -> str:
    """The API key: ``ANTHROPIC_API_KEY``. The loopback model takes a fixed one. UnavailableError without a key."""
    if model == LOOPBACK_MODEL:
        if not is_loopback(base_url):
            raise UnavailableError(
                f"The model {LOOPBACK_MODEL} is served on this machine only",
                remedy="Give --fake-model, which serves it while the command runs, or name a real model",
            )
        return LOOPBACK_KEY
    key = os.environ.get("ANTHROPIC_API_KEY", "").strip()
    if not key:
        raise UnavailableError(
            "The judge claude has no API key on this worker",
            remedy="Set ANTHROPIC_API_KEY where judge workers run, or choose another judge (--judge offline)",
        )
    return key


_clients: dict[tuple[str | None, str, float], Any] = {}
_lock = threading.Lock()


def open_client(endpoint: Endpoint, *, seconds: float) -> Any:
    """The SDK's client, one a process and endpoint: its connections are shared by all threads."""
    identity = (endpoint.base_url, endpoint.key, seconds)
    with _lock:
        if identity not in _clients:
            import anthropic

            if not _clients:
                atexit.register(_close_clients)
            _clients[identity] = anthropic.Anthropic(
                api_key=endpoint.key,
                base_url=endpoint.base_url,
                max_retries=0,
                timeout=anthropic.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)),
            )
        return _clients[identity]


def _close_clients() -> None:
    """At the end of the process, and let go of them: while modules are taken apart a client cannot close itself."""
    with _lock:
        while _clients:
            _clients.popitem()[1].close()


def send(client: Any, body: Mapping[str, Any], *, seconds: float) -> RawAnswer:
    """Make one call that ends within ``seconds``. Raises CallFailedError for everything that is no message."""
    import anthropic
    import httpx2

    deadline = time.monotonic() + seconds
    data = bytearray()
    try:
        with client.messages.with_streaming_response.create(**body) as response:
            for part in response.iter_bytes():
                data += part
                if time.monotonic() > deadline:
                    raise CallFailedError(CallOutcome.TIMEOUT, "the answer was not complete in time")
                if len(data) > _MAX_ANSWER_BYTES:
                    raise CallFailedError(CallOutcome.SERVER_ERROR, "the answer is larger than any message can be")
    except (anthropic.APIError, httpx2.TransportError) as error:
        raise failure_of(error) from None
    return RawAnswer(data=bytes(data), message=decoded(bytes(data)))


def decoded(data: bytes) -> Mapping[str, Any]:
    """The message that a body holds; CallFailedError where it holds none."""
    try:
        # As strictly as a stored answer is read again.
        message = load_json(data, "the answer", max_bytes=_MAX_ANSWER_BYTES)
    except InputError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        raise CallFailedError(
            CallOutcome.SERVER_ERROR, "the service answered with something that is no message", status=200, body=data
        )
    return message


def failure_of(error: Exception) -> CallFailedError:
    """What an error of the SDK or of its transport means."""
    import anthropic
    import httpx2

    if isinstance(error, (anthropic.APITimeoutError, httpx2.TimeoutException)):
        return CallFailedError(CallOutcome.TIMEOUT, "the service did not answer in time")
    if isinstance(error, anthropic.APIStatusError):
        return _status_failure(error)
    if isinstance(error, (anthropic.APIConnectionError, httpx2.TransportError)):
        cause = type(error.__cause__).__name__ if error.__cause__ else type(error).__name__
        return CallFailedError(CallOutcome.CONNECTION, f"the connection failed or was cut ({cause})")
    return CallFailedError(CallOutcome.SERVER_ERROR, f"the service's answer could not be read ({type(error).__name__})")


def _status_failure(error: Any) -> CallFailedError:
    status: int = error.status_code
    kind = error.type if isinstance(getattr(error, "type", None), str) else None
    if status == 429 or kind == "rate_limit_error":
        outcome = CallOutcome.RATE_LIMITED
    elif status == 529 or kind == "overloaded_error":
        outcome = CallOutcome.OVERLOADED
    elif status >= 500 or status in {408, 409, 425}:
        outcome = CallOutcome.SERVER_ERROR
    else:
        outcome = CallOutcome.INVALID
    said = getattr(error, "api_message", None) or "it gave no reason"
    shown = "".join(character for character in str(said) if character.isprintable())[:_MAX_DETAIL]
    return CallFailedError(
        outcome,
        f"the service answered {status}: {shown}",
        status=status,
        retry_after=_retry_after(error.response.headers),
        body=error.response.content,
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from ``retry-after-ms``, or from ``retry-after`` as seconds or as a date; None where there is neither."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * factor
        except ValueError:
            try:
                then = parsedate_to_datetime(value)
            except (TypeError, ValueError):
                continue
            if then.tzinfo is None:
                then = then.replace(tzinfo=datetime.UTC)
            seconds = (then - datetime.datetime.now(datetime.UTC)).total_seconds()
        if seconds == seconds and 0 <= seconds < 86_400:
            return seconds
    return None
