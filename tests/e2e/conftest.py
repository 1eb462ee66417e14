"""A farm a test, ended whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_scheduler.broker import EmbeddedBroker
from tests.e2e.farm import Farm


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    home = tmp_path / "home"
    home.mkdir()
    with EmbeddedBroker(home / "test-broker-folder") as broker:
        started = Farm(home, broker)
        yield started
        started.close()
