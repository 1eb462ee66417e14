"""``crb`` that delivers every message twice, byte for byte. Run as a program: python -m tests.chaos.doubling ARGUMENTS

How many messages it doubled is counted in the broker, under ``DOUBLED``.
"""

from __future__ import annotations

from typing import Any

from kombu.transport.redis import Channel

DOUBLED = "tests:doubled"


def deliver_twice() -> None:
    """Let every message that this process sends be pushed to its queue once more."""
    put = Channel._put

    def twice(channel: Any, queue: str, message: Any, **named: Any) -> None:
        put(channel, queue, message, **named)
        put(channel, queue, message, **named)
        with channel.conn_or_acquire() as client:
            client.incr(DOUBLED)

    Channel._put = twice


if __name__ == "__main__":
    deliver_twice()
    from crb_cli.main import run

    run()
