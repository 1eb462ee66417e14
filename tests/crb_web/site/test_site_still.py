"""The copy of the store that a site is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.references import stored_rows, stored_tables
from crb_web.site.still import still_settings
from tests.crb_core.archived import make_store


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def test_the_copy_has_every_row_and_no_machine(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """From SQLite and PostgreSQL alike; hosts and workers are numbered, the store itself stays as it is."""
    url = f"sqlite:///{tmp_path / 'home/crb.sqlite'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres_url")
    store = make_store(tmp_path / "home", url=url)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = still_settings(Settings(home=tmp_path / "home", store_url=url), scratch)
    copy = open_store(settings.resolved_store_url)
    machines = {"host", "worker"}
    seen = set()
    with store.read() as before, copy.read() as after:
        for table in stored_tables(before):
            names = [column.name for column in table.columns]
            one = [dict(zip(names, row, strict=True)) for row in stored_rows(before, table)]
            two = [dict(zip(names, row, strict=True)) for row in stored_rows(after, table)]
            if table.name in {"worker", "access_token", "operator_action", "content_change"}:
                assert two == []
                continue
            seen |= {row[name] for row in two for name in machines & row.keys()}
            assert [{**row, **dict.fromkeys(machines & row.keys())} for row in two] == [
                {**row, **dict.fromkeys(machines & row.keys())} for row in one
            ]
    assert "host-1" in seen
    assert seen == {None, "host-1", "imported"}
    store.close()
    copy.close()
