"""An engine that hangs, a container that somebody paused, a mount that failed: none of it counts against the agent."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from crb_core.agent import Outcome
from crb_worker.sandbox import ended, watch
from crb_worker.sandbox.contract import AttemptResult
from crb_worker.sandbox.docker import DockerSandbox
from crb_worker.sandbox.ended import is_the_images_fault
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, Ground, Relay
from tests.crb_worker.sandbox.test_docker import Waiting, container_of, meanwhile

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

RUNC = "OCI runtime create failed: runc create failed: unable to start container process: "


@pytest.fixture
def relay(docker_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """Between the ground's sandbox and the engine."""
    direct = docker_ground.sandbox
    made = Relay(Path(tempfile.mkdtemp()) / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    docker_ground.sandbox = DockerSandbox(slots=1)
    yield made
    made.go_on()
    docker_ground.sandbox.close()
    docker_ground.sandbox = direct
    shutil.rmtree(made.path.parent)


def hung(
    ground: Ground,
    engine: docker.APIClient,
    relay: Relay,
    script: str,
    seconds: float,
    *,
    after: float = 0,
    limit: int = 2,
) -> AttemptResult:
    """What comes of an attempt whose engine hangs for so many seconds while the agent runs, which has ``limit``."""

    def hang() -> None:
        container_of(engine, ground)
        time.sleep(after)
        relay.hang()
        threading.Timer(seconds, relay.go_on).start()

    return meanwhile(ground, script, hang, timeout_seconds=limit)


def test_an_agent_that_ends_while_the_engine_hangs_has_ended_in_time(
    docker_ground: Ground, engine: docker.APIClient, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The farm hears of it after the deadline, and of when it was; how long the review took nobody has measured."""
    monkeypatch.setattr(ended, "LATE_SECONDS", 1.0)
    result = hung(docker_ground, engine, relay, "sleep 0.5; " + EMPTY_REVIEW, 4)
    assert (result.outcome, result.exit_code) == (Outcome.SUCCEEDED, 0), result.detail
    assert result.review_ms is None
    assert re.fullmatch(
        r"The agent reviewed the pull request and found nothing\. The engine told of the end \d s late, so how long the"
        r" review took is not known\.",
        result.detail,
    )
    assert result.engine_ms is not None
    assert result.engine_ms < 2000


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", ["60", "3"])
def test_an_agent_that_takes_longer_than_its_time_has_not(
    docker_ground: Ground, engine: docker.APIClient, relay: Relay, seconds: str
) -> None:
    """Whether it still runs when the engine answers again, or ended before that, and late."""
    result = hung(docker_ground, engine, relay, f"sleep {seconds}; " + EMPTY_REVIEW, 5)
    assert result.outcome is Outcome.TIMEOUT
    assert result.detail == "The agent was not done after 2 seconds."


@pytest.mark.thorough
def test_an_engine_that_hangs_at_the_deadline_is_the_farms_fault(
    docker_ground: Ground, engine: docker.APIClient, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what became of the agent."""
    monkeypatch.setattr(watch, "ENGINE_PATIENCE", 1.0)
    # Not before it was asked what the agent's disk is.
    result = hung(docker_ground, engine, relay, "sleep 3; " + EMPTY_REVIEW, 8, after=2.5, limit=5)
    assert result.outcome is Outcome.ENGINE_ERROR
    assert "did not answer in time" in result.detail


@pytest.mark.parametrize("goes_on", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_paused_container_is_the_farms_fault(docker_ground: Ground, engine: docker.APIClient, goes_on: bool) -> None:
    """Whether it still is at the deadline, or was let go on too late."""

    def pause() -> None:
        victim = container_of(engine, docker_ground)
        engine.pause(victim)
        if goes_on:
            time.sleep(1.5)
            engine.unpause(victim)

    result = meanwhile(docker_ground, "sleep 60", pause, timeout_seconds=3)
    assert result.outcome is Outcome.ENGINE_ERROR
    assert result.detail == "The container was paused from outside the farm while the agent ran."


def test_a_mount_that_fails_is_the_farms_fault(docker_ground: Ground, engine: docker.APIClient) -> None:
    """A folder of the attempt that vanished before the start."""
    waiting = Waiting(docker_ground, engine)
    try:
        (folder,) = (each for each in docker_ground.workspace.iterdir() if waiting.second.attempt_id in each.name)
        shutil.rmtree(folder / "pr")
        waiting.free_the_slot()
        result = waiting.result()
    finally:
        waiting.close()
    assert result.outcome is Outcome.ENGINE_ERROR, result.detail
    assert docker_ground.leftovers() == []


@pytest.mark.parametrize(
    ("exit_code", "problem", "is_the_images"),
    [
        (127, RUNC + 'exec: "/agent": stat /agent: no such file or directory: unknown', True),
        (126, RUNC + 'exec: "/bin": permission denied: unknown', True),
        (126, RUNC + 'chdir to cwd ("/root") set in config.json failed: permission denied: unknown', True),
        (127, "crun: executable file `agent` not found in $PATH: No such file or directory: OCI runtime error", True),
        (0, "unable to find user agent: no matching entries in passwd file", True),
        (126, RUNC + "unable to apply cgroup configuration: open /sys/fs/cgroup/x: permission denied: unknown", False),
        (127, RUNC + 'error mounting "/x/out" to rootfs at "/work/out": no such file or directory: unknown', False),
        (128, RUNC + "can't get final child's PID from pipe: EOF: unknown", False),
        (0, 'invalid mount config for type "bind": bind source path does not exist: /x/pr', False),
    ],
)
def test_what_could_not_be_started_failed_by_its_image_or_not(
    exit_code: int, problem: str, is_the_images: bool
) -> None:
    """An engine gives a refused mount or control group the exit code of a command that is not there."""
    assert is_the_images_fault(exit_code, problem) is is_the_images
