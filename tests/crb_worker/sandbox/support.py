"""An agent whose script each test writes itself, and the ground it runs on."""

from __future__ import annotations

import contextlib
import io
import socket
import subprocess
import tarfile
import threading
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker

from crb_core.agent import AgentBuild, Limits, Secrets
from crb_core.pull_request import PullRequest
from crb_worker.sandbox.contract import FARM_LABEL, AttemptRequest, AttemptResult, Sandbox

IMAGES = Path(__file__).parents[2] / "images"
HEAD, BASE = "a" * 40, "b" * 40

#: Prints without end, 71 bytes a line.
FLOOD = f"yes {'0123456789' * 7} "
#: Writes a valid review of nothing.
EMPTY_REVIEW = """
cat > "$RB_OUT" <<END
{"pr": {"repo": "https://github.com/$RB_NWO", "pr_number": $RB_PR_NUMBER, "base": "$RB_BASE", "head": "$RB_HEAD"},
 "agent": "$RB_AGENT", "findings": []}
END
"""


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below ``root`` with its mode and content."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(root.rglob("*"))
    }


@dataclass
class Ground:
    """A sandbox with one snapshot; ``run`` gives the agent a script and runs one attempt."""

    sandbox: Sandbox
    image_id: str
    root: Path
    farm: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.repo, self.pr_files, self.workspace = self.root / "repo", self.root / "pr", self.root / "attempts"
        self.repo.mkdir()
        self.pr_files.mkdir()
        (self.repo / "src").mkdir()
        (self.repo / "src" / "app.py").write_text("print('one')\n")
        (self.repo / "README.md").write_text("read me\n")
        subprocess.run(["git", "init", "-q", str(self.repo)], check=True, capture_output=True)
        (self.pr_files / "diff.patch").write_text("diff --git a/src/app.py b/src/app.py\n")
        (self.pr_files / "pr.json").write_text('{"pr_number": 7}\n')
        self.pull_request = PullRequest(
            key="tiny-7", repo="https://github.com/acme/tiny", number=7, base=BASE, head=HEAD, title="Tiny"
        )

    def request(self, script: str, **changes: Any) -> AttemptRequest:
        """A request for ``script``. Fields of Limits, AgentBuild and AttemptRequest may be changed by name."""
        (self.repo / ".agent.sh").write_text(script)
        for path in (self.repo, *self.repo.rglob("*")):
            path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))
        limits = {name: changes.pop(name) for name in list(changes) if name in Limits.model_fields}
        build = {name: changes.pop(name) for name in list(changes) if name in AgentBuild.model_fields}
        limits = {"memory_mib": 128, "timeout_seconds": 60, "cpus": 1.0, "pids": 64, "disk_mib": 64} | limits
        values: dict[str, Any] = {
            "agent": "shell",
            "display_name": "Shell",
            "provider": "tests",
            "image": "crb/test-shell",
            "image_id": self.image_id,
            "runner": self.sandbox.name,
            "limits": Limits(**limits),
        } | build
        return AttemptRequest(
            **{
                "attempt_id": uuid.uuid4().hex,
                "attempt_number": 1,
                "round": 1,
                "pull_request": self.pull_request,
                "build": AgentBuild(**values),
                "repo": self.repo,
                "pr_files": self.pr_files,
                "workspace": self.workspace,
                "farm": self.farm,
                "in_diff": lambda file, start, end: file == "src/app.py" and start <= 10 <= end,
            }
            | changes
        )

    def run(self, script: str, **changes: Any) -> AttemptResult:
        return self.sandbox.run(self.request(script, **changes))

    def leftovers(self) -> list[str]:
        """Attempt folders and, for Docker, containers and volumes of this farm."""
        left = [path.name for path in self.workspace.iterdir()] if self.workspace.exists() else []
        if self.sandbox.name == "docker":
            api = docker.APIClient(version="auto")
            ours = {"label": f"{FARM_LABEL}={self.farm}"}
            left += [container["Id"] for container in api.containers(all=True, filters=ours)]
            left += [volume["Name"] for volume in api.volumes(filters=ours)["Volumes"] or []]
            api.close()
        return left


def with_secrets(ground: Ground, script: str, declared: Secrets, values: dict[str, str]) -> AttemptRequest:
    """A request for a build that declares secrets."""
    request = ground.request(script)
    return replace(request, build=request.build.model_copy(update={"secrets": declared}), secrets=values)


def build_image(engine: docker.APIClient, tag: str, files: dict[str, bytes]) -> str:
    """Build an image from its context, and give its id."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    for _ in range(5):
        context.seek(0)
        said = list(engine.build(fileobj=context, custom_context=True, tag=tag, rm=True, forcerm=True, decode=True))
        errors = [line["error"] for line in said if "error" in line]
        # Looking for a cached step fails where another test removes an image in that moment.
        if not any("unable to find image" in error for error in errors):
            break
    assert not errors, errors
    return str(engine.inspect_image(tag)["Id"])


class Relay:
    """A socket in front of the engine's that can be cut, as when that restarts, or hang, as when that is stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = "/var/run/docker.sock"
        self._connections: list[socket.socket] = []
        #: Connections so far.
        self.accepted = 0
        self._listener: socket.socket | None = None
        self._flows = threading.Event()
        self._flows.set()
        self.mend()

    def mend(self) -> None:
        """Accept connections (again)."""
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Close everything and refuse what comes."""
        assert self._listener is not None
        self.path.unlink()
        # close alone does not wake a thread that waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Keep connections, take new ones, and hand nothing on until ``go_on``."""
        self._flows.clear()

    def go_on(self) -> None:
        self._flows.set()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.accepted += 1
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(self._engine)
                self._connections += [client, engine]
                for source, target in ((client, engine), (engine, client)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
