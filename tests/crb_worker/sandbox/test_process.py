"""What only the process runner does: it owns processes, so it must not leave one behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import psutil
import pytest

from crb_core.agent import Outcome, Secrets
from crb_core.errors import UnavailableError
from crb_worker.sandbox.process import ProcessSandbox
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, IMAGES, Ground, with_secrets


def processes(mark: str) -> list[int]:
    """Pids of processes with ``mark`` among their words."""
    return [process.pid for process in psutil.process_iter(["cmdline"]) if mark in (process.info["cmdline"] or [])]


def wait_until(condition: object, wanted: bool) -> None:
    """Until ``condition()`` is ``wanted``."""
    until = time.monotonic() + 30
    while bool(condition()) is not wanted:  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot follow a process that leaves its session")
def test_dies_with_its_farm(process_ground: Ground) -> None:
    """kill -9 of the farm ends agents and their daemons; the next start removes the folder."""
    mark = f"6{uuid.uuid4().int % 10**6:06d}"
    second = process_ground.root / "second"
    program = f"""
    from pathlib import Path
    from tests.crb_worker.sandbox.support import Ground, IMAGES
    from crb_worker.sandbox.process import ProcessSandbox
    Path({str(second)!r}).mkdir()
    ground = Ground(ProcessSandbox(agents=IMAGES), {process_ground.image_id!r}, Path({str(second)!r}),
                    {process_ground.farm!r})
    ground.run("trap '' TERM HUP; setsid sleep {mark} & sleep {mark}")
    """
    farm = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=Path(__file__).parents[3])
    try:
        wait_until(lambda: len(processes(mark)) == 2, True)
    finally:
        farm.send_signal(signal.SIGKILL)
        farm.wait()
    wait_until(lambda: processes(mark), False)
    next_start = ProcessSandbox(agents=IMAGES, workspace=second / "attempts")
    assert len(next_start.reap(process_ground.farm, ())) == 1
    assert list((second / "attempts").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting something that cannot be removed needs root")
def test_a_teardown_that_fails_does_not_hide_how_the_agent_ended(process_ground: Ground) -> None:
    """Its exit code and its output are the attempt's; what could not be removed is removed by the next reaping."""
    script = 'mkdir "$RB_REPO/busy" && mount -t tmpfs none "$RB_REPO/busy" && echo why >&2; exit 3'
    try:
        result = process_ground.run(script)
    finally:
        left = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        busy = [path for path in left if path.startswith(f"{process_ground.root}/")]
        for path in busy:
            subprocess.run(["umount", path], check=True)
    if not busy:
        pytest.skip("this user may not mount")
    assert (result.outcome, result.exit_code, result.stderr) == (Outcome.NONZERO_EXIT, 3, b"why\n")
    assert len(process_ground.sandbox.reap(process_ground.farm, ())) == 1


def test_runs_bundled_agents_only() -> None:
    """Other people's agents need a container."""
    with pytest.raises(UnavailableError, match="no agent"):
        ProcessSandbox().resolve("not-bundled")


def test_refuses_an_agent_that_has_changed(process_ground: Ground, tmp_path: Path) -> None:
    """The folder that runs is the folder that the build recorded."""
    result = process_ground.run(EMPTY_REVIEW, image_id="sha256:" + "0" * 64)
    assert result.outcome is Outcome.IMAGE_UNAVAILABLE
    assert "has changed" in result.detail


def test_refuses_secret_files(process_ground: Ground) -> None:
    """It has no file system of its own to put them into."""
    request = with_secrets(process_ground, EMPTY_REVIEW, Secrets(files=("/run/key",)), {"/run/key": "k"})
    result = process_ground.sandbox.run(request)
    assert result.outcome is Outcome.ENGINE_ERROR
    assert "secret files" in result.detail


def test_names_what_it_cannot_give() -> None:
    """Users are told that it is not isolated, and in what way."""
    sandbox = ProcessSandbox()
    assert sandbox.isolated is False
    assert any("network" in line for line in sandbox.limitations)


def test_knows_the_agent_by_its_folder(process_ground: Ground) -> None:
    """The image id is the digest of the agent's folder."""
    assert process_ground.sandbox.resolve("shell").image_id.startswith("sha256:")
    assert IMAGES.name == "images"
