"""The page of a sweep and its events: one reading for all, nothing left of those who went, hostile names inert."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time

import pytest
from sqlalchemy import insert, update

from crb_core.agent import Outcome
from crb_core.errors import StoreError, UnavailableError
from crb_core.store.operations import pause_sweep
from crb_core.store.steps import finish_attempt
from crb_core.store.tables import AgentBuildRow, PullRequestRow, WorkerRow, core
from crb_web.live import NOTICE, LiveSweeps
from tests.crb_core.store.planned import LIMITS
from tests.crb_web.operated import Operated, running

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script><script>alert(2)</script>'\"&"


@pytest.fixture
def operated(tmp_path):
    made = Operated.make(tmp_path)
    yield made
    made.store.close()


def watched(*states, **options):
    """LiveSweeps over readings that are given one after the other; the last one stays."""
    left = list(states)

    def read(_sweep_id):
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found, False

    return LiveSweeps(read, read_seconds=0.001, **options)


async def take(live, count, last=None, sweep="s", client="c"):
    """The next events of one subscriber: id and parts."""
    found = []
    with live.place(sweep, client) as channel:
        async for event in live.events(channel, last):
            found.append((event.id, json.loads(event.data)))
            if len(found) == count:
                break
    return found


async def until_idle(live):
    while not live.is_idle:
        await asyncio.sleep(0.001)


def test_only_what_changed_is_sent():
    """The first event is whole, later ones hold what is new; a reading without news sends nothing."""

    async def tried():
        live = watched({"a": "1", "b": "1"}, {"a": "1", "b": "1"}, {"a": "2", "b": "1"})
        found = await take(live, 2)
        await until_idle(live)
        return [parts for _, parts in found]

    assert asyncio.run(tried()) == [{"a": "1", "b": "1", NOTICE: ""}, {"a": "2"}]


def test_who_comes_back_gets_what_it_missed():
    """By Last-Event-ID; one of another process, or none of ours, gets everything."""

    async def tried():
        live = watched({"a": "1", "b": "1"}, {"a": "2", "b": "1"})
        with live.place("s", "another"):
            (first, _), (second, _) = await take(live, 2)
            missed = await take(live, 1, last=first)
            whole = [await take(live, 1, last=each) for each in (None, "", "x-1", "0" * 16 + "-2", second[:-1] + "x")]
            nothing = asyncio.create_task(take(live, 1, last=second))
            for _ in range(50):
                await asyncio.sleep(0)
            assert not nothing.done()
            nothing.cancel()
            return missed, second, whole

    missed, second, whole = asyncio.run(tried())
    assert missed == [(second, {"a": "2"})]
    assert all(each == [(second, {"a": "2", "b": "1", NOTICE: ""})] for each in whole)


def test_all_subscribers_share_one_reading_and_leave_nothing():
    """Fifty of them, of two sweeps: readings are as many as for one; when they have gone nothing is left."""

    async def tried():
        live = LiveSweeps(lambda sweep: ({"sweep": sweep}, False), read_seconds=3600, max_of_client=50)
        async with asyncio.timeout(30):
            found = await asyncio.gather(*(take(live, 1, sweep=f"s{number % 2}") for number in range(50)))
        readings = live.readings
        assert live.subscribers == 0
        await live.close()
        return readings, live.is_idle, {event[0][1]["sweep"] for event in found}

    assert asyncio.run(tried()) == (2, True, {"s0", "s1"})


def test_subscribers_are_bounded():
    """All together, and of one address; a place is free again when its subscriber has gone."""

    async def tried():
        live = watched({"a": "1"}, max_subscribers=3, max_of_client=2)
        with live.place("s", "one"), live.place("s", "one"):
            with pytest.raises(UnavailableError), live.place("s", "one"):
                raise AssertionError
            with live.place("s", "two"), pytest.raises(UnavailableError), live.place("s", "three"):
                raise AssertionError
            with live.place("s", "three"):
                assert live.subscribers == 3
        await until_idle(live)

    asyncio.run(tried())


def test_a_store_that_does_not_answer_is_said_and_asked_again():
    """The parts stay, the notice comes and goes; a mistake of ours ends nothing either."""

    async def tried():
        live = watched({"a": "1"}, StoreError("It is locked"), ZeroDivisionError("secret"), {"a": "1"})
        found = await take(live, 4)
        await until_idle(live)
        return [parts for _, parts in found]

    first, locked, mistake, again = asyncio.run(tried())
    assert first == {"a": "1", NOTICE: ""}
    assert locked == {NOTICE: "It is locked; it is asked again"}
    assert "secret" not in mistake[NOTICE]
    assert again == {NOTICE: ""}


def test_a_stream_ends_by_itself():
    """So that whoever may not read any more has to ask anew."""

    async def tried():
        live = watched({"a": "1"}, stream_seconds=0.02)
        async with asyncio.timeout(30):
            found = await take(live, 100)
            await until_idle(live)
        return len(found)

    assert asyncio.run(tried()) <= 1


class Stream:
    """One subscriber over a real connection."""

    def __init__(self, port, path, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request("GET", path, headers=headers)
        self.answer = self.connection.getresponse()

    def event(self):
        """The next event's id and parts."""
        found = {}
        while True:
            line = self.answer.fp.readline().decode().rstrip("\r\n")
            if not line and "data" in found:
                return found["id"], json.loads(found["data"])
            name, _, value = line.partition(": ")
            found[name] = value

    def close(self):
        self.answer.close()
        self.connection.close()


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_clients_that_go_leave_nothing_behind(operated):
    """Over real connections: a change reaches all; closed ones are noticed; also after HEAD and a refused one."""
    live = operated.app.state.live
    with running(operated.app) as port:
        streams = [Stream(port, f"{operated.page}/events") for _ in range(5)]
        for stream in streams:
            assert stream.answer.status == 200
            assert stream.answer.headers["content-type"].startswith("text/event-stream")
            assert stream.answer.headers["cache-control"] == "no-store"
            _, parts = stream.event()
            assert "Active." in parts["summary"]
        with operated.store.write() as connection:
            pause_sweep(connection, operated.planned.sweep_id, actor="a test", reason="a look")
        for stream in streams:
            seen, parts = stream.event()
            while "Paused: a look" not in parts.get("summary", ""):
                seen, parts = stream.event()
        assert live.subscribers == 5
        back = Stream(port, f"{operated.page}/events", **{"Last-Event-ID": seen})
        for stream in streams:
            stream.close()
        eventually(lambda: live.subscribers == 1)
        back.close()
        head = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        head.request("HEAD", f"{operated.page}/events")
        answer = head.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        head.close()
        nowhere = Stream(port, "/sweeps/none/events")
        assert nowhere.answer.status == 404
        nowhere.close()
        eventually(lambda: live.is_idle)


