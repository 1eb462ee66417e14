"""One farm for all attacks of a process, so that each attack has a trial before and after it on the same worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from crb_scheduler.broker import EmbeddedBroker
from crb_worker.sandbox.docker import BASE_IMAGE
from tests.crb_worker.sandbox.support import build_image
from tests.hostile.farm import HostileFarm, outside
from tests.hostile.report import REPORT_VARIABLE, Record, table

IMAGE = Path(__file__).parent / "image"


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.APIClient]:
    """A client of the engine."""
    client = docker.APIClient(version="auto")
    yield client
    client.close()


@pytest.fixture(scope="session")
def hostile_image(engine: docker.APIClient) -> str:
    """The id of the image with all attacks."""
    base = os.environ.get("CRB_BASE_IMAGE") or BASE_IMAGE
    files = {str(path.relative_to(IMAGE)): path.read_bytes() for path in sorted(IMAGE.rglob("*.py"))}
    dockerfile = (IMAGE / "Dockerfile").read_text().replace("crb/base:bookworm", base)
    return build_image(engine, "crb/test-hostile", files | {"Dockerfile": dockerfile.encode()})


@pytest.fixture(scope="session")
def records() -> Iterator[list[Record]]:
    """What the attacks came to; written to the file that CRB_HOSTILE_REPORT names."""
    made: list[Record] = []
    yield made
    if os.environ.get(REPORT_VARIABLE):
        Path(os.environ[REPORT_VARIABLE]).write_text(table(made))


@pytest.fixture(scope="session")
def farm(
    engine: docker.APIClient, hostile_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HostileFarm]:
    """The farm, with its baseline measured."""
    folder = tmp_path_factory.mktemp("hostile")
    with EmbeddedBroker(folder / "broker") as broker, outside(engine) as around:
        opened = HostileFarm(folder, hostile_image, broker.url, engine, around)
        try:
            yield opened
        finally:
            opened.close()
