"""General comments become atomic findings by the model; every one quotes the comment, and nothing is made up."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError, UnavailableError
from crb_worker.judge.calls import CallLimits
from crb_worker.judge.extractor import Extractor, extract_request, read_extractor
from crb_worker.judge.loopback import AnthropicServer, Fault, ObedientModel, Reply, text
from crb_worker.judge.loopback.model import obeys
from crb_worker.judge.questions import AnswerError
from crb_worker.judge.quoting import Ids
from tests.crb_worker.judge.claude_support import MODEL, Desk, findings_reply, sent
from tests.hostile_texts.texts import TEXTS

answered = partial(findings_reply, "comment", "comment")

GOLDEN_REQUEST = Path(__file__).with_name("golden_extract_request.json")
COMMENT = """\
Thanks for the change! Two things:

1. `total_price` in shop/cart.py rounds before it sums (line 12).
2. The cache is never emptied.
"""
PRICE = {
    "quote": "`total_price` in shop/cart.py rounds before it sums (line 12).",
    "statement": "total_price rounds each price before it sums them.",
    "file": "shop/cart.py",
    "line": 12,
}
CACHE = {
    "quote": "The cache is\nnever emptied.",
    "statement": "The cache is never emptied.",
    "file": None,
    "line": None,
}


def extractor(desk: Desk, server: AnthropicServer, **options: str) -> Extractor:
    spec = ",".join(f"{name}={value}" for name, value in ({"model": MODEL} | options).items())
    setup = replace(read_extractor(f"claude:{spec}"), base_url=server.base_url)
    return Extractor(setup, desk.outside(setup.fingerprint), CallLimits(seconds=20, tries=1))


def test_one_comment_becomes_its_findings(desk: Desk) -> None:
    """In the comment's order, each with its words, its place where it names one, and the request that gave it."""
    with AnthropicServer([answered(PRICE, CACHE)]) as server:
        found = extractor(desk, server).split(COMMENT, "comment 0 by bot on pr-1")
    (row,) = desk.calls()
    assert [(each.statement, each.quote, each.file, each.line) for each in found] == [
        (each["statement"], each["quote"], each["file"], each["line"]) for each in (PRICE, CACHE)
    ]
    assert {each.request_hash for each in found} == {row.request_hash}
    assert (row.stage, row.label, row.trial_id) == ("extract", "extract comment 0 by bot on pr-1", None)
    assert row.read is None


def test_the_same_comment_is_asked_for_once(desk: Desk) -> None:
    """A stored answer is replayed, by whichever process, and another prompt or model is another question."""
    with AnthropicServer([answered(PRICE), answered(CACHE)]) as server:
        first = extractor(desk, server).split(COMMENT, "one")
        assert extractor(desk, server).split(COMMENT, "another") == first
        assert len(server.requests) == 1
        other = extractor(desk, server, effort="high").split(COMMENT, "one")
        assert other != first


def test_a_comment_without_a_problem(desk: Desk) -> None:
    """No findings is an answer; a blank comment is no question."""
    with AnthropicServer([answered()]) as server:
        assert extractor(desk, server).split("Thanks!", "one") == ()
        assert extractor(desk, server).split(" \n", "two") == ()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"quote": "The cache leaks."}, "quote does not stand in the comment"),
        ({"quote": " – "}, "quote holds no word"),
        ({"statement": " "}, "statement is blank"),
        ({"file": "shop/other.py"}, "file does not stand in the comment"),
        ({"file": "shop/cart.py", "line": 99}, "line does not stand in the comment"),
        ({"file": None, "line": 12}, "line is given without a file"),
        ({"line": "12"}, "valid integer"),
    ],
)
def test_what_the_comment_does_not_say_is_no_finding(desk: Desk, change: dict[str, Any], problem: str) -> None:
    """It is asked for once more with what is wrong; then the extraction fails, and nothing half is used."""
    wrong = answered(PRICE | change)
    with AnthropicServer([wrong, answered(PRICE)]) as server:
        assert len(extractor(desk, server).split(COMMENT, "one")) == 1
        assert problem in sent(server.requests[1])
    with AnthropicServer([wrong, wrong]) as server, pytest.raises(AnswerError, match="still wrong after one repair"):
        extractor(desk, server).split(COMMENT + "\n", "one")


