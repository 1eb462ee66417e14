"""One suite for both limiters: under the limit in every minute, in order of asking, with a shared pause."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError, UnavailableError
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.judge.rate_limit import BrokerRateLimiter, LocalRateLimiter, RateLimiter, RateLimits

MINUTE = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import redis

    with EmbeddedBroker(tmp_path_factory.mktemp("broker") / "broker.json") as started:
        client = redis.Redis.from_url(started.url.replace("redis+socket://", "unix://"))
        yield client
        client.close()


@pytest.fixture(params=["local", "broker"])
def limiters(request: pytest.FixtureRequest) -> Any:
    """Makes two limiters of one scope, as two workers would."""

    def make(requests: int | None = None, tokens: int | None = None) -> tuple[RateLimiter, RateLimiter]:
        limits = RateLimits(requests_per_minute=requests, tokens_per_minute=tokens)
        if request.param == "local":
            one = LocalRateLimiter(limits)
            return one, one
        client = request.getfixturevalue("broker")
        client.flushall()
        one, other = (BrokerRateLimiter(client, limits, scope="test") for _ in range(2))
        return one, other

    return make


def starts(limiters: tuple[RateLimiter, RateLimiter], tokens: list[int]) -> list[float]:
    """When each request starts, in seconds after the first one, by the limiter's own clock."""
    found = [limiters[number % 2].reserve(count).start for number, count in enumerate(tokens)]
    return [start - found[0] for start in found]


def in_any_minute(times: list[float], weights: list[int]) -> int:
    return max(
        sum(weight for time_, weight in zip(times, weights, strict=True) if start <= time_ < start + MINUTE - 0.001)
        for start in times
    )


def test_requests_are_spaced_evenly(limiters: Any) -> None:
    """No minute holds more requests than the limit, and they do not come in bursts."""
    times = starts(limiters(requests=30), [1] * 70)
    assert in_any_minute(times, [1] * 70) <= 30
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= 1.999


def test_tokens_of_any_minute_stay_under_the_limit(limiters: Any) -> None:
    """Large and small requests together never pass it, and small ones do not overtake large ones."""
    tokens = [300, 300, 300, 900, 10, 10, 500, 400, 100] * 3
    times = starts(limiters(tokens=1000), tokens)
    assert in_any_minute(times, tokens) <= 1000
    assert times == sorted(times)


def test_a_request_larger_than_the_limit_goes_alone(limiters: Any) -> None:
    """It waits until its minute is free, instead of for ever."""
    times = starts(limiters(tokens=100), [50, 500, 50])
    assert times == pytest.approx([0, 60, 120], abs=0.01)


def test_what_was_not_used_is_given_back(limiters: Any) -> None:
    """A settled reservation counts with what was used, so the next one need not wait."""
    one, other = limiters(tokens=1000)
    slot = one.reserve(1000)
    one.settle(slot, 100)
    assert other.reserve(900).wait == 0
    assert other.reserve(900).wait > 50


def test_a_pause_holds_everyone_back(limiters: Any) -> None:
    """What one worker was told holds for the other; a shorter pause does not shorten it."""
    one, other = limiters(requests=6000)
    assert other.rest() <= 0
    one.pause(20)
    one.pause(5)
    assert 19 < other.rest() <= 20
    assert other.reserve(1).wait > 19


def test_without_limits_nobody_waits(limiters: Any) -> None:
    """No limit of ours means no wait."""
    assert max(starts(limiters(), [10_000] * 50)) < 5


def test_thirty_two_threads_share_it_fairly(limiters: Any) -> None:
    """Each asks again after its turn: turns go round, nobody has many more than another, and the pace is kept."""
    pair = limiters(requests=60 * 200)
    counts: dict[int, int] = {}
    moments: list[float] = []
    lock = threading.Lock()
    end = time.monotonic() + 2.0

    def work(number: int) -> None:
        while time.monotonic() < end:
            slot = pair[number % 2].reserve(10)
            time.sleep(slot.wait)
            with lock:
                counts[number] = counts.get(number, 0) + 1
                moments.append(time.monotonic())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 32
    assert max(counts.values()) <= 2 * min(counts.values()) + 5
    assert len(moments) <= 200 * (max(moments) - min(moments)) + 33


def test_a_dead_worker_takes_its_places_with_it_and_no_more(limiters: Any) -> None:
    """Sixteen of thirty-two threads die while they wait: the others keep their times, newcomers lose sixteen places."""
    dead, alive = limiters(requests=600, tokens=3200)
    first = dead.reserve(100)
    slots = [(dead if number % 2 else alive).reserve(100) for number in range(31)]
    mine = [slot.start - first.start for slot in slots[::2]]
    assert mine == pytest.approx([0.1 + 0.2 * number for number in range(16)], abs=0.02)
    # The minute is full with what was promised, also to the dead; it frees itself without anybody's help.
    later = alive.reserve(100)
    assert later.start - first.start == pytest.approx(60, abs=0.05)
    for slot in slots[::2]:
        alive.settle(slot, 100)
    assert alive.reserve(100).start - later.start < 1


def test_a_broker_that_is_away_is_said(tmp_path: Path) -> None:
    """Without the broker nobody knows what the others do, so the step is tried again later."""
    import redis

    client = redis.Redis(unix_socket_path=str(tmp_path / "nothing.sock"))
    limiter = BrokerRateLimiter(client, RateLimits(requests_per_minute=5), scope="test")
    with pytest.raises(UnavailableError, match="rate limit"):
        limiter.reserve(1)


def test_a_limit_is_positive() -> None:
    """Zero would be a standstill."""
    with pytest.raises(InputError, match="requests per minute is 0"):
        RateLimits(requests_per_minute=0)
