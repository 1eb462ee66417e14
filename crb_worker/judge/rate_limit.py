"""Requests and tokens a minute, shared by all workers through the broker.

A request reserves the next start time that keeps both limits, in the order of asking, and waits for it. So no thread
polls, none starves, and thirty-two of them stay under the limit as one does. Requests are spaced evenly; the tokens of
any sixty seconds stay under the limit, counted at their start. A request that alone exceeds the limit of tokens goes
when nothing else is in its minute.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from crb_core.errors import InputError, UnavailableError

__all__ = ["BrokerRateLimiter", "LocalRateLimiter", "RateLimiter", "RateLimits", "Slot"]

_WINDOW_MS = 60_000

#: KEYS: last start, pause, starts (sorted set), tokens (hash), sum. ARGV: id, tokens, interval ms, tokens a minute.
_RESERVE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local start = now
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
if last > 0 and last + tonumber(ARGV[3]) > start then start = last + tonumber(ARGV[3]) end
local pause = tonumber(redis.call('GET', KEYS[2]) or '0')
if pause > start then start = pause end
local tokens, limit = tonumber(ARGV[2]), tonumber(ARGV[4])
if limit > 0 then
  local sum = tonumber(redis.call('GET', KEYS[5]) or '0')
  while true do
    local head = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    if not head[1] then sum = 0 break end
    local ends = tonumber(head[2]) + 60000
    if ends > start then
      if sum + tokens <= limit then break end
      start = ends
    end
    sum = sum - tonumber(redis.call('HGET', KEYS[4], head[1]) or '0')
    redis.call('ZREM', KEYS[3], head[1])
    redis.call('HDEL', KEYS[4], head[1])
  end
  redis.call('ZADD', KEYS[3], start, ARGV[1])
  redis.call('HSET', KEYS[4], ARGV[1], tokens)
  redis.call('SET', KEYS[5], sum + tokens)
end
redis.call('SET', KEYS[1], start)
local life = start - now + 180000
for _, key in ipairs(KEYS) do
  if key ~= KEYS[2] then redis.call('PEXPIRE', key, life) end
end
return {start, now}
"""

#: KEYS: tokens, sum. ARGV: id, tokens that were really used.
_SETTLE = """
local old = redis.call('HGET', KEYS[1], ARGV[1])
if not old then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('INCRBYFLOAT', KEYS[2], tonumber(ARGV[2]) - tonumber(old))
return 1
"""

#: KEYS: pause. ARGV: milliseconds. A pause is only ever made longer.
_PAUSE = """
local clock = redis.call('TIME')
local ends = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[1])
if ends > tonumber(redis.call('GET', KEYS[1]) or '0') then
  redis.call('SET', KEYS[1], ends, 'PX', tonumber(ARGV[1]) + 1000)
end
return 1
"""

_REST = """
local clock = redis.call('TIME')
return tonumber(redis.call('GET', KEYS[1]) or '0') - (clock[1] * 1000 + math.floor(clock[2] / 1000))
"""


@dataclass(frozen=True, kw_only=True)
class RateLimits:
    """Limits of one model service. None is no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(
                    f"the limit of {name.replace('_', ' ')} is {value}", remedy="Give a positive number, or no limit"
                )

    @property
    def interval_ms(self) -> int:
        """Milliseconds between two requests, rounded up."""
        return math.ceil(_WINDOW_MS / self.requests_per_minute) if self.requests_per_minute else 0


@dataclass(frozen=True)
class Slot:
    """A reserved start: ``wait`` seconds from now, ``start`` in seconds of the limiter's own clock."""

    id: str
    wait: float
    start: float


class RateLimiter(Protocol):
    """Hands out start times. Safe to call from several threads and, through a broker, from several machines."""

    def reserve(self, tokens: int) -> Slot:
        """Reserve the next start for a request of about so many tokens: wait ``slot.wait``, then ask ``rest``."""

    def rest(self) -> float:
        """Seconds that a pause still lasts; 0 or less when there is none."""

    def settle(self, slot: Slot, tokens: int) -> None:
        """Replace a reservation's guess by the tokens that were used; 0 where the request was not made."""

    def pause(self, seconds: float) -> None:
        """Hold all requests back for so long, because the service asked for it."""


class LocalRateLimiter:
    """The same in one process, where there is no broker."""

    def __init__(self, limits: RateLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._last = -math.inf
        self._pause = -math.inf
        self._starts: deque[tuple[float, str]] = deque()
        self._tokens: dict[str, int] = {}

    def reserve(self, tokens: int) -> Slot:
        identifier = uuid.uuid4().hex
        with self._lock:
            now = self._clock() * 1000
            start = max(now, self._last + self._limits.interval_ms, self._pause)
            limit = self._limits.tokens_per_minute
            if limit:
                while self._starts:
                    ends = self._starts[0][0] + _WINDOW_MS
                    if ends > start:
                        if sum(self._tokens.values()) + tokens <= limit:
                            break
                        start = ends
                    del self._tokens[self._starts.popleft()[1]]
                self._starts.append((start, identifier))
                self._tokens[identifier] = tokens
            self._last = start
        return Slot(identifier, max(0.0, start - now) / 1000, start / 1000)

    def rest(self) -> float:
        with self._lock:
            return (self._pause - self._clock() * 1000) / 1000

    def settle(self, slot: Slot, tokens: int) -> None:
        with self._lock:
            if slot.id in self._tokens:
                self._tokens[slot.id] = tokens

    def pause(self, seconds: float) -> None:
        with self._lock:
            self._pause = max(self._pause, (self._clock() + seconds) * 1000)


class BrokerRateLimiter:
    """One limit for every worker that uses the same broker. ``scope`` names what is limited: service and key.

    UnavailableError where the broker does not answer: without it nobody knows what the others do.
    """

    def __init__(self, redis: Any, limits: RateLimits, *, scope: str) -> None:
        import redis as library

        self._errors = (library.RedisError, OSError)
        self._limits = limits
        names = ("last", "pause", "starts", "tokens", "sum")
        self._keys = {name: f"crb:rate:{{{scope}}}:{name}" for name in names}
        self._reserve = redis.register_script(_RESERVE)
        self._settle = redis.register_script(_SETTLE)
        self._pause = redis.register_script(_PAUSE)
        self._rest = redis.register_script(_REST)

    def reserve(self, tokens: int) -> Slot:
        identifier = uuid.uuid4().hex
        limits = [self._limits.interval_ms, self._limits.tokens_per_minute or 0]
        start, now = self._run(self._reserve, list(self._keys.values()), [identifier, tokens, *limits])
        return Slot(identifier, max(0, int(start) - int(now)) / 1000, int(start) / 1000)

    def rest(self) -> float:
        return float(self._run(self._rest, [self._keys["pause"]], [])) / 1000

    def settle(self, slot: Slot, tokens: int) -> None:
        self._run(self._settle, [self._keys["tokens"], self._keys["sum"]], [slot.id, tokens])

    def pause(self, seconds: float) -> None:
        self._run(self._pause, [self._keys["pause"]], [math.ceil(seconds * 1000)])

    def _run(self, script: Any, keys: list[str], arguments: list[Any]) -> Any:
        try:
            return script(keys=keys, args=arguments)
        except self._errors as error:
            raise UnavailableError(
                f"The broker, which keeps the judge's rate limit, does not answer: {error}",
                remedy="It is asked again when the step is tried again",
            ) from None
