"""Whoever shows a sweep says while the broker is silent, without waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_scheduler import broker_watch
from crb_scheduler.broker_watch import BrokerWatch
from crb_worker import app
from tests.chaos.broker import OwnBroker
from tests.e2e.farm import wait_for

SILENT = "The broker does not answer; nothing new is taken until it does"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnBroker]:
    monkeypatch.setattr(app, "ANSWER_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(broker_watch, "ASK_SECONDS", 0.1)
    made = OwnBroker(tmp_path / "broker")
    made.start()
    yield made
    made.close()


def test_a_silent_broker_is_said_until_it_answers(broker: OwnBroker) -> None:
    """One that is stopped with its connections open as one that is gone; what is asked now is asked at once."""
    watch = BrokerWatch(broker.url)
    assert (watch.problem, watch.ask()) == (None, None)
    broker.freeze()
    wait_for(lambda: watch.problem == SILENT)
    broker.thaw()
    wait_for(lambda: watch.problem is None)
    broker.kill()
    assert watch.ask() == SILENT


def test_a_url_that_is_no_brokers_is_said() -> None:
    """It keeps nobody from looking at a sweep."""
    assert str(BrokerWatch("amqp://localhost").ask()).startswith("The broker URL cannot be used: ")
