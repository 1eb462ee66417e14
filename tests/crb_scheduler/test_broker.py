"""The brokers: the embedded Valkey of a local run, and a Redis server of one's own. Both carry the same messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from kombu.exceptions import OperationalError
from redis import RedisError
from structlog.testing import capture_logs

from crb_core.errors import UnavailableError
from crb_core.store.tables import Stage
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.app import QUEUES, BrokerClient, check_broker, make_app, publish, task_name


@pytest.fixture(params=["embedded", pytest.param("redis", marks=pytest.mark.docker)])
def broker_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "redis":
        yield request.getfixturevalue("redis_url")
        return
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        yield broker.url


def test_a_published_step_is_consumed_with_its_id_and_nothing_else(broker_url: str) -> None:
    """A real Celery worker takes it from its stage's queue; Flower's name for it travels along."""
    check_broker(broker_url)
    app = make_app(broker_url)
    client = BrokerClient(broker_url)
    taken: list[tuple[str, tuple[Any, ...]]] = []
    all_taken = threading.Event()

    for stage in Stage:

        def task(self: Any, *arguments: Any) -> None:
            taken.append((self.name, arguments))
            if len(taken) == len(Stage):
                all_taken.set()

        app.task(name=task_name(stage), bind=True, shared=False)(task)
    for number, stage in enumerate(Stage, start=1):
        publish(app, stage, number, fence=0, shown_as=f"minimal, pr-{number}, round 1, attempt 1")
    assert [client.queue_length(queue) for queue in QUEUES] == [1, 1, 1, 1]
    worker = app.Worker(
        pool="threads", concurrency=2, queues=list(QUEUES), without_gossip=True, without_mingle=True, quiet=True
    )
    thread = threading.Thread(target=worker.start, daemon=True)
    thread.start()
    try:
        assert all_taken.wait(60)
    finally:
        worker.stop()
        thread.join(30)
    assert sorted(taken) == sorted((task_name(stage), (number,)) for number, stage in enumerate(Stage, start=1))
    assert [client.queue_length(queue) for queue in QUEUES] == [0, 0, 0, 0]
    client.close()


def test_a_nudge_wakes_the_dispatcher_once(broker_url: str) -> None:
    """Many nudges are one reason to look; without one the wait ends by itself."""
    client = BrokerClient(broker_url)
    for _ in range(50):
        client.nudge()
    assert client.wait_for_nudge(5)
    assert not client.wait_for_nudge(0.2)
    client.close()


def test_a_broker_that_is_away_is_no_reason_to_end(tmp_path: Path) -> None:
    """Nudges are dropped, lengths unknown, waits end in time; the check says it in one sentence."""
    broker = EmbeddedBroker(tmp_path / "broker-folder").start()
    client = BrokerClient(broker.url)
    client.nudge()
    url = broker.url
    broker.stop()
    client.nudge()
    assert client.queue_length("review") is None
    assert not client.wait_for_nudge(0.1)
    with pytest.raises(UnavailableError, match="does not answer"):
        check_broker(url)
    client.close()


def test_a_broker_that_hangs_for_ever_hangs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and never answers: commands give up, the check says so, the log tells it twice in all."""
    monkeypatch.setattr("crb_worker.app.ANSWER_TIMEOUT_SECONDS", 0.3)
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        client, app = BrokerClient(broker.url), make_app(broker.url)
        client.nudge()
        assert client.wait_for_nudge(5)
        publish(app, Stage.REVIEW, 1, fence=0, shown_as="minimal, pr-1, round 1, attempt 1")
        server = psutil.Process(broker.pid)
        server.suspend()
        try:
            with capture_logs() as lines:
                assert client.queue_length("review") is None
                assert not client.wait_for_nudge(0.1)
                client.nudge()
                assert not client.answers
                with pytest.raises((RedisError, OperationalError)):
                    publish(app, Stage.REVIEW, 2, fence=0, shown_as="minimal, pr-2, round 1, attempt 1")
                with pytest.raises(UnavailableError, match="does not answer"):
                    check_broker(broker.url)
                server.resume()
                lengths = client.queue_lengths(QUEUES)
        finally:
            server.resume()
        assert client.answers
        # What was sent while it hung may have reached it all the same.
        assert lengths in [{"review": count, "match": 0, "classify": 0, "score": 0} for count in (1, 2)]
        assert [line["event"] for line in lines] == ["broker_away", "broker_back"]
        client.close()


