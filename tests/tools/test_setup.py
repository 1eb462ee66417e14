"""tools/setup.py on a machine with Python alone: no uv, no pip, no package index. Its uv is a small script here, served
from loopback; what is tested is everything that the set-up itself decides."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "tools" / "setup.py"
VERSION = "9.8.7"

#: Stands for uv: says its version, and "installs" by writing a crb that names the groups it was asked for.
UV = f"""#!/bin/sh
[ "$1" = --version ] && {{ echo "uv {VERSION} (test)"; exit 0; }}
echo sync >>"$UV_PROJECT_ENVIRONMENT/../syncs"
[ ! -e "$UV_PROJECT_ENVIRONMENT/../break-sync" ] || {{ echo "no space left" >&2; exit 2; }}
echo "$@" >"$UV_PROJECT_ENVIRONMENT/bin/crb"
"""


def wheel(script: str = UV) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"uv-{VERSION}.data/scripts/uv", script)
        archive.writestr(f"uv-{VERSION}.data/scripts/uvx", "no")
    return stream.getvalue()


@dataclass
class Index:
    """A loopback server that hands out one file and counts how often it was asked."""

    content: bytes
    url: str = ""
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def index() -> Iterator[Index]:
    served = Index(wheel())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(served.content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass(frozen=True)
class Checkout:
    root: Path
    python: Path

    def setup(self, profile: str = "demo") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), str(self.root / "tools" / "setup.py"), profile],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root), "no_proxy": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def syncs(self) -> int:
        file = self.root / "syncs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def lock(self, url: str, digest: str) -> None:
        tags = "manylinux_2_17_{m}.manylinux2014_{m}.musllinux_1_1_{m}.macosx_10_12_{m}"
        wheels = "".join(
            f'    {{ url = "{url}/uv-{VERSION}-py3-none-{tags.format(m=machine)}.whl", hash = "sha256:{digest}" }},\n'
            for machine in ("x86_64", "aarch64", "arm64")
        )
        (self.root / "uv.lock").write_text(
            f'version = 1\n\n[[package]]\nname = "uv"\nversion = "{VERSION}"\nwheels = [\n{wheels}]\n'
        )


@pytest.fixture
def checkout(tmp_path: Path, index: Index) -> Checkout:
    """A checkout whose uv.lock names the loopback server, and a Python without pip."""
    # A blank, since a checkout's path may hold one.
    root = tmp_path / "a checkout"
    (root / "tools").mkdir(parents=True)
    shutil.copy(SETUP, root / "tools" / "setup.py")
    (root / "pyproject.toml").write_text("[project]\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "python")], check=True)
    made = Checkout(root, tmp_path / "python" / "bin" / "python")
    made.lock(index.url, hashlib.sha256(index.content).hexdigest())
    return made


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a set-up that failed in a plain way."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_a_machine_with_python_alone_is_set_up_once(checkout: Checkout, index: Index) -> None:
    """uv is downloaded, checked and run; the second run does nothing at all."""
    done = checkout.setup()
    assert done.returncode == 0, done.stderr
    assert (checkout.root / ".venv" / "bin" / "crb").exists()
    again = checkout.setup()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert (len(index.asked), checkout.syncs) == (1, 1)


def test_tests_need_more_than_the_demo_and_the_demo_takes_nothing_away(checkout: Checkout, index: Index) -> None:
    """After `make test` a demo finds everything there, also after the lock has changed."""
    crb = checkout.root / ".venv" / "bin" / "crb"
    assert checkout.setup("demo").returncode == 0
    assert "--group lint-agent" in crb.read_text()
    assert checkout.setup("test").returncode == 0
    assert "--group dev" in crb.read_text()
    assert (len(index.asked), checkout.syncs) == (1, 2)
    assert checkout.setup("demo").returncode == 0
    assert checkout.syncs == 2
    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert checkout.setup("demo").returncode == 0
    assert checkout.syncs == 3
    assert "--group dev" in crb.read_text()


def test_a_changed_download_is_refused_and_never_run(checkout: Checkout, index: Index) -> None:
    """The SHA-256 in uv.lock decides; nothing is left that a later run would take for uv."""
    locked = index.content
    index.content = wheel('#!/bin/sh\ntouch "$(dirname "$0")/../../was-run"\necho uv ' + VERSION + "\n")
    assert "does not have the SHA-256 that uv.lock names" in sentence(checkout.setup())
    assert not (checkout.root / "was-run").exists()
    assert not (checkout.root / ".venv" / "bin" / "uv").exists()
    index.content = locked
    assert checkout.setup().returncode == 0


def test_a_server_that_is_away_is_said_in_one_sentence(checkout: Checkout, index: Index) -> None:
    """Both ways that were tried are named, with what to do; the next run goes on."""
    checkout.lock("http://127.0.0.1:9", hashlib.sha256(index.content).hexdigest())
    said = sentence(checkout.setup())
    assert f"uv {VERSION} cannot be had" in said
    assert "this Python has no pip" in said
    checkout.lock(index.url, hashlib.sha256(index.content).hexdigest())
    assert checkout.setup().returncode == 0


def test_an_interrupted_set_up_is_repaired(checkout: Checkout) -> None:
    """What a killed run left half-made is made anew."""
    assert checkout.setup().returncode == 0
    environment = checkout.root / ".venv"
    (environment / ".crb-setup.json").unlink()
    (environment / ".crb-setup-unfinished").touch()
    (environment / "half-a-package").touch()
    assert checkout.setup().returncode == 0
    assert not (environment / "half-a-package").exists()
    assert not (environment / ".crb-setup-unfinished").exists()


@pytest.mark.parametrize("damage", ["dangling", "no-crb", "stamp", "file", "moved"])
def test_a_damaged_environment_is_repaired(checkout: Checkout, damage: str, tmp_path: Path) -> None:
    """A Python that was removed, a lost command, a torn stamp, a checkout that was moved."""
    assert checkout.setup().returncode == 0
    environment = checkout.root / ".venv"
    if damage == "dangling":
        for name in environment.glob("bin/python*"):
            name.unlink()
        (environment / "bin" / "python").symlink_to("/nowhere/python3")
    elif damage == "no-crb":
        (environment / "bin" / "crb").unlink()
    elif damage == "stamp":
        (environment / ".crb-setup.json").write_text('{"digest": ')
    elif damage == "file":
        (environment / ".crb-setup.json").write_text("[1]")
    else:
        checkout.root.rename(tmp_path / "moved")
        checkout = Checkout(tmp_path / "moved", checkout.python)
        environment = checkout.root / ".venv"
    done = checkout.setup()
    assert done.returncode == 0, done.stderr
    assert (environment / "bin" / "crb").exists()
    assert subprocess.run([str(environment / "bin" / "python"), "-c", ""], check=False).returncode == 0
    assert json.loads((environment / ".crb-setup.json").read_text())["root"] == str(checkout.root)


def test_an_environment_that_somebody_else_made_keeps_what_is_in_it(checkout: Checkout) -> None:
    """The locked packages are added; nothing is taken away, and from then on it is ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(checkout.root / ".venv")], check=True)
    crb = checkout.root / ".venv" / "bin" / "crb"
    (checkout.root / ".venv" / "theirs").touch()
    assert checkout.setup().returncode == 0
    assert (checkout.root / ".venv" / "theirs").exists()
    assert "--inexact" in crb.read_text()
    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert checkout.setup().returncode == 0
    assert "--inexact" not in crb.read_text()


