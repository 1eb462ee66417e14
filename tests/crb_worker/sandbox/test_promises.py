"""What a runner promises beyond the contract, tried on every runner and held against the list that users are shown.

A sandbox that comes later is added to the fixture ``ground`` and to ``RUNNERS``; these tests then say which of its
sentences are missing or not true.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crb_core.agent import Outcome, Secrets
from crb_core.errors import UnavailableError
from crb_core.runners import RUNNERS, Promise
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, Ground, with_secrets

DOCS = Path(__file__).parents[3] / "docs"
TRIALS: dict[Promise, Callable[[Ground, pytest.FixtureRequest], bool]] = {}


def tries(promise: Promise) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Registers a function that says whether the ground's runner keeps a promise."""

    def register(trial: Callable[..., bool]) -> Callable[..., bool]:
        TRIALS[promise] = trial
        return trial

    return register


def printed(ground: Ground, script: str, **changes: object) -> str:
    """What a script prints, without what it says on stderr; its attempt must succeed."""
    result = ground.run(f"{{ {script}\n}} 2>&1; {EMPTY_REVIEW}", **changes)
    assert result.outcome is Outcome.SUCCEEDED, result.detail
    return result.stdout.decode()


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A server on loopback: its port, and what it was sent."""
    received: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def accept() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        received.append(connection.recv(100))
            except OSError:
                return

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1], received
        # close alone does not wake a thread that waits in accept.
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@tries(Promise.DECLARED_NETWORK)
def _network(ground: Ground, request: pytest.FixtureRequest) -> bool:
    port, received = request.getfixturevalue("listener")
    python = f"import socket; socket.create_connection(('127.0.0.1', {port})).send(b'hello')"
    tools = f'if command -v python; then python -c "{python}"; else echo hello | nc 127.0.0.1 {port}; fi; true'
    said = printed(ground, tools)
    assert received or "refused" in said, said
    return not received


@tries(Promise.OWN_FILES)
def _files(ground: Ground, request: pytest.FixtureRequest) -> bool:
    other = ground.root / "another-attempt.txt"
    other.write_text("of somebody else")
    return "of somebody else" not in printed(ground, f"cat {other}; true")


@tries(Promise.OWN_PROCESSES)
def _processes(ground: Ground, request: pytest.FixtureRequest) -> bool:
    # Not this process: what its own line says depends on who started it.
    with subprocess.Popen(["sleep", "4321.25"]) as other:
        try:
            return "4321.25" not in printed(ground, f"tr '\\0' ' ' < /proc/{other.pid}/cmdline; true")
        finally:
            other.kill()


def _control_groups(ground: Ground, *names: str, **limits: object) -> str:
    """What the control groups that an agent is in say of its limits."""
    paths = " ".join(f"/sys/fs/cgroup/{name}" for name in names)
    return printed(ground, f"cat {paths}; true", **limits)


@tries(Promise.CPU_LIMIT)
def _cpu(ground: Ground, request: pytest.FixtureRequest) -> bool:
    return "47000" in _control_groups(ground, "cpu/cpu.cfs_quota_us", "cpu.max", cpus=0.47)


@tries(Promise.MEMORY_LIMIT)
def _memory(ground: Ground, request: pytest.FixtureRequest) -> bool:
    return str(97 * 1024 * 1024) in _control_groups(ground, "memory/memory.limit_in_bytes", "memory.max", memory_mib=97)


@tries(Promise.PROCESS_LIMIT)
def _process_count(ground: Ground, request: pytest.FixtureRequest) -> bool:
    script = "i=0; while [ $i -lt 40 ]; do sleep 2 & echo started $i; i=$((i+1)); done"
    result = ground.run(f"{EMPTY_REVIEW} {script}", pids=16)
    return b"started 39" not in result.stdout


@tries(Promise.READ_ONLY_PULL_REQUEST)
def _read_only(ground: Ground, request: pytest.FixtureRequest) -> bool:
    said = printed(ground, 'chmod u+w "$RB_DIFF"; echo changed > "$RB_DIFF"; cat "$RB_DIFF"')
    assert (ground.pr_files / "diff.patch").read_text().startswith("diff --git")
    return "changed" not in said


@tries(Promise.NO_NEW_RIGHTS)
def _new_rights(ground: Ground, request: pytest.FixtureRequest) -> bool:
    return "NoNewPrivs:\t1" in printed(ground, "grep NoNewPrivs /proc/self/status")


@tries(Promise.SECRET_FILES)
def _secret_files(ground: Ground, request: pytest.FixtureRequest) -> bool:
    declared = Secrets(files=("/run/key",))
    wanted = with_secrets(ground, f"cat /run/key; {EMPTY_REVIEW}", declared, {"/run/key": "k-file"})
    return ground.sandbox.run(wanted).outcome is Outcome.SUCCEEDED


@tries(Promise.ANY_IMAGE)
def _any_image(ground: Ground, request: pytest.FixtureRequest) -> bool:
    try:
        ground.sandbox.resolve("crb/test-shell", pull=False)
    except UnavailableError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="what it looks at is Linux's")
@pytest.mark.parametrize("promise", Promise)
def test_keeps_what_it_does_not_say_to_lack(ground: Ground, promise: Promise, request: pytest.FixtureRequest) -> None:
    """A promise is kept exactly where the list does not say that it is lacking."""
    runner = RUNNERS[ground.sandbox.name]
    assert TRIALS[promise](ground, request) is (promise not in runner.lacks)


def test_shows_the_list(ground: Ground) -> None:
    """Each sandbox shows the sentences of its runner, and is isolated where the list says so."""
    runner = RUNNERS[ground.sandbox.name]
    assert ground.sandbox.limitations == runner.limitations
    assert ground.sandbox.isolated is runner.isolated is (ground.sandbox.name == "docker")


@pytest.mark.parametrize("name", RUNNERS)
def test_documents_say_the_same(name: str) -> None:
    """Every sentence of the list is in the users' page, word for word."""
    page = " ".join((DOCS / "users.md").read_text().split())
    assert [sentence for sentence in RUNNERS[name].limitations if sentence not in page] == []
