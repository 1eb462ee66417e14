"""The page of a sweep while the store or the broker is silent: one sentence, and it goes on by itself."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from crb_core.settings import Settings
from crb_core.store import open_store, silence
from crb_scheduler import broker_watch
from crb_web.app import create_app
from crb_web.live import NOTICE
from crb_worker import app as broker_app
from tests.chaos.broker import OwnBroker
from tests.crb_core.store.planned import plan
from tests.crb_scheduler.test_broker_watch import SILENT
from tests.e2e.farm import wait_for
from tests.services import frozen


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """With less patience than in earnest: what is tested is what comes after it."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(silence, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(broker_app, "ANSWER_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(broker_watch, "ASK_SECONDS", 0.1)


@contextmanager
def browser(settings):
    with TestClient(create_app(settings), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.mark.docker
def test_a_silent_store_is_a_sentence_for_everybody_who_asks(tmp_path: Path, postgres_store_url: str) -> None:
    """Pages and documents alike, many at once; a live page says it, keeps what it shows, and reads on afterwards."""
    store = open_store(postgres_store_url)
    planned = plan(store)
    store.close()
    url = f"{postgres_store_url}?connect_timeout=2"
    addresses = [f"/sweeps/{planned.sweep_id}", "/sweeps", "/api/v1/sweeps", f"/api/v1/sweeps/{planned.sweep_id}"]
    with browser(Settings(home=tmp_path, store_url=url)) as client, ThreadPoolExecutor(12) as pool:
        assert [client.get(address).status_code for address in addresses] == [200] * 4
        live = client.app.state.live

        async def watched():
            """Parts of the first reading, of one while the store hangs, and of one afterwards."""
            with live.place(planned.sweep_id, "c") as channel:
                events = live.events(channel, None)
                found = [json.loads((await anext(events)).data)]
                with frozen(postgres_store_url):
                    found.append(json.loads((await anext(events)).data))
                    answers = [pool.submit(client.get, address) for address in addresses * 3]
                    answers = [await asyncio.wrap_future(each) for each in answers]
                while found[-1].get(NOTICE) != "":
                    found.append(json.loads((await anext(events)).data))
            return found, answers

        (first, away, *_, back), answers = asyncio.run(watched())
        for answer in answers:
            assert answer.status_code == 503
            assert "does not answer" in answer.text
            assert "Traceback" not in answer.text
        assert (first[NOTICE], back[NOTICE]) == ("", "")
        assert "counts" in first
        assert set(away) == {NOTICE}
        assert "does not answer" in away[NOTICE]
        assert away[NOTICE].endswith("; it is asked again")
        assert [client.get(address).status_code for address in addresses] == [200] * 4


def test_a_silent_broker_is_said_beside_the_sweep(tmp_path: Path, migrated_sqlite: Path) -> None:
    """On the page and in its events, while anything of the sweep waits; what is shown is the store's."""
    (tmp_path / "crb.sqlite").write_bytes(migrated_sqlite.read_bytes())
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    page = f"/sweeps/{plan(store).sweep_id}"
    store.close()
    broker = OwnBroker(tmp_path / "broker")
    broker.start()
    try:
        with browser(Settings(home=tmp_path, broker_url=broker.url)) as client:
            assert SILENT not in client.get(page).text
            broker.freeze()
            wait_for(lambda: f'role="alert">{SILENT}</p>' in client.get(page).text)
            assert client.app.state.sweep_views.live(page.rpartition("/")[2])[0][NOTICE] == SILENT
            broker.thaw()
            wait_for(lambda: SILENT not in client.get(page).text)
    finally:
        broker.close()
