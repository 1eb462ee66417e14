"""A PostgreSQL server that is stopped, with its connections open, is noticed in a stated time; a slow one is not."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text, update

from crb_core.errors import StoreError
from crb_core.store import Store, open_store, session, silence
from crb_core.store.tables import StepRow, core
from tests.crb_core.store.planned import plan
from tests.services import frozen, packets_dropped

pytestmark = pytest.mark.docker

steps = core(StepRow)


@pytest.fixture
def url(postgres_store_url: str) -> str:
    return f"{postgres_store_url}?connect_timeout=2"


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """With less patience than in earnest: what is tested is what comes after it."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(silence, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(session, "IDLE_WRITER_SECONDS", 1)
    opened = open_store(url)
    yield opened
    opened.close()


def ask(store: Store, question: str = "SELECT 1", meanwhile: Callable[[Any], object] = lambda _: None) -> None:
    """Ask over a connection that worked. ``meanwhile`` is called with it before the question."""
    with store.read() as connection:
        connection.execute(text("SELECT 1"))
        meanwhile(connection.connection.driver_connection)
        connection.execute(text(question))


def test_a_stopped_server_is_told_of_and_comes_back(url: str, store: Store) -> None:
    """Whoever waits for an answer is told, and so is who connects; afterwards everything goes on by itself."""
    with ExitStack() as stopped:
        with pytest.raises(StoreError, match=r"does not answer: the server has been silent for \d+ s"):
            ask(store, meanwhile=lambda _: stopped.enter_context(frozen(url)))
        with pytest.raises(StoreError, match="does not answer: connection timeout expired"):
            ask(store)
    ask(store)


def test_a_statement_that_takes_long_is_waited_for(store: Store) -> None:
    """Its server answers others meanwhile."""
    with store.read() as connection:
        assert connection.execute(text("SELECT 7, pg_sleep(1.5)")).one()[0] == 7


def test_one_process_of_the_server_that_hangs_is_not_waited_for_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its server answers others."""
    monkeypatch.setattr(silence, "LONGEST_STATEMENT_SECONDS", 0.5)
    with pytest.raises(StoreError, match="silent"):
        ask(store, "SELECT pg_sleep(60)")


def test_a_writer_that_stands_still_lets_others_go_on(store: Store) -> None:
    """One that is stopped in its transaction holds locks; its server ends that, and what it wrote is not there."""
    planned = plan(store)
    first = planned.ids()[0]
    was_held, written = threading.Event(), threading.Event()

    def write() -> None:
        with store.write() as connection:
            connection.execute(update(steps).where(steps.c.id == first).values(reason="never"))
            was_held.set()
            written.wait(60)
            connection.execute(text("SELECT 1"))

    def stand_still() -> None:
        with pytest.raises(StoreError, match="does not answer"):
            write()

    standing = threading.Thread(target=stand_still)
    standing.start()
    was_held.wait(60)
    with store.write() as connection:
        connection.execute(update(steps).where(steps.c.id == first).values(reason="written"))
    written.set()
    standing.join()
    assert planned.step(first).reason == "written"


@pytest.fixture
def patient(postgres_store_url: str) -> Iterator[Store]:
    opened = open_store(postgres_store_url)
    yield opened
    opened.close()


@pytest.mark.thorough
@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("iptables") and shutil.which("nsenter")),
    reason="dropping packets needs root",
)
@pytest.mark.parametrize(("question", "cut_after"), [("SELECT 1", 0.0), ("SELECT pg_sleep(300)", 1.0)])
def test_a_connection_that_is_forgotten_on_the_way_is_given_up(
    patient: Store, postgres_store_url: str, question: str, cut_after: float
) -> None:
    """Its server answers others, so only the kernel can tell: nobody confirms the question, or that it waits."""
    with ExitStack() as cut:

        def forget(connection: Any) -> None:
            with socket.socket(fileno=os.dup(connection.fileno())) as known:
                drop = partial(cut.enter_context, packets_dropped(postgres_store_url, known.getsockname()[1]))
            threading.Timer(cut_after, drop).start() if cut_after else drop()

        with pytest.raises(StoreError, match="Connection timed out"):
            ask(patient, question, forget)
        ask(patient)