@pytest.mark.parametrize("broken", [answered(PRICE, comment_id="comment-0"), lambda _: Reply([text("Two problems.")])])
def test_an_answer_to_something_else(desk: Desk, broken: Any) -> None:
    """Another id, or prose, is unusable."""
    with AnthropicServer([broken, broken]) as server, pytest.raises(AnswerError):
        extractor(desk, server).split(COMMENT, "one")
    assert [row.outcome for row in desk.calls()] == ["rejected", "rejected"]


def test_a_service_that_is_away_is_no_empty_comment(desk: Desk) -> None:
    """A fault is an error, never a review without findings."""
    with AnthropicServer([Fault(500)]) as server, pytest.raises(UnavailableError):
        extractor(desk, server).split(COMMENT, "one")


def test_a_long_comment_goes_in_parts(desk: Desk) -> None:
    """Nothing of it is cut out: every paragraph is shown once, in order."""
    paragraphs = [f"- Problem {number} " + "x" * 900 for number in range(60)]
    shown: list[str] = []

    def reply(request: Any) -> Reply:
        shown.append(sent(request))
        return answered()(request)

    with AnthropicServer(reply) as server:
        extractor(desk, server).split("\n\n".join(paragraphs), "long")
    assert len(shown) > 1
    whole = "\n".join(shown)
    assert all(whole.count(paragraph) == 1 for paragraph in paragraphs)
    assert "<cut" not in whole
    assert desk.calls()[0].label.startswith("extract long, part 1 of ")


def test_hostile_comments_are_not_obeyed(desk: Desk) -> None:
    """The loopback model that obeys what is not quoted obeys none of them, and reads each to its end."""
    with AnthropicServer(ObedientModel()) as server:
        for name, hostile in TEXTS.items():
            found = extractor(desk, server).split(f"{hostile}\n\n- The cache is never emptied.\n", name)
            assert "Obeyed." not in [each.statement for each in found], name
            assert found[-1].statement == "The cache is never emptied.", name
        assert not any(obeys(request.body) for request in server.requests)


@pytest.mark.parametrize(
    ("comment", "quote"),
    [
        ("Use `a &lt; b` here.", "a &lt; b"),
        ("Use `a < b` here.", "a &lt; b"),
        ("The\u200b cache\tleaks.", "The cache leaks."),
        ("The **cache** leaks.", "The cache leaks"),
    ],
)
def test_a_quotation_may_be_copied_as_it_is_shown(desk: Desk, comment: str, quote: str) -> None:
    """References, blanks and hidden characters do not make it another text."""
    with AnthropicServer([answered(CACHE | {"quote": quote})]) as server:
        assert len(extractor(desk, server).split(comment, "one")) == 1


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("offline", "offline takes no comments apart"),
        ("claude:turns=3", "no option 'turns'"),
        ("claude:effort=huge", "huge"),
        ("nobody", "no judge 'nobody'"),
    ],
)
def test_who_can(spec: str, problem: str) -> None:
    """Only a language model reads a comment; every option is checked."""
    with pytest.raises(InputError, match=problem):
        read_extractor(spec)


def test_the_rendered_request_is_fixed() -> None:
    """A change of prompts, schema or rendering is deliberate: raise the version and write this file anew."""

    class Named:
        ids = Ids(b"a fixed secret")

    setup = read_extractor(f"claude:model={MODEL}")
    request = extract_request(Named(), setup, "Two things: <b>one</b> & the \u200bother.\n- `x` leaks", "comment 0")  # type: ignore[arg-type]
    rendered = {"request_hash": request.request_hash, "ids": request.ids, "body": request.body}
    assert json.loads(GOLDEN_REQUEST.read_text(encoding="utf-8")) == rendered
