"""Flower is never open: every page that tells something asks for the password."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_scheduler.broker import EmbeddedBroker
from tests.e2e.farm import REPOSITORY, crb, wait_for

PASSWORD = "a-password-of-this-test"


def _status(port: int, path: str, password: str | None) -> int | None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"crb:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker-folder") as broker:
        yield broker


def test_every_page_asks_for_the_password(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Pages, API and metrics: 401 without it and with a wrong one. The health check says OK and nothing else."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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


@pytest.mark.parametrize(("option", "value"), [("--password", "half,other"), ("--user", "a:b")])
def test_credentials_that_flower_would_split_are_refused(
    option: str, value: str, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Flower reads a list: of "half,other" the first half alone would open every page."""
    ran = crb("flower", option, value, home=tmp_path / "home", CRB_BROKER_URL=broker.url)
    assert ran.returncode == 1
    assert "Flower takes no" in ran.stderr
