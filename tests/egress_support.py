"""The tests' own internet: a network of the engine that leads nowhere, with one server and static names.

Its addresses are of the ranges that are set aside for documentation, so that they are nobody's, and public ones to the
proxy all the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import docker
import pytest
from docker.types import IPAMConfig, IPAMPool

from crb_worker.sandbox.egress_options import EGRESS_IMAGE, EgressOptions

REPOSITORY = Path(__file__).resolve().parents[1]
NET = REPOSITORY / "tests" / "images" / "net"
LABELS = {"crb.tests": "egress"}
#: TEST-NET-2 (RFC 5737) first: the others of its kind are more often in use inside closed networks.
_RANGES = [IPv4Network(each) for each in ("198.51.100.0/24", "203.0.113.0/24", "192.0.2.0/24")]


@dataclass(frozen=True)
class Internet:
    """``server`` is the address of the one server, ``gateway`` that of the engine's machine in the network."""

    network: str
    server: str
    gateway: str
    certificate: str

    def options(self, **changes: object) -> EgressOptions:
        """Egress into this internet only: no name is asked for anywhere."""
        names = {
            "api.example.com": self.server,
            "model.example.com": self.server,
            "other.example.com": self.server,
            "elsewhere.example.com": self.server,
            "private.example.com": "10.11.12.13",
            "loopback.example.com": "127.0.0.1",
            "metadata.example.com": "169.254.169.254",
            "machine.example.com": self.gateway,
        }
        values: dict[str, object] = {"network": self.network, "addresses": names, "dns": ("127.0.0.1",)}
        return EgressOptions(**(values | changes))  # type: ignore[arg-type]


def require_egress_image() -> str:
    """The proxy's image, built where it is not here; skips where it cannot be."""
    if shutil.which("docker") is None:
        pytest.skip("no docker client to build the egress image with")
    built = subprocess.run(
        [str(REPOSITORY / "docker" / "egress" / "build.sh")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"CRB_EGRESS_IMAGE": EGRESS_IMAGE},
    )
    if built.returncode != 0:
        pytest.skip(f"no egress image: {built.stderr.strip()[-300:]}")
    return EGRESS_IMAGE


@contextmanager
def own_internet(engine: docker.APIClient, base_image: str, folder: Path) -> Iterator[Internet]:
    """A network with one server, removed afterwards."""
    key, certificate = _certificate(engine)
    for name, content in (("key.pem", key), ("certificate.pem", certificate)):
        (folder / name).write_text(content)
    shutil.copy(NET / "server.py", folder)
    name, subnet = _network(engine)
    hosts = [str(address) for address in subnet.hosts()]
    server = engine.create_container(
        base_image,
        command=["python3", "/server/server.py"],
        labels=LABELS,
        host_config=engine.create_host_config(network_mode=name, binds=[f"{folder}:/server:ro"], dns=["127.0.0.1"]),
    )["Id"]
    try:
        engine.start(server)
        until = time.monotonic() + 60
        while engine.logs(server).count(b"listening on") < 3:
            assert time.monotonic() < until, engine.logs(server)
            time.sleep(0.05)
        address = engine.inspect_container(server)["NetworkSettings"]["Networks"][name]["IPAddress"]
        yield Internet(network=name, server=address, gateway=hosts[0], certificate=certificate)
    finally:
        engine.remove_container(server, force=True, v=True)
        engine.remove_network(name)


def _network(engine: docker.APIClient) -> tuple[str, IPv4Network]:
    """A /28 that nobody has; the engine itself lets nothing out of it."""
    name = f"crb-tests-{uuid.uuid4().hex[:12]}"
    for subnet in [each for wide in _RANGES for each in wide.subnets(new_prefix=28)]:
        try:
            engine.create_network(
                name,
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
                internal=True,
                labels=LABELS,
                check_duplicate=True,
            )
        except docker.errors.APIError as error:
            if "overlap" not in str(error):
                raise
        else:
            return name, subnet
    raise AssertionError("no documentation addresses are left on this engine")


def _certificate(engine: docker.APIClient) -> tuple[str, str]:
    """A key and a certificate that signs itself, made where openssl is sure to be."""
    names = ",".join(f"DNS:{name}.example.com" for name in ("api", "model", "other", "elsewhere"))
    script = (
        "cd /tmp && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500"
        f" -subj /CN=tests -addext subjectAltName={names} -keyout key.pem -out certificate.pem 2>/dev/null"
        " && cat key.pem && echo ==== && cat certificate.pem"
    )
    container = engine.create_container(
        EGRESS_IMAGE,
        command=["-c", script],
        entrypoint=["sh"],
        labels=LABELS,
        host_config=engine.create_host_config(network_mode="none"),
    )["Id"]
    try:
        engine.start(container)
        engine.wait(container)
        key, _, certificate = engine.logs(container).decode().partition("====\n")
        return key, certificate
    finally:
        engine.remove_container(container, force=True, v=True)
