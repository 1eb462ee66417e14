"""ETags: who has an answer already is told so; nobody is told so of a number that has changed."""

from __future__ import annotations

import shutil

import pytest
from sqlalchemy import text, update

from crb_core.store import open_store
from crb_core.store.access_tokens import revoke_token
from crb_core.store.tables import JudgeRow, core
from crb_web.access import AccessRules
from tests.crb_web.conftest import client_of
from tests.crb_web.operated import Operated

PATHS = (
    "/", "/?sweep=bench&severity=high", "/pictures?sweep=bench", "/sweeps", "/judges", "/trials/1", "/static/crb.css",
    "/leaderboard.csv?sweep=bench", "/leaderboard.xlsx?sweep=bench", "/leaderboard/strata.svg?sweep=bench",
    "/api/v1/leaderboard?sweep=bench", "/api/v1/sweeps", "/api/v1/openapi.json",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_who_has_an_answer_is_told_so(served, path):
    """304 without a body, with the headers that every answer has; a HEAD says the same tag."""
    first = served.get(path)
    again = served.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "content-length" not in again.headers
    assert {
        name: value for name, value in first.headers.items() if name not in {"content-length", "content-type"}
    } == dict(again.headers) | (
        {"content-disposition": first.headers["content-disposition"]} if "content-disposition" in first.headers else {}
    )
    assert served.head(path).headers["etag"] == first.headers["etag"]


def test_every_form_of_the_question_is_understood(served):
    """A list, a weak tag, any; another tag, a damaged one or an empty one is none."""
    tag = served.get("/sweeps").headers["etag"]
    for asked in (f'"other", {tag}', f"W/{tag}", "*", f'W/"x",W/{tag}'):
        assert served.get("/sweeps", headers={"if-none-match": asked}).status_code == 304, asked
    for asked in ('"other"', tag.strip('"'), "", tag.upper(), '"', f'"{tag}'):
        assert served.get("/sweeps", headers={"if-none-match": asked}).status_code == 200, asked


def test_errors_have_no_tag(served):
    """Whatever a client has of what is wrong, it is said again."""
    for path, status in (("/nothing", 404), ("/?severity=none", 400), ("/api/v1/sweeps/none", 404)):
        answer = served.get(path, headers={"if-none-match": "*"})
        assert (answer.status_code, answer.headers.get("etag")) == (status, None)
        assert answer.headers["cache-control"] == "no-store"


def test_no_shared_cache_keeps_anything_and_no_browser_a_page(served):
    """Programs may keep what the API says, and have to ask; a page would be shown on the way back without asking."""
    for path in PATHS:
        control = served.get(path).headers["cache-control"]
        if path.startswith("/api/"):
            assert control == "private, no-cache"
        elif path.startswith("/static/"):
            assert control.startswith("private,")
        else:
            assert control == "no-store"


def _relabelled(connection):
    connection.execute(text("""UPDATE classification SET document = replace(document, '"tp"', '"fp"')"""))


def _renamed_judge(connection):
    connection.execute(update(core(JudgeRow)).values(name="another"))


@pytest.mark.parametrize("change", [_relabelled, _renamed_judge])
def test_a_changed_record_is_another_answer(home, tmp_path, change):
    """Labels or a judge that are changed behind the server's back, also where the answer is as long as before."""
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    paths = (
        "/?sweep=bench&basis=augmented", "/api/v1/leaderboard?sweep=bench", "/leaderboard.csv?sweep=bench",
        "/leaderboard.xlsx?sweep=bench",
    )  # fmt: skip
    with client_of(copy) as client:
        first = {path: client.get(path) for path in paths}
        store = open_store(f"sqlite:///{copy / 'crb.sqlite'}")
        with store.write() as connection:
            change(connection)
        store.close()
        for path in paths:
            now = client.get(path, headers={"if-none-match": first[path].headers["etag"]})
            assert now.status_code == 200, path
            assert now.headers["etag"] != first[path].headers["etag"]
        assert client.get(paths[0]).text != first[paths[0]].text


def test_the_state_of_a_leaderboard_is_in_its_tag(shown):
    """Another judge, profile, beta or filter is not what a client has."""
    path = "/api/v1/leaderboard?sweep=comments"
    tags = [
        shown.get(path + more).headers["etag"]
        for more in ("", "&judge=maker_model-a", "&profile=all", "&profile=strict", "&beta=2", "&severity=high")
    ]
    assert len(set(tags)) == len(tags)


def test_a_tag_opens_no_door(tmp_path):
    """Without a valid token nobody learns whether an answer is still the same, and what a token reads is not kept."""
    operated = Operated.make(tmp_path, AccessRules(operate=True, read_with_token=True))
    client, rea = operated.client(), operated.bearer("rea")
    path = f"{operated.api}/operations"
    first = client.get(path, headers=rea)
    assert (first.headers["cache-control"], first.headers["vary"]) == ("no-store", "authorization, cookie")
    known = {"if-none-match": first.headers["etag"]}
    assert client.get(path, headers=rea | known).status_code == 304
    for headers in ({}, {"authorization": "Bearer wrong"}):
        assert client.get(path, headers=headers | known).status_code == 401
    with operated.store.write() as connection:
        revoke_token(connection, "rea")
    assert client.get(path, headers=rea | known).status_code == 401
    operated.store.close()


def test_who_signed_in_gets_a_page_of_their_own(tmp_path):
    """With the secret of their forms: the tag of a page that somebody else has is not theirs."""
    operated = Operated.make(tmp_path)
    stranger, bo = operated.client(), operated.signed_in("bo")
    open_page = stranger.get(operated.page)
    own = bo.get(operated.page, headers={"if-none-match": open_page.headers["etag"]})
    assert own.status_code == 200
    assert 'name="csrf"' in own.text
    assert stranger.get(operated.page, headers={"if-none-match": own.headers["etag"]}).status_code == 200
    operated.store.close()