def test_the_page_is_whole_without_scripts_and_may_connect_to_this_server_only(operated):
    """Every part of the events is on the page; no other page may open a connection."""
    client = operated.client()
    answer = client.get(operated.page)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].endswith("; connect-src 'self'")
    assert "unsafe" not in answer.headers["content-security-policy"]
    for path in ("/sweeps", "/", operated.page + "/heat-map", operated.page + "/trials"):
        assert "connect-src" not in client.get(path).headers["content-security-policy"]
    parts, has_ended = operated.app.state.sweep_views.live(operated.planned.sweep_id)
    assert not has_ended
    assert set(re.findall(r'id="live-([a-z0-9-]+)"', answer.text)) == set(parts) | {"state", NOTICE}
    assert f'<a href="{operated.page}">Reload</a>' in answer.text
    assert "<script>" not in answer.text
    assert "0 of 3 trials ended (0%)" in answer.text
    assert "0 of 3 ended: 3 waiting" in answer.text
    assert "No worker has registered" in answer.text
    words = client.get(operated.page + "/heat-map").text
    assert words.count(">waiting<") == 3
    listed = client.get("/sweeps").text
    assert f'href="{operated.page}"' in listed
    assert client.get(f"{operated.page}?operation=x").status_code == 400
    assert client.get(f"{operated.page}/heat-map?offset=-1").status_code == 400


def test_failures_lead_to_their_logs(operated):
    """By outcome, with whose fault it was, and a link to the trial."""
    planned = operated.planned
    step = planned.ids()[0]
    taken = planned.take(step)
    with operated.store.write() as connection:
        finish_attempt(
            connection, taken, outcome=Outcome.TIMEOUT, detail="said so", values={}, limits=LIMITS,
            final=True,
        )  # fmt: skip
    shown = operated.client().get(operated.page).text
    assert f'<a href="/trials/{planned.trial(step)}#logs">' in shown
    for text in ("timeout", "said so", "1 failed", '<span class="c-failed" title="pr-1: failed">F</span>'):
        assert text in shown
    assert f"/sweeps/{planned.sweep_id}/trials?outcome=timeout&amp;agent=minimal" in shown
    progress = operated.client().get(f"{operated.api}/progress").json()
    assert progress["by_state"] == {"failed": 1, "waiting": 2}
    assert progress["failure_groups"][0]["outcome"] == "timeout"


def test_hostile_names_are_inert_in_pages_and_events(operated):
    """Agent, pull request, reason, worker and who did it: escaped, and no character that turns text around."""
    planned = operated.planned
    with operated.store.write() as connection:
        connection.execute(update(core(AgentBuildRow)).values(agent=HOSTILE))
        connection.execute(update(core(PullRequestRow)).values(key=HOSTILE + core(PullRequestRow).c.key))
        connection.execute(
            insert(core(WorkerRow)).values(
                name=HOSTILE, host=HOSTILE, pid=1, beat=1, slots={"review": 2, HOSTILE: 1}, started_at="x",
                status={"cpu_percent": HOSTILE, "takes_no_reviews": HOSTILE},
            )
        )  # fmt: skip
        pause_sweep(connection, planned.sweep_id, actor=HOSTILE, reason=HOSTILE)
    with operated.store.write() as connection:
        pause_sweep(connection, planned.sweep_id, actor=HOSTILE, agent=HOSTILE, reason=HOSTILE)
    client = operated.signed_in("bo")
    parts, _ = operated.app.state.sweep_views.live(planned.sweep_id)
    texts = [*parts.values(), *(client.get(operated.page + path).text for path in ("", "/heat-map"))]
    for text in texts:
        # What a form sends back has to be the name itself.
        text = re.sub(r'<option value="[^"<>]*"', "", text)
        assert "<img" not in text
        assert "alert(1)>" not in text
        assert "<script>alert" not in text
        assert "\u202e" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in parts["operations"]
    assert "U+202E" in parts["workers"]
