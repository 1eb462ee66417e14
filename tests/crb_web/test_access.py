"""Tokens, roles, sessions and forged forms: who may change what, and who may read where reading needs a token."""

from __future__ import annotations

import json

import pytest

from crb_core.clock import utc_now
from crb_core.errors import InputError
from crb_core.store.access_tokens import create_token, revoke_token
from crb_core.store.operations import list_operations
from crb_web.access import SESSION_SECONDS, TRIES, Access, AccessRules
from crb_web.errors import RefusedError
from tests.crb_core.store.planned import plan
from tests.crb_web.conftest import client_of
from tests.crb_web.operated import OPERATE, ORIGIN, Operated, sign_in

ACTIONS = ("pause", "resume", "cancel", "limits", "retry")


@pytest.fixture
def operated(tmp_path):
    made = Operated.make(tmp_path)
    yield made
    made.store.close()


def test_operations_are_those_of_the_command_line_in_the_name_of_the_token(operated):
    """Pause, limits, resume and cancel change the sweep and leave a row that the page shows."""
    client = operated.client()
    for path, body in (
        ("pause", {"reason": "a <b>look</b>"}),
        ("limits", {"priority": 3, "weight": 2.5, "concurrency": 4}),
        ("limits", {"agent": "minimal", "concurrency": None}),
        ("resume", {}),
        ("cancel", {"agent": "minimal"}),
    ):
        answer = client.post(f"{operated.api}/{path}", json=body, headers=operated.bearer("bo"))
        assert answer.status_code == 200, answer.text
        assert answer.json()["actor"] == "bo"
    assert answer.json()["steps"] == 3
    with operated.store.read() as connection:
        log = list_operations(connection, sweep_id=operated.planned.sweep_id)
    assert [(each.actor, each.action) for each in log] == [
        ("bo", "cancel"), ("bo", "resume"), ("bo", "set limits"), ("bo", "pause"),
    ]  # fmt: skip
    shown = client.get(operated.page).text
    assert "priority 0 -&gt; 3, weight 1 -&gt; 2.5, concurrency none -&gt; 4" in shown
    assert "a &lt;b&gt;look&lt;/b&gt;" in shown
    assert client.get(f"{operated.api}/operations").json()["operations"] == [each.to_json() for each in log]


def test_what_was_cancelled_is_tried_again_after_a_look_at_its_agent(operated):
    """By number or by state; the agent is compared first, as on the command line."""
    client, bo = operated.client(), operated.bearer("bo")
    trial = operated.planned.trial(operated.planned.ids()[0])
    ended = client.post(f"/api/v1/trials/{trial}/cancel", json={"reason": "odd"}, headers=bo).json()
    assert (ended["trials"], ended["reason"]) == ([trial], "odd")
    assert client.post(f"/api/v1/trials/{trial}/cancel", json={}, headers=bo).status_code == 400
    again = client.post(f"/api/v1/trials/{trial}/retry", headers=bo)
    assert again.json()["operations"][0]["trials"] == [trial]
    assert [each[0].build.agent for each in operated.unchanged] == ["minimal"]
    assert client.post(f"{operated.api}/cancel", json={}, headers=bo).json()["steps"] == 3
    for body in ({}, {"trials": []}, {"failed": False}, {"trials": [10**9]}, {"failed": True}):
        assert client.post(f"{operated.api}/retry", json=body, headers=bo).status_code == 400, body
    again = client.post(f"{operated.api}/retry", json={"cancelled": True, "stages": ["review"]}, headers=bo)
    assert again.json()["operations"][0]["steps"] == 3


