from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.store import Store, open_store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind: every rule holds on both."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "crb.sqlite")
        url = f"sqlite:///{tmp_path / 'crb.sqlite'}"
    else:
        url = request.getfixturevalue("postgres_store_url")
    opened = open_store(url)
    yield opened
    opened.close()
