from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.store import Store, open_store
from tests.crb_core.store.conftest import store as any_store

__all__ = ["any_store"]


@pytest.fixture
def sqlite_store(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Store]:
    """For rules that do not depend on the kind of store."""
    shutil.copy(migrated_sqlite, tmp_path / "crb.sqlite")
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield opened
    opened.close()
