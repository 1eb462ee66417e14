"""Rate, body, time and work at once, each by an injected clock or an event, never by waiting for real time."""

from __future__ import annotations

import asyncio
import socket

import pytest

from crb_web.http_protocol import ImpatientProtocol
from crb_web.limits import BODY, Buckets, LimitRules, Limits, client_key
from tests.crb_web.operated import ORIGIN, Operated, running


def scope(path="/", method="GET", client=("192.0.2.1", 1), **headers):
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "client": client,
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip


async def ask(app, asked, *pieces, stalls=False):
    """Status, headers and body of one request whose body comes in pieces and then, where it stalls, no more."""
    sent = []
    coming = iter(pieces)

    async def receive():
        try:
            body = next(coming)
        except StopIteration:
            if stalls:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.request", "body": body, "more_body": True}

    async def send(message):
        sent.append(message)

    await app(asked, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(each.get("body", b"") for each in sent[1:])


async def echo(asked, receive, send):
    message = await receive() if asked["method"] == "POST" else {"body": b""}
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"] + asked.get(BODY, b"")})


def test_a_client_that_asks_too_fast_waits_and_others_do_not():
    """A burst at once, then so many a second; a whole IPv6 network is one client."""
    seconds = [0.0]
    app = Limits(echo, LimitRules(per_second=2, burst=3), clock=lambda: seconds[0])

    def statuses(count, client):
        return [asyncio.run(ask(app, scope(client=(client, 1))))[0] for _ in range(count)]

    assert statuses(4, "192.0.2.1") == [200, 200, 200, 429]
    assert statuses(1, "192.0.2.2") == [200]
    assert statuses(1, "::ffff:192.0.2.1") == [429]
    assert statuses(2, "2001:db8::1") + statuses(2, "2001:db8::2") == [200, 200, 200, 429]
    status, headers, body = asyncio.run(ask(app, scope(client=("192.0.2.1", 1))))
    assert (status, headers["retry-after"]) == (429, "1")
    assert b"too many requests" in body
    seconds[0] = 1.0
    assert statuses(3, "192.0.2.1") == [200, 200, 429]


def test_buckets_forget_who_was_quiet_for_longest(monkeypatch):
    """Memory is bounded, however many addresses there are."""
    monkeypatch.setattr("crb_web.limits.MAX_CLIENTS", 3)
    buckets = Buckets(1, 1, lambda: 0.0)
    assert [buckets.take(key) for key in "abcd"] == [0, 0, 0, 0]
    assert buckets.take("d") == 1
    assert buckets.take("a") == 0


def test_odd_clients_have_keys():
    """A socket without an address, and a name that is none."""
    assert client_key({"client": None}) == ""
    assert client_key({"client": ("testclient", 1)}) == "testclient"


def test_a_body_is_handed_on_whole():
    """In one piece, and in the scope."""
    app = Limits(echo, LimitRules(body_bytes=10))
    assert asyncio.run(ask(app, scope(method="POST"), b"12345", b"67890"))[2] == b"12345678901234567890"


@pytest.mark.parametrize(
    ("headers", "pieces", "status"),
    [
        ({"content_length": "11"}, [], 413),
        ({"content_length": "9" * 30}, [], 413),
        ({"content_length": "-1"}, [], 413),
        ({"content_length": "1e3"}, [], 413),
        ({"transfer_encoding": "chunked"}, [b"123456", b"123456"], 413),
    ],
)
def test_a_body_that_is_too_long_is_refused(headers, pieces, status):
    """Whether it says so or not."""
    app = Limits(echo, LimitRules(body_bytes=10))
    assert asyncio.run(ask(app, scope(method="POST", **headers), *pieces))[0] == status


def test_a_body_that_does_not_come_is_given_up():
    """408, and the connection ends."""
    app = Limits(echo, LimitRules(body_seconds=0.01))
    status, headers, _ = asyncio.run(ask(app, scope(method="POST", content_length="5"), b"123", stalls=True))
    assert (status, headers["connection"]) == (408, "close")


def test_an_answer_that_takes_too_long_is_given_up_and_keeps_its_turn():
    """Its client hears 503; the next one waits until the work is really over, and what it sends late is dropped."""

    async def tried():
        over = asyncio.Event()

        async def slow(asked, receive, send):
            await over.wait()
            await echo(asked, receive, send)

        app = Limits(slow, LimitRules(expensive=1, waiting=1, answer_seconds=0.01))
        late = await ask(app, scope("/compare"))
        waited = await ask(app, scope("/compare"))
        assert app._turns.locked()
        over.set()
        while app._turns.locked():
            await asyncio.sleep(0)
        return late, waited, await ask(app, scope("/compare"))

    late, waited, after = asyncio.run(tried())
    assert (late[0], waited[0], after[0]) == (503, 503, 200)
    assert b"not ready within" in late[2]
    assert b"busy" in waited[2]


def test_only_so_many_compute_and_wait():
    """Beyond that the answer is 503 at once; cheap pages go on."""

    async def tried():
        over = asyncio.Event()

        async def slow(asked, receive, send):
            if asked["path"] != "/sweeps":
                await over.wait()
            await echo(asked, receive, send)

        app = Limits(slow, LimitRules(expensive=1, waiting=1))
        begun = [asyncio.create_task(ask(app, scope("/"))) for _ in range(2)]
        while not app._waiting or not app._turns.locked():
            await asyncio.sleep(0)
        refused, cheap = await ask(app, scope("/leaderboard/cost.svg")), await ask(app, scope("/sweeps"))
        over.set()
        return refused[0], cheap[0], [(await each)[0] for each in begun]

    assert asyncio.run(tried()) == (503, 200, [200, 200])


def test_a_mistake_in_a_handler_still_reaches_the_server():
    """And gives the turn back."""

    async def broken(_asked, _receive, _send):
        raise ZeroDivisionError

    app = Limits(broken, LimitRules(expensive=1))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(ask(app, scope("/compare")))


def test_the_server_has_the_limits(tmp_path):
    """Before the gate: a flood of wrong tokens or of long bodies costs nothing but refusals, as JSON or as a page."""
    operated = Operated.make(tmp_path, limits=LimitRules(burst=4, per_second=0.001))
    client = operated.client()
    assert client.post(f"{operated.api}/pause", content=b"x" * 70_000).status_code == 413
    long = client.post(operated.page + "/pause", content=b"x" * 70_000, headers={"origin": ORIGIN})
    assert (long.status_code, long.headers["content-type"]) == (413, "text/html; charset=utf-8")
    assert [client.get("/sweeps").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/api/v1/sweeps").json()["error"]["status"] == 429
    assert "default-src 'none'" in client.get("/sweeps").headers["content-security-policy"]
    operated.store.close()


class Hasty(ImpatientProtocol):
    head_seconds = 0.2


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n", b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /again HT"]
)
def test_a_connection_that_does_not_finish_its_head_is_closed(sent):
    """Nothing at all, half a line, half a head, also after an answer on the same connection."""

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    with (
        running(app, http=Hasty, lifespan="off") as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(sent)
        received = b""
        while piece := connection.recv(1000):
            received += piece
        assert received.endswith(b"ok") == (sent.count(b"\r\n\r\n") == 1)


def test_an_answer_may_take_longer_than_a_head():
    """The limit is for what the client sends, not for the work."""

    async def app(_scope, _receive, send):
        await asyncio.sleep(3 * Hasty.head_seconds)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    with (
        running(app, http=Hasty, lifespan="off") as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        received = b""
        while piece := connection.recv(1000):
            received += piece
        assert received.endswith(b"ok")


def test_who_would_wait_too_long_is_told_at_once_when_to_come_again():
    """By how long turns took lately, not by how many wait: a queue of quick answers is no reason to refuse."""
    seconds = [0.0]

    async def tried(each_takes):
        gate = asyncio.Event()

        async def slow(asked, receive, send):
            seconds[0] += each_takes
            if asked["path"] == "/compare":
                await gate.wait()
            await echo(asked, receive, send)

        app = Limits(slow, LimitRules(expensive=1, patience_seconds=5), clock=lambda: seconds[0])
        assert (await ask(app, scope("/")))[0] == 200
        begun = [asyncio.create_task(ask(app, scope("/compare"))) for _ in range(3)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert app._waiting == 2
        asked = asyncio.create_task(ask(app, scope("/")))
        for _ in range(20):
            await asyncio.sleep(0)
        gate.set()
        return await asked, [(await each)[0] for each in begun]

    (status, headers, body), others = asyncio.run(tried(2.0))
    assert (status, headers["retry-after"], others) == (503, "3", [200] * 3)
    assert b"Ask again in 3 s" in body
    assert asyncio.run(tried(0.5))[0][0] == 200