@pytest.mark.parametrize("action", ACTIONS)
def test_the_api_takes_an_operators_token_and_nothing_else(operated, action):
    """No token, a wrong one, a reader's, another scheme, or a browser's session: refused, and nothing changed."""
    path = f"{operated.api}/{action}"
    token = operated.tokens["bo"]
    client = operated.client()
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": f"Basic {token}"}, 401),
        ({"authorization": token}, 401),
        (operated.bearer("rea"), 403),
        (operated.bearer("bo") | {"origin": "http://evil.example"}, 403),
    ):
        answer = client.post(path, json={}, headers=headers)
        assert answer.status_code == status, (headers, answer.text)
        assert answer.json()["error"]["problem"]
        assert ("www-authenticate" in answer.headers) == (status == 401)
    assert operated.signed_in("bo").post(path, json={}, headers={"origin": ORIGIN}).status_code == 401
    assert client.get(path, headers=operated.bearer("bo")).status_code in {404, 405}
    assert client.get(f"/sweeps/{operated.planned.sweep_id}/{action}").status_code in {404, 405}
    assert operated.state() == "active"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{", b'{"reason": 5}', b'{"agent": ["x"]}', b'{"agent": ""}', b'{"nothing": 1}',
        b'{"reason": "' + b"x" * 1001 + b'"}', b'{"reason": "a\\u0000b"}', b'{"reason": "\\ud800"}', b"[" * 5000,
        b"\xff", b'{"agent": "other"}',
    ],
)  # fmt: skip
def test_bodies_that_are_none_are_refused_plainly(operated, body):
    """A sentence with status 400; the sweep stays as it was."""
    headers = operated.bearer("bo") | {"content-type": "application/json"}
    with operated.client(raise_server_exceptions=False) as client:
        answer = client.post(f"{operated.api}/pause", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert "error" in answer.json()
    assert operated.state() == "active"


@pytest.mark.parametrize(
    "body",
    [
        {}, {"priority": "5"}, {"priority": 1.5}, {"priority": True}, {"priority": None}, {"priority": 10**30},
        {"weight": 0}, {"weight": float("nan")}, {"weight": float("inf")}, {"weight": "1"}, {"concurrency": 0},
        {"concurrency": -1}, {"concurrency": "none"}, {"agent": "minimal", "priority": 1},
    ],
)  # fmt: skip
def test_limits_out_of_range_are_refused(operated, body):
    """As on the command line."""
    headers = operated.bearer("bo") | {"content-type": "application/json"}
    answer = operated.client().post(f"{operated.api}/limits", content=json.dumps(body), headers=headers)
    assert answer.status_code == 400, answer.text


def test_a_form_of_ones_own_session_does_it(operated):
    """Sign in, pause with a reason, set limits, cancel a trial, retry it; each leads back to the page."""
    client = operated.signed_in("bo")
    csrf = operated.csrf(client)
    paused = operated.send(client, "/pause", csrf=csrf, agent="", reason="a look")
    assert paused.status_code == 303
    assert "Done: pause." in client.get(paused.headers["location"]).text
    assert operated.state() == "paused"
    again = operated.send(client, "/pause", csrf=csrf, reason="a look")
    assert "Nothing was to be changed." in client.get(again.headers["location"]).text
    assert operated.send(client, "/resume", csrf=csrf).status_code == 303
    assert operated.send(client, "/limits", csrf=csrf, priority=" 4 ", concurrency="none").status_code == 303
    trial = str(operated.planned.trial(operated.planned.ids()[0]))
    assert operated.send(client, "/cancel", csrf=csrf, trials=trial).status_code == 400
    assert operated.send(client, "/cancel", csrf=csrf, trials=trial, sure="yes").status_code == 303
    assert operated.send(client, "/retry", csrf=csrf, trials=trial).status_code == 303
    for fields in ({"trials": "1;2"}, {"trials": "99999"}, {"trials": "1 " * 2000}, {}):
        assert operated.send(client, "/retry", csrf=csrf, **fields).status_code == 400
    for fields in (
        {"priority": "x"},
        {"weight": "nan"},
        {"weight": "1_0"},
        {"concurrency": "0"},
        {},
        {"priority": "٣"},
    ):
        assert operated.send(client, "/limits", csrf=csrf, **fields).status_code == 400
    with operated.store.read() as connection:
        assert {each.actor for each in list_operations(connection)[:-2]} == {"bo"}


def test_a_single_trial_is_cancelled_and_tried_again_from_its_page(operated):
    """The forms are there for operators who signed in, and need the session's secret like all."""
    trial = operated.planned.trial(operated.planned.ids()[0])
    page = f"/trials/{trial}"
    for nobody in (operated.client(), operated.signed_in("rea")):
        assert f'action="{page}/' not in nobody.get(page).text
    client = operated.signed_in("bo")
    assert f'action="{page}/retry"' in client.get(page).text
    assert client.post(f"{page}/cancel", data={"reason": "x"}, headers={"origin": ORIGIN}).status_code == 403
    csrf = {"csrf": operated.csrf(client)}
    for action in ("cancel", "retry"):
        answers = [client.post(f"{page}/{action}", data=csrf, headers={"origin": ORIGIN}) for _ in range(2)]
        assert [each.status_code for each in answers] == [303, 400]
    with operated.store.read() as connection:
        log = list_operations(connection, sweep_id=operated.planned.sweep_id)
    assert [(each.actor, each.action, each.trials) for each in log] == [
        ("bo", "retry", (trial,)), ("bo", "cancel", (trial,)),
    ]  # fmt: skip


def test_forged_forms_are_refused(operated):
    """Without the session's secret, with another session's, from another site, without saying from where."""
    client, other = operated.signed_in("bo"), operated.signed_in("bo")
    csrf = operated.csrf(client)
    for wrong in ("", "x", operated.csrf(other), csrf[:-1], csrf + "a", "ü"):
        answer = operated.send(client, "/pause", csrf=wrong)
        assert (answer.status_code, answer.headers["content-type"]) == (403, "text/html; charset=utf-8"), wrong
    assert operated.send(client, "/pause", reason="x").status_code == 403
    for origin in (
        None,
        "null",
        "http://evil.example",
        "https://127.0.0.1",
        "http://127.0.0.1:81",
        "http://127.0.0.1.x",
    ):
        assert operated.send(client, "/pause", origin=origin, csrf=csrf).status_code == 403, origin
    crossed = client.post(
        operated.page + "/pause", data={"csrf": csrf}, headers={"origin": ORIGIN, "sec-fetch-site": "cross-site"}
    )
    assert crossed.status_code == 403
    twice = client.post(
        operated.page + "/pause",
        content=f"csrf={csrf}&csrf={csrf}",
        headers={"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"},
    )
    assert twice.status_code == 400
    for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
        answer = client.post(
            operated.page + "/pause", content=f"csrf={csrf}", headers={"origin": ORIGIN, "content-type": kind}
        )
        assert answer.status_code == 400
    assert operated.send(operated.client(), "/pause", csrf=csrf).status_code == 401
    bearer = operated.client().post(
        operated.page + "/pause", data={"csrf": ""}, headers=operated.bearer("bo") | {"origin": ORIGIN}
    )
    assert bearer.status_code == 401
    assert operated.state() == "active"


def test_a_reader_sees_no_forms_and_sends_none(operated):
    """Its session's own secret does not help."""
    client = operated.signed_in("rea")
    shown = client.get(operated.page).text
    assert "role operator" in shown
    assert "/pause" not in shown
    csrf = operated.csrf(client)
    for action in ACTIONS:
        assert operated.send(client, f"/{action}", csrf=csrf, sure="yes", failed="true").status_code == 403
    assert operated.state() == "active"


def test_signing_in_needs_the_browsers_own_form_and_a_valid_token(operated):
    """And leads only to pages of this server. The cookie is kept from scripts and other sites."""
    client = operated.client()
    assert client.post("/sign-in", data={"token": operated.tokens["bo"]}, headers={"origin": ORIGIN}).status_code == 403
    assert sign_in(client, "wrong").status_code == 401
    answer = sign_in(client, operated.tokens["bo"], next="//evil.example")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sweeps")
    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("crb-session=", "httponly", "samesite=strict", "path=/"))
    for target, leads in (
        ("/sweeps/x?operation=none", "/sweeps/x?operation=none"),
        ("https://evil.example", "/sweeps"),
        ("/\\evil.example", "/sweeps"),
        ("/a\r\nset-cookie: x=1", "/sweeps"),
        ("javascript:alert(1)", "/sweeps"),
    ):
        assert sign_in(operated.client(), operated.tokens["bo"], next=target).headers["location"] == leads


