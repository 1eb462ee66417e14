"""The claude matcher: what it sends, and what it makes of what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.matching import Correspondence, JudgedPullRequest
from crb_core.prompts import bundled_prompts
from crb_core.protocols import protocol_named
from crb_worker.judge.claude import read_setup
from crb_worker.judge.loopback import AnthropicServer, ReadingModel, RecordedRequest, Reply, text
from crb_worker.judge.loopback.model import findings_in
from crb_worker.judge.matcher import match_request
from crb_worker.judge.questions import AnswerError
from crb_worker.judge.quoting import Ids
from tests.crb_worker.judge.claude_support import MODEL, Desk, finding, golden, sent

GOLDEN_REQUEST = Path(__file__).parent / "golden_match_request.json"

LOCK = golden("The retry loop sleeps while it holds the pool lock, so one slow host blocks all workers.")
TYPO = golden("Typo in the public option name recieve_window.")


def answer(request: RecordedRequest, matches: Callable[[str, str], bool]) -> dict[str, Any]:
    """A complete answer; ``matches`` is asked with the messages of candidate and golden."""
    shown = list(findings_in(sent(request)))
    goldens = [each for each in shown if each.id.startswith("golden-")]
    described = {"issue": "An issue.", "minimal_fix": "A fix."}
    return {
        "golden_findings": [{"id": each.id, **described} for each in goldens],
        "candidate_findings": [
            {"id": each.id, **described, "matches": [g.id for g in goldens if matches(each.message, g.message)]}
            for each in shown
            if each.id.startswith("candidate-")
        ],
    }


def reply(value: Any, **more: Any) -> Reply:
    return Reply([text(json.dumps(value))], **more)


def same(candidate: str, other: str) -> bool:
    return candidate == other


def test_it_matches_many_to_many_and_keeps_the_order_of_the_findings(desk: Desk) -> None:
    """Positions are those of the lists given, whatever order the request had."""
    goldens = [golden(f"issue {number}") for number in range(7)]
    candidates = [finding(f"issue {number}") for number in (3, 0, 6, 6)] + [finding("another thing")]
    with AnthropicServer(lambda request: reply(answer(request, same))) as server:
        found = desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
    assert [(record.candidate, record.golden) for record in found] == [
        (0, (3,)),
        (1, (0,)),
        (2, (6,)),
        (3, (6,)),
        (4, ()),
    ]
    assert found[0].reasoning == "Issue: An issue. Minimal fix: A fix."


def test_it_sends_path_lines_and_message_and_nothing_else(desk: Desk) -> None:
    """No producer, label, severity, in_diff, pull request or other finding is shown (seed A 6.2.2)."""
    with AnthropicServer(lambda request: reply(answer(request, same))) as server:
        desk.judge(server).match("secret-key", [finding("one", line=4, end=6)], [golden("two")], protocol="reviewbench")
        (request,) = server.requests
    shown = sent(request)
    assert 'file="ledger/api.py" lines="4-6">one</finding>' in shown
    body = json.dumps(request.body)
    for hidden in ("secret-key", "producer-of", desk.pull_request.title, desk.pull_request.head, "correctness"):
        assert hidden not in body


def test_one_request_a_file_and_chunk_pair(desk: Desk) -> None:
    """Ten candidates against ten golden findings of one file; a file that only one side has needs none."""
    candidates = [finding(f"c{number}", file="a.py") for number in range(11)]
    candidates += [finding("only here", file="b.py"), finding("both", file="c.py")]
    goldens = [golden(f"g{number}", file="a.py") for number in range(21)]
    goldens += [golden("both", file="c.py"), golden("only there", file="d.py")]
    with AnthropicServer(lambda request: reply(answer(request, same))) as server:
        found = desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
        counts = sorted(
            (sum(each.id.startswith(kind) for each in findings_in(sent(request))))
            for request in server.requests
            for kind in ("candidate-", "golden-")
        )
        number = len(server.requests)
    assert number == 2 * 3 + 1
    assert counts == sorted([10, 10, 10, 10, 10, 1, 1, 10, 1, 10, 1, 1, 1, 1])
    assert found[12].golden == (21,)


def test_golden_comments_are_chunked_a_pull_request(desk: Desk) -> None:
    """Without files every candidate is compared with every golden comment, ten by ten."""
    candidates = [finding(f"c{number}", file=f"{number}.py") for number in range(12)]
    goldens = [golden(f"c{number}") for number in range(3)]
    with AnthropicServer(lambda request: reply(answer(request, same))) as server:
        found = desk.judge(server).match("pr", candidates, goldens, protocol="golden-comments")
        assert len(server.requests) == 2
    assert [record.golden for record in found[:4]] == [(0,), (1,), (2,), ()]


def test_locality_decides_which_pairs_of_an_answer_key_can_match(desk: Desk) -> None:
    """A match more than three lines away is not proposed, so it is none (rule 20)."""
    candidates = [finding("issue", line=13), finding("issue", line=14)]
    with AnthropicServer(lambda request: reply(answer(request, lambda one, other: True))) as server:
        found = desk.judge(server).match("pr", candidates, [golden("issue", line=10)], protocol="answer-key")
    assert found == (
        Correspondence(candidate=0, golden=(0,), reasoning="Issue: An issue. Minimal fix: A fix."),
        Correspondence(candidate=1, golden=()),
    )


@pytest.mark.parametrize(("candidates", "goldens"), [([], [LOCK]), ([finding("one")], [])])
def test_nothing_to_compare_needs_no_request(desk: Desk, candidates: Any, goldens: Any) -> None:
    """Without candidates or golden findings the model is not asked."""
    with AnthropicServer([]) as server:
        found = desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
        assert server.requests == []
    assert [record.golden for record in found] == [()] * len(candidates)


def test_candidates_are_shuffled_and_put_back(desk: Desk) -> None:
    """The order in a request is not the order of the findings, and it differs between requests."""
    candidates = [finding(f"c{number}", file=file) for file in ("a.py", "b.py") for number in range(10)]
    goldens = [golden("c3", file=file) for file in ("a.py", "b.py")]
    with AnthropicServer(lambda request: reply(answer(request, same))) as server:
        found = desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
        orders = [
            [each.message for each in findings_in(sent(request)) if each.id.startswith("candidate-")]
            for request in server.requests
        ]
    assert [record.candidate for record in found if record.golden] == [3, 13]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(f"c{number}" for number in range(10))
    assert orders[0] != orders[1]
    assert orders[0] != sorted(orders[0])


def broken_answers() -> dict[str, Callable[[RecordedRequest], Reply]]:
    def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[RecordedRequest], Reply]:
        def reply_to(request: RecordedRequest) -> Reply:
            value = answer(request, same)
            other = change(value)
            return reply(value if other is None else other)

        return reply_to

    def raw(value: str, **more: Any) -> Callable[[RecordedRequest], Reply]:
        return lambda request: Reply([text(value)], **more)

    return {
        "prose": raw("I think that they match."),
        "fenced": lambda request: Reply([text(f"```json\n{json.dumps(answer(request, same))}\n```")]),
        "half": lambda request: Reply([text(json.dumps(answer(request, same))[:-5])]),
        "empty": lambda request: Reply([]),
        "array": raw("[]"),
        "duplicate key": raw('{"golden_findings": [], "golden_findings": [], "candidate_findings": []}'),
        "not a number": raw('{"golden_findings": NaN, "candidate_findings": []}'),
        "missing candidate": changed(lambda value: value["candidate_findings"].pop()),
        "missing golden": changed(lambda value: value["golden_findings"].clear()),
        "candidate twice": changed(lambda value: value["candidate_findings"].append(value["candidate_findings"][0])),
        "unknown candidate": changed(lambda value: value["candidate_findings"][0].update(id="candidate-0")),
        "index instead of id": changed(lambda value: value["candidate_findings"][0].update(matches=[0])),
        "unknown match": changed(lambda value: value["candidate_findings"][0].update(matches=["golden-0"])),
        "candidate as match": changed(
            lambda value: value["candidate_findings"][0].update(matches=[value["candidate_findings"][1]["id"]])
        ),
        "match twice": changed(
            lambda value: value["candidate_findings"][0].update(matches=[value["golden_findings"][0]["id"]] * 2)
        ),
        "extra field": changed(lambda value: value.update(note="x")),
        "no reasoning": changed(lambda value: value["candidate_findings"][0].update(issue="")),
        "NUL": changed(lambda value: value["candidate_findings"][0].update(issue="a\0b")),
        "half a character": changed(lambda value: value["candidate_findings"][0].update(issue="a\ud83d")),
        "null": changed(lambda value: value["candidate_findings"][0].update(matches=None)),
    }


@pytest.mark.parametrize("kind", broken_answers())
def test_an_unusable_answer_is_repaired_once(desk: Desk, kind: str) -> None:
    """The question is asked again with what was wrong; the good answer then counts."""
    script = [broken_answers()[kind], lambda request: reply(answer(request, same))]
    with AnthropicServer(script) as server:
        found = desk.judge(server).match("pr", [finding("a"), finding("b")], [golden("a")], protocol="reviewbench")
        first, second = server.requests
    assert [record.golden for record in found] == [(0,), ()]
    assert second.body["messages"][0] == first.body["messages"][0]
    assert "cannot be used" in second.body["messages"][-1]["content"][0]["text"]
    assert [row.outcome for row in desk.calls()] == ["answered", "answered"]


@pytest.mark.parametrize("kind", broken_answers())
def test_an_answer_that_stays_unusable_fails_the_judgment(desk: Desk, kind: str) -> None:
    """It is an error that names request, file and pull request, never "no match"; the next try asks anew."""
    broken = broken_answers()[kind]
    with AnthropicServer([broken, broken]) as server, pytest.raises(AnswerError) as error:
        desk.judge(server).match("pr", [finding("a"), finding("b")], [golden("a")], protocol="reviewbench")
    rows = desk.calls()
    assert [row.outcome for row in rows] == ["rejected", "rejected"]
    assert rows[0].request_hash in str(error.value)
    assert "match pr ledger/api.py: candidates 0,1, golden 0" in str(error.value)
    with AnthropicServer(lambda request: reply(answer(request, same))) as server:
        found = desk.judge(server).match("pr", [finding("a"), finding("b")], [golden("a")], protocol="reviewbench")
    assert [record.golden for record in found] == [(0,), ()]
    assert desk.calls()[-1].attempt == 2


def test_a_cut_off_answer_gets_more_room(desk: Desk) -> None:
    """max_tokens is doubled once; the same question is asked, without the half answer."""
    script = [
        lambda request: reply(answer(request, same), stop_reason="max_tokens"),
        lambda request: reply(answer(request, same)),
    ]
    with AnthropicServer(script) as server:
        found = desk.judge(server).match("pr", [finding("a")], [golden("a")], protocol="reviewbench")
        first, second = server.requests
    assert found[0].golden == (0,)
    assert second.body == first.body | {"max_tokens": 2 * first.body["max_tokens"]}


def test_a_refusal_fails_the_judgment_at_once(desk: Desk) -> None:
    """A refusal is no answer and is not argued with."""
    with (
        AnthropicServer([Reply([text("No.")], stop_reason="refusal")]) as server,
        pytest.raises(AnswerError, match="refused"),
    ):
        desk.judge(server).match("pr", [finding("a")], [golden("a")], protocol="reviewbench")
    assert [(row.outcome, row.stop_reason) for row in desk.calls()] == [("rejected", "refusal")]


def test_the_rendered_request_is_fixed() -> None:
    """A change of prompts, schema or rendering is deliberate: raise the version and write this file anew."""
    setup = read_setup({"model": MODEL})
    candidates = (finding("Sleeps under the lock.", line=3), finding('Typo: "recieve" & <more>\u200b', line=9, end=12))
    judged = JudgedPullRequest(key="pr", golden=(LOCK, TYPO), candidates=candidates)
    (group,) = protocol_named("reviewbench").pairs(judged)
    request = match_request(Ids(b"a fixed secret"), setup.matcher, bundled_prompts(), judged, group)
    rendered = {"request_hash": request.request_hash, "ids": request.ids, "body": request.body}
    assert json.loads(GOLDEN_REQUEST.read_text(encoding="utf-8")) == rendered


def test_the_hash_is_taken_before_ids_and_order() -> None:
    """Two judgments with other secrets ask the same question under the same hash, with other ids and orders."""
    judged = JudgedPullRequest(
        key="pr", golden=(LOCK, TYPO), candidates=tuple(finding(f"c{number}") for number in range(9))
    )
    (group,) = protocol_named("reviewbench").pairs(judged)
    setup = read_setup({"model": MODEL})
    one, other = (match_request(Ids(secret), setup.matcher, setup.prompts, judged, group) for secret in (b"1", b"2"))
    assert one.request_hash == other.request_hash
    assert not one.ids.keys() & other.ids.keys()
    assert list(one.ids.values()) != list(other.ids.values())


@pytest.mark.parametrize("change", ["message", "lines", "file", "model", "effort"])
def test_whatever_decides_an_answer_changes_the_hash(change: str) -> None:
    """Another finding, model or parameter is another question."""
    base = JudgedPullRequest(key="pr", golden=(TYPO,), candidates=(finding("c"),))
    other = {
        "message": finding("d"),
        "lines": finding("c", line=11),
        "file": finding("c", file="ledger/other.py"),
    }.get(change, finding("c"))
    goldens = (TYPO.model_copy(update={"file": other.file}),)
    changed = JudgedPullRequest(key="pr", golden=goldens, candidates=(other,))
    options = {"model": {"model": "claude-opus-5"}, "effort": {"effort_match": "high"}}.get(change, {})
    hashes = []
    for judged, given in ((base, {}), (changed, options)):
        setup = read_setup({"model": MODEL, **given})
        (group,) = protocol_named("reviewbench").pairs(judged)
        hashes.append(match_request(Ids(b"1"), setup.matcher, setup.prompts, judged, group).request_hash)
    assert hashes[0] != hashes[1]


def test_an_unbound_judge_says_what_it_needs(desk: Desk) -> None:
    """Outside a step there is nowhere to store a call."""
    from crb_worker.judge.claude import ClaudeJudge

    with pytest.raises(InputError, match="inside a step"):
        ClaudeJudge.load({"model": MODEL}).match("pr", [finding("a")], [golden("a")], protocol="reviewbench")


def test_the_reading_model_answers_completely(desk: Desk) -> None:
    """The loopback model matches what shares words and nothing else."""
    candidates = [
        finding("Lock of the pool is held while the retry loop sleeps."),
        finding("A typo in recieve_window."),
    ]
    with AnthropicServer(ReadingModel()) as server:
        found = desk.judge(server).match("pr", candidates, [LOCK, TYPO], protocol="reviewbench")
    assert [record.golden for record in found] == [(0,), (1,)]
