"""A server over a small store: an imported sweep with evidence, and a made-up one with every label axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from benchmarks.filled_sweep import fill
from crb_core.settings import Settings
from crb_core.store import open_store
from crb_web.app import create_app
from tests.browser.stores import shared_home
from tests.crb_core.archived import make_store


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """A CRB_HOME that no test changes."""
    folder: Path = tmp_path_factory.mktemp("web")
    make_store(folder).close()
    store = open_store(f"sqlite:///{folder / 'crb.sqlite'}")
    fill(store, builds=3, pull_requests=6, rounds=3)
    store.close()
    return folder


@pytest.fixture(scope="session")
def served(home) -> Any:
    """A client of a server over ``home``."""
    with client_of(home) as client:
        yield client


def client_of(home: Path, **options: Any) -> TestClient:
    """A client of a new server over a home."""
    return TestClient(create_app(Settings(home=home)), base_url="http://127.0.0.1", **options)


@pytest.fixture(scope="session")
def showcase(tmp_path_factory) -> Path:
    """A home whose newest sweep is a real one: agents on the smoke part of the showcase corpus, three judges.

    It is the one that the browser tests show, made once for all processes of a run.
    """
    return shared_home(tmp_path_factory)


@pytest.fixture(scope="session")
def shown(showcase) -> Any:
    """A client of a server over ``showcase``."""
    with client_of(showcase) as client:
        yield client