def test_a_session_ends_with_sign_out_and_with_its_token(operated):
    """Revoked or expired, the next request is nobody's."""
    client = operated.signed_in("bo")
    kept = client.cookies["crb-session"]
    csrf = operated.csrf(client)
    assert client.post("/sign-out", data={"csrf": "x"}, headers={"origin": ORIGIN}).status_code == 403
    assert client.post("/sign-out", data={"csrf": csrf}, headers={"origin": ORIGIN}).status_code == 303
    client.cookies.set("crb-session", kept, domain="127.0.0.1")
    assert operated.send(client, "/pause", csrf=csrf).status_code == 401
    client = operated.signed_in("bo")
    csrf = operated.csrf(client)
    with operated.store.write() as connection:
        revoke_token(connection, "bo")
    assert operated.send(client, "/pause", csrf=csrf).status_code == 401
    answer = operated.client().post(f"{operated.api}/pause", json={}, headers=operated.bearer("bo"))
    assert answer.status_code == 401
    assert operated.state() == "active"


def test_tokens_sessions_and_tries_end_by_the_clock(operated):
    """By an injected clock: an expired token, a session of more than half a day, and the pause after wrong tokens."""
    seconds, now = [0.0], [utc_now()]
    access = Access(OPERATE, lambda: operated.store, clock=lambda: seconds[0], now=lambda: now[0])
    with operated.store.write() as connection:
        _, secret = create_token(connection, "short", "reader", expires_at="2999-01-01T00:00:00.000Z")
    session = access.sign_in(secret, "client")
    assert access.of_session(session).name == "short"
    now[0] = "2999-01-01T00:00:00.001Z"
    assert access.of_session(session) is None
    with pytest.raises(RefusedError, match="not valid"):
        access.of_bearer(secret, "client")
    session = access.sign_in(operated.tokens["bo"], "client")
    seconds[0] += SESSION_SECONDS
    assert access.of_session(session) is None
    for _ in range(TRIES):
        with pytest.raises(RefusedError, match="not valid"):
            access.of_bearer("wrong", "guesser")
    with pytest.raises(RefusedError, match="Too many") as refused:
        access.of_bearer(operated.tokens["bo"], "guesser")
    assert (refused.value.status, refused.value.wait) == (429, 10.0)
    assert access.of_bearer(operated.tokens["bo"], "another").name == "bo"
    seconds[0] += 10.0
    assert access.of_bearer(operated.tokens["bo"], "guesser").name == "bo"


