"""What the broker holds of a message: the message, until somebody has it."""

from __future__ import annotations

from pathlib import Path

import redis

from crb_core.store.tables import Stage
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.app import make_app, publish


def test_a_message_that_was_handed_out_is_gone(tmp_path: Path) -> None:
    """No copy of it is kept to be handed out again; the store knows what nobody took."""
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        app = make_app(broker.url)
        client = redis.Redis.from_url(broker.url.replace("redis+socket://", "unix://"))
        for number in (1, 2):
            publish(app, Stage.REVIEW, number, fence=0, shown_as="a review")
        with app.connection_for_read() as connection:
            messages = connection.SimpleQueue(Stage.REVIEW.value)
            message = messages.get(timeout=5)
            # It is not acknowledged, and yet:
            assert message.payload[0] == [1]
            assert client.llen(Stage.REVIEW.value) == 1
            assert client.keys("unacked*") == []
            message.ack()
            messages.close()
        assert client.llen(Stage.REVIEW.value) == 1
        app.close()
        client.close()