def test_a_failed_installation_is_no_finished_one(checkout: Checkout) -> None:
    """uv's own words stay visible, the sentence follows, and the next run installs again."""
    (checkout.root / "break-sync").touch()
    done = checkout.setup()
    assert "uv could not install the locked packages (status 2" in sentence(done)
    assert "no space left" in done.stderr
    (checkout.root / "break-sync").unlink()
    assert checkout.setup().returncode == 0
    assert checkout.syncs == 2


def test_commands_that_start_together_set_up_once(checkout: Checkout, index: Index) -> None:
    """Three at once: one works, the others wait and find the work done."""
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(checkout.setup().returncode)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0, 0, 0]
    assert (len(index.asked), checkout.syncs) == (1, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "does not say which uv to use"),
        ("[[package", "does not say which uv to use"),
        ('[[package]]\nname = "ruff"\n', "does not say which uv to use"),
        ('[[package]]\nname = "uv"\nversion = "1"\nwheels = []\n', "has no build for"),
    ],
)
def test_a_lock_that_names_no_uv_is_named(checkout: Checkout, content: str, said: str) -> None:
    """No traceback, whatever is in the file."""
    (checkout.root / "uv.lock").write_text(content)
    assert said in sentence(checkout.setup())


def test_a_missing_lock_is_named(checkout: Checkout) -> None:
    """Nothing is installed without it."""
    (checkout.root / "uv.lock").unlink()
    assert "uv.lock is missing" in sentence(checkout.setup())
    assert checkout.syncs == 0


def test_an_environment_that_is_a_file_is_left_alone(checkout: Checkout) -> None:
    """The set-up removes only folders that it can have made."""
    (checkout.root / ".venv").write_text("mine")
    assert "is no folder" in sentence(checkout.setup())
    assert (checkout.root / ".venv").read_text() == "mine"


def test_the_real_lock_names_a_uv_for_this_machine() -> None:
    """uv.lock of this repository holds uv with hashes, and the choice is a wheel of this machine's kind."""
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('setup_tool', sys.argv[1]);"
        "tool = importlib.util.module_from_spec(spec); spec.loader.exec_module(tool);"
        "version, wheels = tool._locked_uv(); wheel = tool._choose(wheels, version);"
        "print(version, tool._name(wheel), wheel['hash'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SETUP)], capture_output=True, text=True, check=True)
    version, name, digest = done.stdout.split()
    assert name.startswith(f"uv-{version}-")
    assert os.uname().machine in name
    assert digest.startswith("sha256:")


@pytest.mark.parametrize("arguments", [[], ["all"], ["demo", "test"]])
def test_a_wrong_call_is_answered_with_the_usage(arguments: list[str]) -> None:
    """One line, status 1."""
    done = subprocess.run([sys.executable, str(SETUP), *arguments], capture_output=True, text=True, check=False)
    assert sentence(done) == "setup: Usage: python3 tools/setup.py demo|farm|test"