def test_guessing_is_slowed_down_for_programs_and_browsers(operated):
    """The answer says when to ask again."""
    client = operated.client()
    found = [sign_in(client, "wrong").status_code for _ in range(TRIES + 1)]
    assert found == [401] * TRIES + [429]
    answer = client.post(f"{operated.api}/pause", json={}, headers=operated.bearer("bo"))
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 10


def test_where_reading_needs_a_token_nothing_else_is_shown(tmp_path):
    """Pages lead to the sign-in, the API and events say 401; a reader sees them, and changes nothing."""
    operated = Operated.make(tmp_path, AccessRules(read_with_token=True))
    client = operated.client()
    for path in ("/", "/sweeps", operated.page, f"{operated.page}/trials", "/trials/1", "/judges", "/nothing"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, "/sign-in"), path
    for path in ("/api/v1/sweeps", f"{operated.api}/progress", "/api/v1/openapi.json", "/api/v1/evidence/" + "0" * 64):
        assert client.get(path).status_code == 401
    assert client.get(f"{operated.page}/events").status_code == 401
    assert client.get("/static/crb.css").status_code == 200
    assert client.get("/api/v1/sweeps", headers=operated.bearer("rea")).status_code == 200
    assert operated.signed_in("rea").get(operated.page).status_code == 200
    answer = client.post(f"{operated.api}/pause", json={}, headers=operated.bearer("bo"))
    assert answer.status_code == 404
    operated.store.close()