def test_a_worker_sends_each_event_once(tmp_path: Path) -> None:
    """Celery's heartbeat asks for endless tries; with a broker that is away it is kept for later instead."""
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        app = make_app(broker.url)
        with app.connection_for_write() as connection:
            events = app.events.Dispatcher(connection, hostname="crb@w")
            broker.stop()
            # pytest's own limit catches what never returns.
            events.send("worker-heartbeat", retry=True)
            assert len(events._outbound_buffer) == 1


def test_a_password_is_not_in_the_error() -> None:
    """The broker's URL is shown without its secret."""
    with pytest.raises(UnavailableError) as caught:
        check_broker("redis://:hunter2@127.0.0.1:9/0")
    assert "hunter2" not in str(caught.value)


class TestEmbedded:
    def test_nothing_is_left_after_a_stop(self, tmp_path: Path) -> None:
        """No process, no folder, no record; it listens on no TCP port; only its owner may enter its folder."""
        record = tmp_path / "home" / "broker-folder"
        broker = EmbeddedBroker(record).start()
        folder = Path(record.read_text())
        (process,) = [child for child in psutil.Process().children() if str(folder) in " ".join(child.cmdline())]
        assert [one for one in process.net_connections() if one.status == psutil.CONN_LISTEN] == []
        assert folder.stat().st_mode & 0o077 == 0
        broker.stop()
        assert not process.is_running()
        assert not folder.exists()
        assert not record.exists()
        broker.stop()

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_it_ends_with_its_owner_and_the_next_start_removes_its_folder(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        """Its owner is killed: the server is gone within seconds, and nothing stays after the next start and stop."""
        record = tmp_path / "broker-folder"
        code = (
            "import sys, time; from pathlib import Path; from crb_scheduler.broker import EmbeddedBroker;"
            "broker = EmbeddedBroker(Path(sys.argv[1])).start(); print('up', flush=True); time.sleep(600)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(record)], stdout=subprocess.PIPE, text=True, env=os.environ
        ) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "up\n"
            folder = Path(record.read_text())
            (server,) = psutil.Process(owner.pid).children(recursive=False)
            owner.send_signal(number)
            owner.wait()
        psutil.wait_procs([server], timeout=20)
        assert not server.is_running()
        with EmbeddedBroker(record):
            assert not folder.exists()
        assert not record.exists()

    def test_a_record_that_names_something_else_is_not_followed(self, tmp_path: Path) -> None:
        """Whatever the record says, only a crb folder in the temporary folder is removed."""
        precious = tmp_path / "crb-precious"
        precious.mkdir()
        record = tmp_path / "broker-folder"
        record.write_text(str(precious))
        with EmbeddedBroker(record):
            pass
        assert precious.is_dir()

    def test_two_at_once_do_not_meet(self, tmp_path: Path) -> None:
        """Each has its own socket."""
        with EmbeddedBroker(tmp_path / "a") as first, EmbeddedBroker(tmp_path / "b") as second:
            assert first.url != second.url
            client = BrokerClient(first.url)
            client.nudge()
            other = BrokerClient(second.url)
            assert other.queue_length("crb:nudge") == 0
            assert client.queue_length("crb:nudge") == 1
            client.close()
            other.close()


def test_waiting_for_a_nudge_takes_no_longer_than_asked_when_the_broker_ends(tmp_path: Path) -> None:
    """The scheduler's loop neither spins nor hangs while the broker restarts."""
    broker = EmbeddedBroker(tmp_path / "broker-folder").start()
    client = BrokerClient(broker.url)
    ended = threading.Timer(0.3, broker.stop)
    ended.start()
    started = time.monotonic()
    assert not client.wait_for_nudge(1.0)
    # A lower bound only: that it did not spin. pytest's own limit catches a hang.
    assert time.monotonic() - started >= 0.9
    ended.join()
    client.close()
