"""An agent that changes after its sweep has begun is never mixed into it."""

from __future__ import annotations

import json
from pathlib import Path

import docker
import pytest

from crb_core.store import open_store
from crb_core.store.sweeps import find_sweep, sweep_builds
from tests.e2e.farm import crb
from tests.e2e.test_docker import REVIEW, _agent, _sweep

pytestmark = [pytest.mark.thorough, pytest.mark.docker, pytest.mark.timeout(240)]


def test_a_retry_under_another_configuration_is_refused(tmp_path: Path) -> None:
    """Another script, another limit, an image that is gone: each is named, and nothing runs (see test_unchanged)."""
    home, folder = tmp_path / "home", tmp_path / "agent"
    agent = _agent(folder, f'# {tmp_path}\n[ "$RB_ATTEMPT" -le 2 ] && exit 7\n{REVIEW}', name="changing")
    start = _sweep(agent, "--rounds", "1", "--name", "kept")
    assert crb(*start, home=home).returncode == 3

    def refused(*arguments: str) -> str:
        ran = crb(*arguments, home=home)
        assert ran.returncode == 1, ran.stdout
        assert "Traceback" not in ran.stderr
        return ran.stderr

    script, manifest = (folder / "entrypoint").read_text(), (folder / "agent.toml").read_text()
    (folder / "entrypoint").write_text(REVIEW)
    (folder / "agent.toml").write_text(manifest.replace("memory_mib = 64", "memory_mib = 96"))
    said = refused("trial", "retry", "--failed", "--dry-run")
    assert "The agent changing of sweep kept is another build now" in said
    assert "image was sha256:" in said
    assert "limits.memory_mib was 64 and is 96" in said
    said = refused(*start)
    assert "The sweep kept measures another build of the agent changing: image was sha256:" in said

    (folder / "entrypoint").write_text(script)
    (folder / "agent.toml").write_text(manifest)
    shown = json.loads(crb("sweep", "show", "kept", "--json", home=home).stdout)
    assert (shown["by_state"], shown["operations"]) == ({"failed": 1}, [])
    assert [build["agent_source"] for build in shown["limits"]["builds"]] == [str(folder)]

    client = docker.from_env()
    image = client.images.get(_image_id(home))
    (name,) = image.tags
    image.tag("crb/test-kept", "1")
    client.images.remove(name)
    said = refused("trial", "retry", "1")
    assert "The image of agent changing in sweep kept" in said
    assert "is not to be had" in said
    client.images.get("crb/test-kept:1").tag(*name.split(":"))
    client.images.remove("crb/test-kept:1")
    client.close()

    retried = crb("trial", "retry", "1", home=home)
    assert retried.returncode == 0, retried.stderr
    trial = json.loads(crb("trial", "show", "1", "--json", home=home).stdout)
    assert [attempt["outcome"] for attempt in trial["attempts"]] == ["nonzero_exit", "nonzero_exit", "succeeded"]


def _image_id(home: Path) -> str:
    """The image id of the sweep's one build."""
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        (build,) = sweep_builds(connection, find_sweep(connection, "kept").id)
    store.close()
    return build.image_id
