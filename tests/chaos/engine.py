"""A Docker engine of the tests' own, which they may stop, kill and start again, and an agent for containers."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import docker.errors
import pytest

from crb_core.settings import Settings
from tests.chaos.farm import ChaosFarm
from tests.e2e.farm import wait_for

__all__ = ["EMPTY_IMAGE", "OwnEngine", "agent_for_containers", "own_engine", "remove_a_container", "running_containers"]

#: What stands for the base image in an engine of the tests' own: the agent here needs none.
EMPTY_IMAGE = "crb/empty"
_SCRIPT = """\
/bin/busybox sleep 1.5
finding='{"producer":"t","file":"%s","start_line":1,"end_line":1,"message":"the first line of this file is wrong"}'
printf '{"pr":{"repo":"https://github.com/%s","pr_number":%s,"base":"%s","head":"%s"},"agent":"t","findings":[%s]}' \\
    "$RB_NWO" "$RB_PR_NUMBER" "$RB_BASE" "$RB_HEAD" "$(printf "$finding" README.md)" > "$RB_OUT"
"""


def agent_for_containers(folder: Path) -> Path:
    """An agent whose image needs no other one: a static shell and a script that takes a second and a half."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no static busybox (Debian's package busybox-static)")
    folder.mkdir()
    shutil.copy(busybox, folder / "busybox")
    (folder / "agent.toml").write_text(
        'name = "unhurried"\ndisplay_name = "Unhurried"\ncontacts = ["crb"]\npr_timeout_seconds = 60\n'
        "[limits]\nmemory_mib = 64\npids = 64\ntimeout_seconds = 60\n"
    )
    (folder / "Dockerfile").write_text(
        "FROM scratch\nCOPY busybox /bin/busybox\nCOPY entrypoint /entrypoint\n"
        'ENTRYPOINT ["/bin/busybox", "sh", "/entrypoint"]\n'
    )
    (folder / "entrypoint").write_text(_SCRIPT)
    return folder


def _tar(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


class OwnEngine:
    """dockerd beside the host's: with folders, a socket and a containerd of its own, and without any network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = f"unix://{folder / 'engine.sock'}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it with the images and containers that its folder holds, and wait until it answers."""
        folder = self._folder
        for pid in folder.rglob("*.pid"):
            pid.unlink()
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    # In a network namespace of its own: at its start an engine without a bridge removes docker0, and so
                    # the default network of the engine beside it.
                    *("unshare", "--net", "--"),
                    *("dockerd", "-H", self.url, "--data-root", str(folder / "data"), "--bridge=none"),
                    *("--exec-root", str(folder / "exec"), "--pidfile", str(folder / "engine.pid")),
                    *("--iptables=false", "--ip-forward=false", "--ip-masq=false"),
                    *("--containerd-namespace", "crb-chaos", "--containerd-plugins-namespace", "crb-chaos-plugins"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._answers, seconds=90, every=0.5)
        client = docker.APIClient(base_url=self.url)
        client.import_image_from_data(_tar("marker"), repository=EMPTY_IMAGE, tag="latest")
        client.close()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            client = docker.DockerClient(base_url=self.url)
            client.close()
        except docker.errors.DockerException:
            return False
        return True

    def stop(self, number: signal.Signals) -> None:
        """SIGTERM ends its containers first; SIGKILL leaves them."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(60)
        self._process = None

    def close(self) -> None:
        """End it with all its containers and its containerd."""
        if self._process is None:
            self.start()
        self.stop(signal.SIGTERM)


@contextmanager
def own_engine() -> Iterator[OwnEngine]:
    """One engine, removed afterwards; skips, with the reason, where dockerd cannot be started."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("an engine of the tests' own needs root and dockerd")
    # Sockets want short paths.
    folder = Path(tempfile.mkdtemp(prefix="crb-engine-"))
    engine = OwnEngine(folder)
    try:
        engine.start()
        yield engine
        engine.close()
    finally:
        for mounted in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            path = mounted.split()[1]
            if path.startswith(f"{folder}/"):
                subprocess.run(["umount", "--lazy", path], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def running_containers(farm: ChaosFarm) -> list[str]:
    """Ids of the running containers of a farm's attempts."""
    url = farm.settings.get("DOCKER_HOST")
    client = docker.DockerClient(base_url=url) if url else docker.from_env()
    ours = {"label": f"crb.farm={Settings(home=farm.home).farm}"}
    try:
        return [container.id for container in client.containers.list(filters=ours)]
    except docker.errors.DockerException:
        return []
    finally:
        client.close()


def remove_a_container(farm: ChaosFarm) -> None:
    """As a person does who cleans up too much."""
    client = docker.from_env()
    try:
        with farm.fault("container removed from outside"):
            victim = wait_for(lambda: running_containers(farm), every=0.05)[0]
            client.api.remove_container(victim, force=True)
    finally:
        client.close()
