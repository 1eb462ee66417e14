"""Where metrics are served, and how processes of one machine stay out of each other's way."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from crb_core.errors import UnavailableError
from crb_core.telemetry import AwayClock, MetricsServer, new_registry


def _server(folder: Path, port: int = 0, *, address: str = "127.0.0.1", process: str = "worker") -> MetricsServer:
    return MetricsServer(new_registry(process), process=process, address=address, port=port, folder=folder)


def _scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_two_processes_that_are_given_the_same_port_both_serve(tmp_path: Path) -> None:
    """The second takes the next free one; each says where in its own file, which is gone when it ends."""
    with _server(tmp_path) as first:
        with _server(tmp_path, first.port, process="scheduler") as second:
            assert second.port > first.port
            targets = {
                document[0]["labels"]["process"]: document[0]["targets"]
                for document in (json.loads(file.read_text()) for file in tmp_path.glob("*.json"))
            }
            assert targets == {
                "worker": [f"127.0.0.1:{first.port}"],
                "scheduler": [f"127.0.0.1:{second.port}"],
            }
            assert 'crb_build_info{process="worker"' in _scrape(first.url)
            assert 'crb_build_info{process="scheduler"' in _scrape(second.url)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_metrics_port_listens_on_loopback_alone(tmp_path: Path) -> None:
    """The address is the one that was given; another address of this machine refuses."""
    with _server(tmp_path) as served, socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", served.port)) != 0


def test_files_of_processes_that_were_killed_are_removed(tmp_path: Path) -> None:
    """Those of this host whose process is gone; another host's stay, since nobody here can know."""
    host = socket.gethostname()
    gone, elsewhere = tmp_path / f"{host}.4194999.aaaaaa.json", tmp_path / "another-host.4194999.aaaaaa.json"
    odd = tmp_path / "notes.json"
    for file in (gone, elsewhere, odd):
        file.write_text("[]")
    with _server(tmp_path):
        assert not gone.exists()
        assert elsewhere.exists()
        assert odd.exists()


def test_a_process_that_listens_everywhere_is_found_by_its_host_name(tmp_path: Path) -> None:
    """0.0.0.0 is no address that Prometheus can ask."""
    with _server(tmp_path, address="0.0.0.0") as served:
        (file,) = tmp_path.glob("*.json")
        assert json.loads(file.read_text())[0]["targets"] == [f"{socket.gethostname()}:{served.port}"]


@pytest.mark.parametrize("address", ["203.0.113.7", "no.such.host.invalid"])
def test_an_address_that_is_not_this_machines_is_said(address: str, tmp_path: Path) -> None:
    """One sentence, no traceback."""
    with pytest.raises(UnavailableError, match=f"cannot be served on {address}"):
        _server(tmp_path, 29_000, address=address)


def test_seconds_away_are_counted_from_the_first_failure_to_the_next_answer() -> None:
    """Two outages of 5 s and 2 s; what works costs nothing."""
    now = [0.0]
    registry = CollectorRegistry()
    away = AwayClock(Counter("away_seconds", "x", registry=registry), clock=lambda: now[0])
    for at, answered in ((0, True), (10, False), (12, False), (15, True), (100, True), (101, False), (103, True)):
        now[0] = at
        away.note(answered)
    assert registry.get_sample_value("away_seconds_total") == 7
