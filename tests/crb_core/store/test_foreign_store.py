"""A database of something else is named as such and left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from crb_core.errors import StoreError
from crb_core.store import open_store


def test_another_programs_database_is_no_store(tmp_path: Path) -> None:
    """Nothing is written into it, also where one of its tables is named as one of ours."""
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE sweep (colour TEXT)")
    with pytest.raises(StoreError, match="is no store of crb: it holds a table named sweep"):
        open_store(f"sqlite:///{path}")
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("sweep",)]
