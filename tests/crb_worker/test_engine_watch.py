"""Reviews pause while the engine that they need does not answer, and go on by themselves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_worker import engine_watch
from crb_worker.engine_watch import EngineWatch
from tests.crb_worker.sandbox.support import Relay
from tests.e2e.farm import wait_for

pytestmark = pytest.mark.docker

AWAY = "The Docker engine does not answer; start it, and reviews go on by themselves"


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """Between this process and the engine."""
    made = Relay(Path(tempfile.mkdtemp()) / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    monkeypatch.setattr(engine_watch, "ASK_SECONDS", 0.1)
    monkeypatch.setattr(engine_watch, "ANSWER_SECONDS", 1)
    yield made
    made.go_on()
    made.cut()
    shutil.rmtree(made.path.parent)


def test_an_engine_is_asked_once_a_review_needed_it(relay: Relay) -> None:
    """One that refuses and one that hangs are away; a worker without reviews in containers needs none."""
    watch = EngineWatch()
    assert watch.reason() is None
    assert relay.accepted == 0
    watch.need()
    wait_for(lambda: watch.reason() is None and relay.accepted > 0)
    relay.cut()
    wait_for(lambda: watch.reason() == AWAY)
    relay.mend()
    wait_for(lambda: watch.reason() is None)
    relay.hang()
    wait_for(lambda: watch.reason() == AWAY)
    relay.go_on()
    wait_for(lambda: watch.reason() is None)
