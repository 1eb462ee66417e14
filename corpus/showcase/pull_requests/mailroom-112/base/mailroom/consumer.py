"""The worker threads."""

import logging
import threading

from mailroom.directory import Directory
from mailroom.outbox import Outbox
from mailroom.queue import Queue
from mailroom.resolver import Resolver
from mailroom.transport import RelayTransport

log = logging.getLogger(__name__)


class Worker(threading.Thread):
    def __init__(self, config, queue, outbox, stop):
        super().__init__(daemon=True)
        self._config = config
        self._queue = queue
        self._outbox = outbox
        self._stop_event = stop

    def run(self):
        resolver = Resolver(Directory(self._config.directory_path))
        while not self._stop_event.is_set():
            if not self.step(resolver):
                self._stop_event.wait(self._config.idle_seconds)

    def step(self, resolver):
        """Handle one message; False when there was none."""
        message = self._queue.claim()
        if message is None:
            return False
        try:
            for recipient in resolver.resolve(message):
                self._outbox.deliver(message, recipient)
        except Exception:
            log.exception("message %d goes back to the queue", message.id)
            self._queue.release(message)
        else:
            self._queue.ack(message)
        return True


def start(config, stop):
    queue = Queue(config.queue_path, config.lease_seconds)
    outbox = Outbox(RelayTransport(config.relay), config.journal_dir)
    workers = [Worker(config, queue, outbox, stop) for _ in range(config.workers)]
    for worker in workers:
        worker.start()
    return workers
