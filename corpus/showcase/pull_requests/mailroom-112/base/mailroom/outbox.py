"""Delivery: every recipient gets a message once, and the journal says when."""

import datetime
import pathlib
import threading


class Outbox:
    def __init__(self, transport, journal_dir):
        self._transport = transport
        self._dir = pathlib.Path(journal_dir)
        self._dir.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._sent = set()

    def deliver(self, message, recipient):
        """Send one mail; False when this process has sent it before."""
        key = (message.id, recipient.address)
        with self._lock:
            if key in self._sent:
                return False
            self._transport.send(
                recipient.address, recipient.language, message.subject, message.body
            )
            self._write_journal(message, recipient)
            self._sent.add(key)
        return True

    def _write_journal(self, message, recipient):
        now = datetime.datetime.now()
        path = self._dir / f"{message.tenant}-{now:%Y-%m-%d}.log"
        with open(path, "a", encoding="utf-8") as journal:
            journal.write(f"{now:%H:%M:%S} {message.id} {recipient.address}\n")
