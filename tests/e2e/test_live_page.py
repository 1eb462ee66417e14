"""A sweep that runs is watched and steered through a real `crb serve --operate`."""

from __future__ import annotations

import http.client
import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from crb_core.store import open_store
from crb_core.store.operations import list_operations
from crb_core.store.sweeps import find_sweep
from tests.e2e.farm import crb, start, wait_for

pytestmark = pytest.mark.timeout(240)

SWEEP = (
    "sweep", "start", "--agent", "minimal", "--runner", "process", "--rounds", "1", "--name", "live",
    "--agent-concurrency", "minimal=1",
)  # fmt: skip


def _ask(port: int, method: str, path: str, token: str | None = None, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def _parts(answer: http.client.HTTPResponse) -> dict[str, str]:
    """The parts of the next event."""
    while True:
        line = answer.fp.readline().decode()
        assert line, "the stream ended"
        if line.startswith("data: "):
            found: dict[str, str] = json.loads(line.removeprefix("data: "))
            return found


def test_a_running_sweep_is_watched_and_steered(tmp_path: Path) -> None:
    """Events show it going on; paused over HTTP the run ends with that reason; resumed, it finishes."""
    home, log = tmp_path / "home", tmp_path / "log"
    run = start(*SWEEP, home=home, log=log)
    wait_for(lambda: (home / "logs" / "worker.jsonl").exists())
    made = crb("token", "create", "olga", "--role", "operator", "--expires", "1d", "--json", home=home)
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)["token"]
    served = start("serve", "--operate", "--port", "0", home=home, log=tmp_path / "served")
    try:
        said = wait_for(lambda: re.search(r"http://127.0.0.1:(\d+)/", (tmp_path / "served").read_text()))
        port = int(said[1])
        path = "/sweeps/live"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", path + "/events")
        answer = connection.getresponse()
        assert answer.status == 200
        shown = _parts(answer)
        assert {"summary", "counts", "row-0", "failures", "workers", "operations"} <= set(shown)
        assert _ask(port, "POST", f"/api/v1{path}/pause", body={})[0] == 401
        status, done = _ask(port, "POST", f"/api/v1{path}/pause", token, {"reason": "a <look> at it"})
        assert (status, done["actor"], done["action"]) == (200, "olga", "pause")
        deadline = time.monotonic() + 60
        while "a &lt;look&gt; at it" not in shown.get("operations", ""):
            assert time.monotonic() < deadline
            shown = _parts(answer)
        connection.close()
        assert run.wait(timeout=120) == 1
        assert "it is paused (a <look> at it)" in log.read_text()
        assert _ask(port, "POST", f"/api/v1{path}/resume", token, {})[0] == 200
        resumed = crb("sweep", "resume", "live", home=home)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        status, progress = _ask(port, "GET", f"/api/v1{path}/progress")
        assert (status, progress["finished"], progress["by_state"]) == (200, True, {"scored": progress["trials"]})
    finally:
        served.send_signal(signal.SIGTERM)
        served.wait(timeout=60)
    assert "Traceback" not in (tmp_path / "served").read_text()
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        found = list_operations(connection, sweep_id=find_sweep(connection, "live").id)
    store.close()
    assert [each.action for each in found if each.actor == "olga"] == ["resume", "pause"]
