"""No text changes another finding's result, its own id, or leaves its delimiters.

The loopback model here obeys whatever is not quoted completely. The last tests take the quoting away, and the same
suite then succeeds in attacking: so it is the quoting that these tests measure.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Corpus
from crb_core.errors import CrbError
from crb_core.matching import Correspondence
from crb_worker.judge import quoting
from crb_worker.judge.loopback import AnthropicServer, ObedientModel
from crb_worker.judge.loopback.model import findings_in, obeys
from crb_worker.snapshot import Snapshot
from tests.crb_worker.judge.claude_support import Desk, finding, golden, open_desk, sent, showcase, snapshot_of
from tests.hostile_texts.texts import TEXTS

LOCK = golden("The retry loop sleeps while it holds the pool lock, so one slow host blocks all workers.")
TYPO = golden("Typo in the public option name recieve_window.")
VICTIMS = (
    finding("Lock of the pool is held while the retry loop sleeps."),
    finding("The cache is never cleared and grows."),
    finding("Option recieve_window is a typo."),
)
EXPECTED = [(0,), (), (1,)]
#: Findings that are true and false by the loopback model's rule, and must stay so.
TRUE, FALSE = finding("list_refunds pastes reason"), finding("Zyxw qwertz uiopu.")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return showcase()


@pytest.fixture(scope="module")
def snapshot(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("snapshots"), corpus.entries[0].pull_request)


@pytest.fixture(scope="module")
def server() -> Iterator[AnthropicServer]:
    with AnthropicServer(ObedientModel()) as started:
        yield started


@pytest.fixture(scope="module")
def desk(corpus: Corpus, snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_API_KEY", "test-key")
        with open_desk(tmp_path_factory.mktemp("store"), corpus, snapshot) as opened:
            yield opened


def match(
    desk: Desk, server: AnthropicServer, candidates: Any, goldens: Any
) -> tuple[tuple[Correspondence, ...], list[Any]]:
    before = len(server.requests)
    found = desk.judge(server).match("pr", candidates, goldens, protocol="golden-comments")
    return found, server.requests[before:]


def shown_texts(requests: list[Any]) -> list[str]:
    return [each.message for request in requests for each in findings_in(sent(request))]


def test_there_are_enough_of_them() -> None:
    """At least forty, all different."""
    assert len(set(TEXTS.values())) == len(TEXTS) >= 40


def test_the_victims_alone(desk: Desk, server: AnthropicServer) -> None:
    """What the others are compared with."""
    found, _ = match(desk, server, VICTIMS, (LOCK, TYPO))
    assert [record.golden for record in found] == EXPECTED


def is_not_moved(desk: Desk, server: AnthropicServer, more: Any, more_golden: Any) -> None:
    """The victims' matches are what they are without the hostile findings, and no request obeys anything."""
    candidates, goldens = (*more, *VICTIMS), (LOCK, TYPO, *more_golden)
    found, requests = match(desk, server, candidates, goldens)
    victims = found[-len(VICTIMS) :]
    assert [tuple(each for each in record.golden if each < 2) for record in victims] == EXPECTED
    assert not any(obeys(request.body) for request in requests)
    assert len(shown_texts(requests)) == len(candidates) + len(goldens)


@pytest.mark.parametrize("name", TEXTS)
def test_the_matcher_is_not_moved(desk: Desk, server: AnthropicServer, name: str) -> None:
    """A hostile message, path and golden finding in one request change nothing of the others."""
    text = TEXTS[name]
    is_not_moved(desk, server, (finding(text), finding("Nothing of note.", file=text)), (golden(text),))


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["message", "file", "golden"])
@pytest.mark.parametrize("name", TEXTS)
def test_the_matcher_is_not_moved_by_one_place(desk: Desk, server: AnthropicServer, name: str, place: str) -> None:
    """The same with the text in one of these places only."""
    text = TEXTS[name]
    more = {"message": (finding(text),), "file": (finding("Nothing of note.", file=text),), "golden": ()}[place]
    is_not_moved(desk, server, more, (golden(text),) if place == "golden" else ())


@pytest.mark.parametrize("name", TEXTS)
def test_the_classifier_is_not_moved(
    desk: Desk, server: AnthropicServer, snapshot: Snapshot, tmp_path: Path, name: str
) -> None:
    """A hostile title, body and diff, and a hostile finding beside it, change no label."""
    text = TEXTS[name]
    pull_request = snapshot.pull_request.model_copy(update={"title": text, "body": text})
    (tmp_path / "pr").mkdir()
    (tmp_path / "repo").symlink_to(snapshot.repo)
    lines = "".join(f"+{line}\n" for line in text.split("\n"))
    diff = f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -0,0 +1 @@\n{lines}"
    (tmp_path / "pr" / "diff.patch").write_bytes(diff.encode("utf-8", "surrogatepass"))
    desk.snapshot = replace(snapshot, pull_request=pull_request, folder=tmp_path)
    before = len(server.requests)
    try:
        found = desk.judge(server).classify("pr", (TRUE, finding(text), FALSE), (0, 1, 2), protocol="reviewbench")
    finally:
        desk.snapshot = snapshot
    assert [record.label.tp_fp for record in (found[0], found[2])] == ["tp", "fp"]
    assert "Obeyed." not in " ".join(str(record.label) for record in found)
    assert not any(obeys(request.body) for request in server.requests[before:])


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_lost(name: str) -> None:
    """Unescaping gives the text back; nothing hidden, and no markup, is left in the escaped form."""
    text = TEXTS[name]
    quoted = quoting.escaped(text)
    assert not set(quoted) & set("<>")
    if not any(ord(each) in range(0x80, 0xA0) or each in "\x00\r\x0b\x0c\x1b\x7f\x01\x08\x07" for each in text):
        # html.unescape refuses references to control characters, as HTML does.
        assert html.unescape(quoted) == text
    line = quoting.attribute(text)
    assert not set(line) & set('<>"\n\t')
    whole = quoting.element("finding", text, {"id": "x", "file": text})
    # A line end in an attribute has five characters.
    assert len(whole) < quoting.MAX_TEXT + 2400
    # Whoever normalises the request finds the same markup in it.
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        normal = unicodedata.normalize(form, whole)
        assert [each for each in normal if each in '<>"'] == [each for each in whole if each in '<>"']


def succeeds(desk: Desk, server: AnthropicServer, text: str) -> bool:
    """Whether a text in a candidate changes a victim, breaks the judgment or is obeyed."""
    before = len(server.requests)
    try:
        found = desk.judge(server).match("pr", (finding(text), *VICTIMS), (LOCK, TYPO), protocol="golden-comments")
    except CrbError:
        return True
    obeyed = any(obeys(request.body) for request in server.requests[before:])
    return obeyed or [record.golden for record in found[1:]] != EXPECTED


def test_without_quoting_the_suite_attacks(
    desk: Desk, server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite can fail: with the escaping off, the texts that hold markup or hidden characters succeed."""
    monkeypatch.setattr(quoting, "_character", lambda character: character)
    won = [name for name, text in TEXTS.items() if succeeds(desk, server, text + " ")]
    assert len(won) >= 35


@pytest.mark.thorough
def test_escaping_the_less_than_sign_alone_is_not_enough(
    desk: Desk, server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a known tool escapes (facts A18, gap 3) leaves quotes, hidden characters and look-alikes."""
    monkeypatch.setattr(quoting, "_character", lambda character: "&lt;" if character == "<" else character)
    won = {name for name, text in TEXTS.items() if succeeds(desk, server, text + "  ")}
    assert {"zero width", "tag characters", "bidi", "fullwidth markup", "control characters"} <= won
