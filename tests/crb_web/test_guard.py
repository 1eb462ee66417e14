"""Requests and stores that a server must refuse plainly."""

from __future__ import annotations

import socket
from ipaddress import ip_network

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from crb_core.settings import Settings
from crb_core.store import open_store
from crb_web.app import create_app
from crb_web.guard import HEADERS, MAX_HEAD, MAX_QUERY
from crb_web.http_protocol import ImpatientProtocol
from crb_web.limits import LimitRules
from tests.crb_web.conftest import client_of
from tests.crb_web.operated import running


@pytest.mark.parametrize("path", ["/", "/api/v1/sweeps", "/nothing", "/api/nothing", "/static/crb.css", "/trials/x"])
def test_every_answer_has_the_headers(served, path):
    """Also errors, pages and files."""
    answer = served.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_only_reading_is_allowed(served, method):
    """Nothing else reaches a handler."""
    answer = served.request(method, "/api/v1/sweeps")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_is_get_without_a_body(served):
    """For every path, not only for those that know of it."""
    for path in ("/", "/api/v1/sweeps", "/nothing"):
        head, get = served.head(path), served.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-length"] == get.headers["content-length"]


def test_sizes_are_limited(served):
    """Body, query and path."""
    assert served.request("GET", "/", content=b"x" * 10).status_code == 413
    assert served.get("/", params={"sweep": "x" * MAX_QUERY}).status_code == 414
    assert served.get("/" + "x" * 2000).status_code == 414
    assert served.get("/api/v1/leaderboard", params={"severity": [str(each) for each in range(100)]}).status_code == 400


@pytest.mark.parametrize(
    "headers",
    [{"x-long": "a" * 100_000}, {f"x-{number}": "a" * 20 for number in range(4000)}, {"cookie": "a" * (MAX_HEAD + 1)}],
)
def test_a_long_head_is_refused(served, headers):
    """One long header or thousands of short ones; the parser below counts only heads that come in pieces."""
    page, answer = served.get("/sweeps", headers=headers), served.get("/api/v1/sweeps", headers=headers)
    assert (page.status_code, answer.status_code) == (431, 431)
    assert answer.json()["error"]["problem"] in page.text


def test_a_long_head_is_refused_by_the_real_server(home):
    """Also where all of it is there at once, before anybody could stop reading."""
    app = create_app(Settings(home=home))
    head = b"GET /sweeps HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nx-long: " + b"a" * 100_000 + b"\r\n\r\n"
    with (
        running(app, http=ImpatientProtocol, h11_max_incomplete_event_size=MAX_HEAD) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(head)
        received = b""
        while piece := connection.recv(1000):
            received += piece
    assert received.startswith(b"HTTP/1.1 431 ")
    assert b"The headers are too long" in received


def test_nobody_is_upgraded(home, caplog):
    """A request for a WebSocket is answered as any other, and fills no log."""
    head = (
        b"GET /static/icon.svg HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close, upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    with (
        running(create_app(Settings(home=home)), http=ImpatientProtocol) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert "pgrade" not in caplog.text


def test_odd_addresses_are_refused(served):
    """NUL, other hosts' names, files outside."""
    assert served.get("/sweeps/a%00b").status_code == 400
    assert served.get("/?sweep=a%00b").status_code == 400
    for path in ("/%0a", "/sweeps%0a", "/sign-in%0a", "/sweeps/a%0d%0ab", "/sweeps/bench/trials%1b"):
        assert served.get(path).status_code == 400, path
    assert served.get("/", headers={"host": "evil.example"}).status_code == 421
    assert served.get("/", headers={"host": "LOCALHOST:8080"}).status_code == 200
    for path in ("/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/../app.py", "/static//etc/passwd"):
        assert served.get(path).status_code == 404


def _missing(home):
    pass


def _no_database(home):
    (home / "crb.sqlite").write_bytes(b"this is no database " * 100)


def _empty_file(home):
    (home / "crb.sqlite").write_bytes(b"")


def _newer(home):
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()


def _damaged(home):
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        connection.execute(text("ALTER TABLE sweep RENAME TO gone"))
    store.close()


@pytest.mark.parametrize("spoil", [_missing, _no_database, _empty_file, _newer, _damaged])
def test_an_unreadable_store_is_a_plain_page(tmp_path, spoil):
    """Missing, no database, empty, newer or damaged: a sentence, no traceback, and nothing is created."""
    spoil(tmp_path)
    files = {each.name for each in tmp_path.iterdir()}
    with client_of(tmp_path, raise_server_exceptions=False) as client:
        shown, answer = client.get("/"), client.get("/api/v1/sweeps")
    assert (shown.status_code, answer.status_code) == (503, 503)
    assert "Traceback" not in shown.text
    assert answer.json()["error"]["problem"] in shown.text.replace("&#39;", "'").replace("&lt;", "<")
    assert {each.name.removesuffix("-wal").removesuffix("-shm") for each in tmp_path.iterdir()} == files


def test_a_store_that_appears_is_served(tmp_path):
    """The server need not be started again."""
    with client_of(tmp_path) as client:
        assert client.get("/").status_code == 503
        open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}").close()
        shown = client.get("/")
    assert shown.status_code == 200
    assert "No sweep yet" in shown.text


def test_a_mistake_of_ours_is_a_plain_page(tmp_path, monkeypatch):
    """500 with the headers and without a traceback."""
    with client_of(tmp_path, raise_server_exceptions=False) as client:
        monkeypatch.setattr(client.app.state.sources, "store", lambda: 1 / 0)
        answer = client.get("/api/v1/sweeps")
    assert answer.status_code == 500
    assert "ZeroDivisionError" not in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]


def test_only_the_reverse_proxy_is_answered_and_its_word_is_taken(home):
    """Others get 403; of the proxy's clients each has a rate of its own."""
    app = create_app(
        Settings(home=home), proxies=[ip_network("192.0.2.7/32")], limits=LimitRules(burst=1, per_second=0.001)
    )

    def status(client, said):
        with_client = TestClient(app, base_url="http://127.0.0.1", client=(client, 1))
        return with_client.get("/static/crb.css", headers={"x-forwarded-for": said}).status_code

    assert status("192.0.2.8", "198.51.100.1") == 403
    assert [status("192.0.2.7", said) for said in ("198.51.100.1", "198.51.100.1", "198.51.100.2")] == [200, 429, 200]


def test_a_header_that_is_there_twice_is_refused(served):
    """A proxy might look at the other one."""
    for name in ("host", "authorization", "cookie", "origin"):
        answer = served.get("/api/v1/sweeps", headers=[(name, "127.0.0.1"), (name, "localhost")])
        assert answer.status_code == 400, name


def test_refusals_are_pages_for_people_and_json_for_programs(served):
    """With the same sentence."""
    page, answer = served.post("/sweeps"), served.post("/api/v1/sweeps")
    assert (page.status_code, answer.status_code) == (405, 405)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.json()["error"]["problem"] in page.text
