import threading

import pytest

from mailroom import status
from mailroom.config import Config
from mailroom.consumer import Worker
from mailroom.directory import Directory
from mailroom.outbox import Outbox
from mailroom.queue import Queue
from mailroom.resolver import Resolver
from mailroom.transport import MemoryTransport


@pytest.fixture
def setup(tmp_path):
    config = Config(
        queue_path=str(tmp_path / "queue.sqlite3"),
        directory_path=str(tmp_path / "directory.sqlite3"),
        journal_dir=str(tmp_path / "journal"),
        relay="",
    )
    queue = Queue(config.queue_path, config.lease_seconds)
    transport = MemoryTransport()
    outbox = Outbox(transport, config.journal_dir)
    worker = Worker(config, queue, outbox, threading.Event())
    directory = Directory(config.directory_path)
    directory.add("acme", "sales", "sales@acme.example", language="de")
    directory.add("acme", "quiet", "quiet@acme.example", mail="off")
    return worker, queue, directory, transport


def test_delivers_and_acknowledges(setup):
    worker, queue, directory, transport = setup
    queue.put("acme", ["sales", "quiet", "nobody"], "Hello", "text")
    assert worker.step(Resolver(directory))
    assert transport.sent == [("sales@acme.example", "de", "Hello", "text")]
    assert queue.depth() == 0


def test_idle(setup):
    worker, _, directory, _ = setup
    assert not worker.step(Resolver(directory))


def test_failed_delivery_goes_back(setup):
    worker, queue, directory, transport = setup
    queue.put("acme", ["sales"], "Hello", "text")
    transport.send = None
    worker.step(Resolver(directory))
    assert queue.depth() == 1
    assert queue.claim() is not None


def test_status_page(setup):
    _, queue, _, _ = setup
    assert "<td>queue depth</td><td>0</td><td>ok</td>" in status.render(queue)
