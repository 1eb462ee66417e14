"""Findings are inferred from later commits conservatively: at modified lines, in their words, or not at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.follow_ups import ModifiedFile
from crb_worker.judge.author_actions import ActionReader, Confidence, read_actions
from crb_worker.judge.calls import CallLimits
from crb_worker.judge.loopback import AnthropicServer, ObedientModel
from crb_worker.judge.loopback.model import obeys
from crb_worker.judge.questions import AnswerError
from tests.crb_worker.judge.claude_support import MODEL, Desk, findings_reply, sent
from tests.hostile_texts.texts import TEXTS

answered = partial(findings_reply, "title", "commit")

FILE = ModifiedFile(
    path="shop/a&b.py",
    anchors=frozenset({7, 8}),
    text="@@ def total\n     6   x = 1\n     7 -     if a < b:\n     8 -         return 0\n       +     if a <= b:",
    changed="    if a < b:\n        return 0\n    if a <= b:",
)
GOOD = {
    "file": "shop/a&b.py",
    "start_line": 7,
    "end_line": 8,
    "quote": "if a < b:",
    "reason": "The comparison was widened.",
    "statement": "Equal values are left out.",
    "confidence": "high",
}


def reader(desk: Desk, server: AnthropicServer) -> ActionReader:
    setup = replace(read_actions(f"claude:model={MODEL}"), base_url=server.base_url)
    return ActionReader(setup, desk.outside(setup.fingerprint), CallLimits(seconds=20, tries=1))


def infer(desk: Desk, *replies: Any, message: str = "Fix equal values") -> Any:
    with AnthropicServer(list(replies)) as server:
        found = reader(desk, server).infer(desk.pull_request, message, [FILE], "pr: commit 1")
        return found, server.requests


def test_a_problem_with_its_lines_and_words(desk: Desk) -> None:
    """As the answer has it, with the request that gave it; asked once, whoever asks."""
    found, requests = infer(desk, answered(GOOD))
    (row,) = desk.calls()
    (one,) = found
    assert (one.file, one.start_line, one.end_line, one.statement) == (
        "shop/a&b.py",
        7,
        8,
        "Equal values are left out.",
    )
    assert (one.confidence, one.request_hash) == (Confidence.HIGH, row.request_hash)
    assert (row.stage, row.trial_id) == ("infer", None)
    shown = sent(requests[0])
    assert '<diff file="shop/a&amp;b.py">' in shown
    assert "     7 -     if a &lt; b:" in shown
    assert infer(desk)[0] == found


@pytest.mark.parametrize("copied", [{"file": "shop/a&amp;b.py"}, {"quote": "if a &lt; b:"}, {"quote": "return   0"}])
def test_what_is_copied_as_it_was_shown(desk: Desk, copied: dict[str, Any]) -> None:
    """References that stand for characters, and other blanks, are the same words."""
    found, requests = infer(desk, answered(GOOD | copied))
    assert [each.file for each in found] == ["shop/a&b.py"]
    assert len(requests) == 1


def test_most_commits_show_nothing(desk: Desk) -> None:
    """No finding is an answer."""
    assert infer(desk, answered())[0] == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"file": "other.py"}, "not the path of a diff element"),
        ({"start_line": 6}, "not lines that the commit modified"),
        ({"end_line": 9}, "not lines that the commit modified"),
        ({"start_line": 8, "end_line": 7}, "before start_line"),
        ({"quote": "x = 1"}, "not a line that the commit took away or wrote"),
        ({"quote": "<"}, "not a line that the commit took away or wrote"),
        ({"statement": " "}, "blank"),
        ({"confidence": "sure"}, "confidence"),
        ({"start_line": "7"}, "start_line"),
    ],
)
def test_what_the_change_does_not_show_is_no_finding(desk: Desk, change: dict[str, Any], problem: str) -> None:
    """It is asked for once more with what is wrong; then it fails, and nothing half is used."""
    wrong = answered(GOOD | change)
    found, requests = infer(desk, wrong, answered(GOOD))
    assert len(found) == 1
    assert problem in sent(requests[1])
    with pytest.raises(AnswerError, match="still wrong after one repair"):
        infer(desk, wrong, wrong, message="Another")


def test_another_commit(desk: Desk) -> None:
    """An id that was not given is unusable."""
    wrong = answered(GOOD, commit_id="commit-0")
    with pytest.raises(AnswerError):
        infer(desk, wrong, wrong)


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.thorough)])
def test_hostile_commits_stay_data(desk: Desk, every: int) -> None:
    """Whatever message and changed lines say, they do not leave their elements: nothing is obeyed."""
    obeyed = []

    class Watched(ObedientModel):
        def __call__(self, request: Any) -> Any:
            obeyed.append(obeys(request.body))
            return super().__call__(request)

    hostile = [*TEXTS.values()][::every]
    with AnthropicServer(Watched()) as server:
        made = reader(desk, server)
        for number, each in enumerate(hostile):
            file = replace(FILE, text=f"@@\n     7 - {each}", changed=each)
            # A text without a word gives no quotation, which is an error and not obedience.
            with suppress(AnswerError):
                made.infer(desk.pull_request, each, [replace(file, path="a.py")], str(number))
    assert obeyed == [False] * len(obeyed)
    assert len(obeyed) >= len(hostile)


def test_who_reads_commits() -> None:
    """Only claude, with the options that mean something here."""
    with pytest.raises(InputError, match="offline reads no commits"):
        read_actions("offline")
    with pytest.raises(InputError, match="no option 'turns'"):
        read_actions("claude:turns=3")
    assert read_actions("claude").fingerprint != read_actions("claude:effort=high").fingerprint
