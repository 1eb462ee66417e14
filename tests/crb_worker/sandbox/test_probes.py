"""A probe of the engine leaves nothing, also where its process was killed in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.probe_folder import PROBE_LABEL, ProbeFolder, dead_probes

#: The process ends itself where its container is there and was not looked at yet.
KILLED = """
import os, signal, sys
from pathlib import Path
from crb_worker.sandbox.engine import Engine
engine = Engine(1)
engine.api.put_archive = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
engine.has_overlay(Path(sys.argv[1]))
"""


def test_only_the_probes_of_dead_processes_are_found(tmp_path: Path) -> None:
    """One that is held is left alone; one that was given up without being removed is found."""
    held = ProbeFolder(tmp_path)
    left = ProbeFolder(tmp_path)
    left.close(remove=False)
    assert list(dead_probes(tmp_path)) == [(left.id, left.path)]
    held.close(remove=True)
    assert not held.path.exists()
    assert list(dead_probes(tmp_path / "nowhere")) == []


def left_in_engine(api: docker.APIClient, probe: str) -> list[object]:
    ours = {"label": f"{PROBE_LABEL}={probe}"}
    return [
        *api.containers(all=True, filters=ours),
        *(api.volumes(filters=ours)["Volumes"] or []),
        *api.images(f"crb/probe:{probe}"),
    ]


@pytest.mark.docker
def test_a_killed_probe_is_removed_by_the_next_reaping(tmp_path: Path) -> None:
    """Container, volume, image and folder of a process that was killed in it are gone after it."""
    workspace = tmp_path / "attempts"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(workspace)], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    ((probe, folder),) = dead_probes(workspace)
    engine = Engine(1)
    try:
        assert len(left_in_engine(engine.api, probe)) == 3
        assert len(engine.remove_dead_probes(workspace)) == 1
        assert left_in_engine(engine.api, probe) == []
        assert not folder.exists()
        assert engine.remove_dead_probes(workspace) == []
        engine.has_overlay(workspace)
        assert list(workspace.iterdir()) == []
    finally:
        engine.close()
