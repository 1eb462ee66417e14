"""Sandboxes to test, each on its own ground."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from crb_worker.sandbox.contract import Sandbox
from crb_worker.sandbox.docker import BASE_IMAGE, DockerSandbox
from crb_worker.sandbox.egress_options import EgressOptions
from crb_worker.sandbox.process import ProcessSandbox
from tests.crb_worker.sandbox.egress_ground import internet, net, python_image
from tests.crb_worker.sandbox.support import IMAGES, Ground, build_image

__all__ = ["internet", "net", "python_image"]

#: Agents of these tests have no network, whatever images this machine has; tests of egress say otherwise.
NO_EGRESS = EgressOptions(image="crb/no-such-proxy:1")


@pytest.fixture(scope="session")
def engine() -> docker.APIClient:
    """A client of the engine; skips where none answers."""
    try:
        return docker.APIClient(version="auto")
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture(scope="session")
def shell_image(engine: docker.APIClient) -> str:
    """The id of the image in tests/images/shell."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no static busybox (package busybox-static)")
    files = {name: (IMAGES / "shell" / name).read_bytes() for name in ("Dockerfile", "entrypoint")}
    return build_image(engine, "crb/test-shell", files | {"busybox": Path(busybox).read_bytes()})


@pytest.fixture(scope="session")
def base_image(engine: docker.APIClient) -> str:
    """The id of the base image; skips where docker/base/build.sh was not run."""
    try:
        return str(engine.inspect_image(BASE_IMAGE)["Id"])
    except docker.errors.ImageNotFound:
        pytest.skip("no base image (docker/base/build.sh)")


def _ground(sandbox: Sandbox, image_id: str, root: Path) -> Iterator[Ground]:
    ground = Ground(sandbox, image_id, root)
    yield ground
    left = ground.leftovers()
    ground.sandbox.close()
    assert left == [], "every attempt removes its folder, container and volumes"


@pytest.fixture
def docker_ground(shell_image: str, tmp_path: Path) -> Iterator[Ground]:
    """The Docker sandbox."""
    yield from _ground(DockerSandbox(slots=4, egress=NO_EGRESS), shell_image, tmp_path)


@pytest.fixture
def process_ground(tmp_path: Path) -> Iterator[Ground]:
    """The process sandbox."""
    sandbox = ProcessSandbox(slots=4, agents=IMAGES)
    yield from _ground(sandbox, sandbox.resolve("shell").image_id, tmp_path)


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def ground(request: pytest.FixtureRequest) -> Ground:
    """Every sandbox in turn: what the contract says holds in each."""
    found: Ground = request.getfixturevalue(f"{request.param}_ground")
    return found