def test_a_server_over_tls_sends_its_cookie_over_nothing_else(tmp_path):
    """With the name that browsers tie to this host; a form over plain http is refused."""
    operated = Operated.make(tmp_path, AccessRules(operate=True, is_tls=True))
    client = operated.client()
    client.base_url = "https://127.0.0.1"
    assert sign_in(client, operated.tokens["bo"]).status_code == 403
    shown = client.get("/sign-in").text.split('name="csrf" value="')[1].split('"')[0]
    answer = client.post(
        "/sign-in", data={"token": operated.tokens["bo"], "csrf": shown}, headers={"origin": "https://127.0.0.1"}
    )
    assert "__Host-crb-session=" in answer.headers["set-cookie"]
    assert "Secure" in answer.headers["set-cookie"]
    operated.store.close()


def test_a_reading_server_has_no_operations_and_no_sign_in(served, home):
    """Nothing but GET reaches a handler; tokens mean nothing."""
    assert served.get("/sign-in").status_code == 404
    assert served.post("/sign-in", data={"token": "x"}).status_code == 405
    paths = served.get("/api/v1/openapi.json").json()["paths"]
    assert all(set(methods) == {"get"} for methods in paths.values())
    with client_of(home) as client:
        assert client.get("/api/v1/sweeps", headers={"authorization": "Bearer wrong"}).status_code == 200


def test_an_unreadable_store_is_a_plain_page_for_those_with_tokens_too(tmp_path):
    """503 with a sentence, before and after the gate."""
    operated = Operated.make(tmp_path)
    operated.store.close()
    for name in ("crb.sqlite", "crb.sqlite-wal", "crb.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with operated.client(raise_server_exceptions=False) as client:
        answer = client.post(f"{operated.api}/pause", json={}, headers=operated.bearer("bo"))
        assert answer.status_code == 503
        assert sign_in(client, operated.tokens["bo"]).status_code == 503
        assert client.get(f"{operated.page}/events").status_code == 503


def test_a_retry_leaves_out_what_has_become_another_build(operated):
    """The API names the refused trials and tries the others; the page says it too; where nothing is left it is 400."""
    other = plan(operated.store, pull_requests=3, agent="other", name="sweep-of-minimal")
    assert other.sweep_id == operated.planned.sweep_id
    operated.refused[other.sweep_id, other.build_id] = InputError("The agent other is another build now")
    client, bo = operated.client(), operated.bearer("bo")
    assert client.post(f"{operated.api}/cancel", json={}, headers=bo).json()["steps"] == 6
    answer = client.post(f"{operated.api}/retry", json={"cancelled": True}, headers=bo)
    assert answer.status_code == 200
    (refused,) = answer.json()["refused"]
    assert (refused["agent"], len(refused["trials"])) == ("other", 3)
    assert refused["reason"] == "The agent other is another build now."
    (done,) = answer.json()["operations"]
    assert (done["steps"], set(done["trials"]) & set(refused["trials"])) == (3, set())
    assert "3 of its trials stay as they are" in done["reason"]
    again = client.post(f"{operated.api}/retry", json={"cancelled": True}, headers=bo)
    assert (again.status_code, "another build now" in again.json()["error"]["problem"]) == (400, True)

    assert client.post(f"{operated.api}/cancel", json={}, headers=bo).json()["steps"] == 3
    browser = operated.signed_in("bo")
    sent = operated.send(browser, "/retry", csrf=operated.csrf(browser), cancelled="true")
    assert "3 of its trials stay as they are" in browser.get(sent.headers["location"]).text
