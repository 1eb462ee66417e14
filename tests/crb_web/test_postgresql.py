"""The same store in SQLite and in PostgreSQL: every answer, page and operation is the same from both."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from benchmarks.filled_sweep import fill
from crb_core.evidence import FolderEvidence
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.access_tokens import create_token
from crb_core.store.backup import restore_backup, write_backup
from crb_core.store.retries import Compared
from crb_core.store.tables import StepRow, core
from crb_web.access import AccessRules
from crb_web.app import create_app
from tests.crb_core.archived import make_store, reviews
from tests.crb_core.store.planned import plan

pytestmark = pytest.mark.docker

#: Sorted by language they are alpha, Beta, _gamma or the like; by their characters Beta, _gamma, alpha.
AGENTS = ("alpha", "Beta", "_gamma")
ADDRESSES = (
    "/api/v1/sweeps",
    "/api/v1/sweeps/bench",
    "/api/v1/sweeps/trial-run",
    "/api/v1/sweeps/trial-run/judges",
    "/api/v1/sweeps/trial-run/dimensions",
    "/api/v1/sweeps/trial-run/trials",
    "/api/v1/sweeps/trial-run/trials?outcome=timeout&scored=no&limit=2",
    "/api/v1/sweeps/trial-run/progress",
    "/api/v1/sweeps/open/progress",
    "/api/v1/sweeps/open/operations?limit=7",
    "/api/v1/leaderboard?sweep=bench",
    "/api/v1/leaderboard?sweep=bench&severity=high&category=security&beta=0.5&intervals=true&pull_requests=true",
    "/api/v1/leaderboard?sweep=trial-run&allow_partial=true&basis=augmented",
    "/api/v1/leaderboard/pictures?sweep=bench&severity=low",
    "/api/v1/compare?sweep=trial-run&build=alpha&build=Beta",
    "/api/v1/pull-requests/trial-run/pr-1",
    "/api/v1/trials/1",
    "/api/v1/trials/7",
    "/api/v1/judges",
    "/api/v1/judges/j-bench",
    "/?sweep=bench",
    "/?sweep=trial-run&allow_partial=true",
    "/pictures?sweep=bench",
    "/compare?sweep=bench&build=agent-0&build=agent-1&build=agent-2",
    "/sweeps",
    "/sweeps/open",
    "/sweeps/open/heat-map",
    "/sweeps/trial-run/trials",
    "/sweeps/trial-run/pull-requests/pr-1",
    "/trials/7",
    "/judges",
    "/judges/j-bench",
)
#: Things that no store has, and what a database may choke on.
ODD = (
    "/api/v1/sweeps/a%00b",
    "/api/v1/sweeps/%ED%A0%80",
    "/api/v1/sweeps/%F0%9F%A6%80'%22%3B--",
    "/api/v1/sweeps/trial-run/trials?agent=%00",
    "/api/v1/sweeps/trial-run/trials?pull_request=a%00",
    "/api/v1/sweeps/trial-run/trials?round=99999999999",
    "/api/v1/sweeps/trial-run/trials?offset=2147483648",
    "/api/v1/sweeps/trial-run/trials?offset=9223372036854775808",
    "/api/v1/trials/2147483648",
    "/api/v1/trials/9223372036854775808",
    "/api/v1/trials/99999999999999999999999999",
    "/api/v1/judges/%00",
    "/api/v1/findings/%00",
    "/api/v1/findings/g-000000000000",
    "/api/v1/leaderboard?sweep=%00",
    "/api/v1/leaderboard?sweep=bench&judge=%00",
    "/api/v1/leaderboard?sweep=bench&producer=%00",
    "/api/v1/compare?sweep=trial-run&build=%00&build=alpha",
    "/api/v1/pull-requests/trial-run/%00",
    "/?sweep=%00",
    "/sweeps/%00",
    "/trials/99999999999999999999",
)
Twins = tuple[TestClient, TestClient]


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory, postgres_of_module: str) -> Iterator[Twins]:
    """Servers over a store and over its backup, restored into PostgreSQL: even ids are the same."""
    home: Path = tmp_path_factory.mktemp("twins")
    made = [each for place, agent in enumerate(AGENTS) for each in reviews(agent, skip=(2, 3) if place else None)]
    store = make_store(home, made)
    fill(store, builds=3, pull_requests=6, rounds=3)
    planned = plan(store, pull_requests=2, name="open")
    planned.take(planned.ids()[-1])
    planned.pause_build(True)
    evidence = FolderEvidence(home / "evidence")
    write_backup(store, evidence, home / "b.tar")
    server = open_store(postgres_of_module, migrate=False)
    restore_backup(home / "b.tar", server, evidence)
    for opened in (store, server):
        opened.close()
    with _client(home) as sqlite, _client(home, store_url=postgres_of_module) as postgres:
        yield sqlite, postgres


def _client(home: Path, **settings: Any) -> TestClient:
    return TestClient(create_app(Settings(home=home, **settings)), base_url="http://127.0.0.1")


def _timeless(text: str) -> Any:
    """An answer without the moment at which it was given, and what was computed from that moment."""
    text = re.sub(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME", text)
    try:
        return _without_clocks(json.loads(text))
    except ValueError:
        return re.sub(r"(took|in|for) [0-9.]+ m?s|nonce-[^']+|\d+ (s|min)\b", "DURATION", text)


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        moving = {"at", "seconds", "silent_seconds", "window_seconds", "finish_at"}
        return {name: None if name in moving else _without_clocks(each) for name, each in value.items()}
    return [_without_clocks(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_answer_is_the_same(twins: Twins, address: str) -> None:
    """Numbers, order and texts, whatever the order of languages is in the database."""
    sqlite, postgres = (each.get(address) for each in twins)
    assert (sqlite.status_code, postgres.status_code) == (200, 200)
    assert _timeless(postgres.text) == _timeless(sqlite.text)


@pytest.mark.parametrize("address", ODD)
def test_what_is_not_there_is_refused_alike(twins: Twins, address: str) -> None:
    """A NUL, half a surrogate pair, numbers of any size: the same sentence, and never a fault."""
    sqlite, postgres = (each.get(address) for each in twins)
    assert postgres.status_code == sqlite.status_code < 500, postgres.text
    assert _timeless(postgres.text) == _timeless(sqlite.text)


#: What an operator does one after the other: path below the sweep (or a whole one), body.
OPERATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("limits", {"priority": 3, "weight": 0.25, "concurrency": 4}),
    ("limits", {"agent": "minimal", "concurrency": None}),
    ("limits", {"priority": 2**40}),
    ("limits", {"weight": 1e400}),
    ("pause", {"agent": "minimal", "reason": "a ‮look 🦀"}),
    ("pause", {"reason": "a NUL \0"}),
    ("pause", {"reason": "half \ud800"}),
    ("pause", {"agent": "no\0body"}),
    ("pause", {}),
    ("resume", {}),
    ("resume", {"agent": "minimal"}),
    ("cancel", {"agent": "minimal", "reason": "enough"}),
    ("retry", {"cancelled": True}),
    ("/api/v1/trials/1/cancel", {}),
    ("/api/v1/trials/2/cancel", {"reason": "and this"}),
    ("/api/v1/trials/2/cancel", {}),
    ("retry", {"trials": [1, 2, 2]}),
    ("retry", {"trials": [2**31, 1]}),
    ("retry", {"trials": [2**63]}),
    ("retry", {"failed": True, "stages": ["match"]}),
    ("retry", {"failed": True}),
    ("cancel", {}),
    ("resume", {}),
)


def _do_all(home: Path, store: Store, url: str) -> list[Any]:
    """What every operation answers, and the log of them at the end."""
    planned = plan(store, pull_requests=4, name="operated")
    with store.write() as connection:
        _, secret = create_token(connection, "bo", "operator")
        connection.execute(update(core(StepRow)).where(core(StepRow).c.trial_id == 4).values(state="failed"))
    app = create_app(
        Settings(home=home, store_url=url), rules=AccessRules(operate=True), check_unchanged=lambda planned: Compared()
    )
    found: list[Any] = []
    with TestClient(app, base_url="http://127.0.0.1", headers={"authorization": f"Bearer {secret}"}) as client:
        for path, body in OPERATIONS:
            address = path if path.startswith("/") else f"/api/v1/sweeps/operated/{path}"
            answer = client.post(address, content=json.dumps(body), headers={"content-type": "application/json"})
            assert answer.status_code < 500, answer.text
            found.append((path, answer.status_code, _timeless(answer.text)))
        found.append(_timeless(client.get("/api/v1/sweeps/operated/operations").text))
    text = json.dumps(found).replace(planned.sweep_id, "SWEEP")
    store.close()
    return list(json.loads(text))


def test_operators_do_the_same_over_http(tmp_path: Path, migrated_sqlite: Path, postgres_store_url: str) -> None:
    """Limits, pauses, cancels, retries, with what cannot be kept refused: answers and log are the same."""
    url = f"sqlite:///{tmp_path / 'crb.sqlite'}"
    (tmp_path / "crb.sqlite").write_bytes(migrated_sqlite.read_bytes())
    expected = _do_all(tmp_path, open_store(url), url)
    assert _do_all(tmp_path, open_store(postgres_store_url), postgres_store_url) == expected
    statuses = [each[1] for each in expected[:-1]]
    assert statuses[:2] == [200, 200]
    assert set(statuses) <= {200, 400, 404}
    assert len(expected[-1]["operations"]) >= 10
