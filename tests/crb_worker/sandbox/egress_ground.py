"""Agents in the tests' own internet, and what a test asks of their networks."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from crb_core.agent import Outcome
from crb_worker.sandbox.contract import FARM_LABEL, AttemptResult
from crb_worker.sandbox.docker import DockerSandbox
from crb_worker.sandbox.pool_lock import POOL_LABEL
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, Ground, build_image
from tests.egress_support import NET, Internet, own_internet, require_egress_image

API = ("api.example.com",)


@pytest.fixture(scope="session")
def internet(engine: docker.APIClient, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """The tests' own internet."""
    require_egress_image()
    with own_internet(engine, base_image, tmp_path_factory.mktemp("internet")) as found:
        yield found


@pytest.fixture(scope="session")
def python_image(engine: docker.APIClient, base_image: str) -> str:
    """The base image, running the script that a test puts into the checkout."""
    del base_image
    dockerfile = b'FROM crb/base:bookworm\nENTRYPOINT ["/bin/sh", "/work/repo/.agent.sh"]\n'
    return build_image(engine, "crb/test-net", {"Dockerfile": dockerfile})


class Net(Ground):
    """Ground whose agents try what their network gives."""

    def tries(self, *tries: tuple[Any, ...], more: str = "", **changes: Any) -> tuple[dict[str, str], AttemptResult]:
        """Run one attempt that tries ``(name, function of client.py, arguments...)``."""
        result = self.run(script(tries) + more + EMPTY_REVIEW, **({"egress": API} | changes))
        assert result.outcome is Outcome.SUCCEEDED, (result.detail, result.stderr)
        found: dict[str, str] = json.loads(result.stdout.decode().splitlines()[0])
        return found, result


def script(tries: tuple[tuple[Any, ...], ...]) -> str:
    return f"python3 $RB_REPO/client.py {shlex.quote(json.dumps(tries))}\n"


def ground_in(internet: Internet, image_id: str, root: Path, *, slots: int = 4, **options: Any) -> Net:
    """A ground whose sandbox reaches ``internet``; ``options`` are those of EgressOptions."""
    ground = Net(DockerSandbox(slots=slots, egress=internet.options(**options)), image_id, root)
    shutil.copy(NET / "client.py", ground.repo)
    (ground.repo / "ca.pem").write_text(internet.certificate)
    return ground


@pytest.fixture
def net(internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient) -> Iterator[Net]:
    """A ground in the tests' internet. Whatever a test does, nothing is left."""
    ground = ground_in(internet, python_image, tmp_path)
    yield ground
    ground.sandbox.close()
    assert ground.leftovers() == []
    assert networks(engine, ground) == []


def networks(engine: docker.APIClient, ground: Ground) -> list[dict[str, Any]]:
    return list(engine.networks(filters={"label": f"{FARM_LABEL}={ground.farm}"}))


def proxies(engine: docker.APIClient, ground: Ground) -> list[dict[str, Any]]:
    return [
        each
        for each in engine.containers(all=True, filters={"label": f"{FARM_LABEL}={ground.farm}"})
        if POOL_LABEL in each["Labels"]
    ]


def refused(result: AttemptResult) -> set[tuple[str, int | None, str]]:
    assert result.refused_hosts is not None
    return {(each.host, each.port, each.why) for each in result.refused_hosts}


def address_of(engine: docker.APIClient, attempt_id: str) -> str:
    """The address of an attempt's agent, once it runs."""
    until = time.monotonic() + 60
    while True:
        try:
            facts = engine.inspect_container(f"crb-{attempt_id}")
        except docker.errors.NotFound:
            facts = {"State": {"Running": False}}
        if facts["State"]["Running"]:
            ((_, endpoint),) = facts["NetworkSettings"]["Networks"].items()
            return str(endpoint["IPAddress"])
        assert time.monotonic() < until, "the attempt was not started"
        time.sleep(0.05)
