"""The attacks can succeed: in a container as an engine gives it by default, what they look for is there.

Nothing of the sandbox is used here. The container has no network and a memory limit; it is not privileged.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import threading
import time
from pathlib import Path

import docker
import pytest

from tests.hostile.farm import make_repository

pytestmark = [pytest.mark.thorough, pytest.mark.docker, pytest.mark.timeout(120)]


class Careless:
    """A folder that is mounted as it is, with the word in it, and a container without our limits."""

    def __init__(self, engine: docker.APIClient, image: str, root: Path) -> None:
        self._engine, self._image = engine, image
        self.word = secrets.token_hex(12)
        self.root = root
        base, head, self.later = make_repository(root / "repo", self.word)
        (root / "pr").mkdir()
        (root / "out").mkdir()
        self.canary = root / "canary"
        self.canary.mkdir()
        identity = {"repo": "https://github.com/acme/tiny", "pr_number": 7, "base": base, "head": head}
        (root / "pr" / "pr.json").write_text(json.dumps(identity))
        (root / "pr" / "diff.patch").write_text(f"+ {self.word}\n")
        self._environment = {
            "RB_NWO": "acme/tiny",
            "RB_PR_NUMBER": "7",
            "RB_BASE": base,
            "RB_HEAD": head,
            "RB_AGENT": "careless",
            "RB_CONFIG_HUNT": self.word[::-1],
            "RB_CONFIG_LATER": self.later[::-1],
            "RB_CONFIG_CANARY": str(self.canary),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }

    def run(self, attack: str) -> str:
        """What the attack printed."""
        config = self._engine.create_host_config(
            binds={str(self.root / name): {"bind": f"/work/{name}", "mode": "rw"} for name in ("repo", "pr", "out")},
            network_mode="none",
            mem_limit=256 * 1024 * 1024,
            pids_limit=64,
        )
        container = self._engine.create_container(
            self._image, environment=self._environment | {"RB_CONFIG_ATTACK": attack}, host_config=config
        )["Id"]
        try:
            self._engine.start(container)
            self._engine.wait(container, timeout=60)
            return bytes(self._engine.logs(container)).decode()
        finally:
            self._engine.remove_container(container, force=True, v=True)


@pytest.fixture
def careless(engine: docker.APIClient, hostile_image: str, tmp_path: Path) -> Careless:
    return Careless(engine, hostile_image, tmp_path)


@pytest.mark.parametrize(
    ("attack", "reached"),
    [
        ("device-nodes", "making /tmp/node-8-0"),
        ("sockets-of-all-kinds", "a socket of family"),
        ("setuid-program", "a setuid program became"),
        ("hunt-above-the-mounts", "a chroot"),
        ("notes-for-the-next", "removing the diff"),
        ("hunt-in-files", "the word in /work/pr/diff.patch"),
        ("hunt-for-later-commits", "the later commit itself"),
    ],
)
def test_finds_what_is_left_open(careless: Careless, attack: str, reached: str) -> None:
    """Each says BREACH where a plain container lets it through."""
    breaches = [line for line in careless.run(attack).splitlines() if line.startswith("BREACH")]
    assert [line for line in breaches if reached in line], breaches


def test_planted_settings_run_where_git_is_careless(careless: Careless) -> None:
    """git without our options, in the tree that an agent left, runs what was planted."""
    careless.run("planted-git")
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(careless.root)}
    subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(careless.root / "repo"), "diff"],
        env=environment,
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert list(careless.canary.iterdir()) != []


def test_a_lease_blocks_who_shares_the_file(careless: Careless) -> None:
    """On a file that is mounted as it is, everybody else has to wait."""
    blocked = threading.Event()
    thread = threading.Thread(target=careless.run, args=("leases",))
    thread.start()
    until = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < until and not blocked.is_set():
        try:
            os.close(os.open(careless.root / "pr" / "diff.patch", os.O_RDONLY | os.O_NONBLOCK))
        except BlockingIOError:
            blocked.set()
        time.sleep(0.02)
    thread.join()
    assert blocked.is_set()
