"""Message batches: half the price, no thread waits, and a restart while one runs loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from crb_core.corpus import Corpus
from crb_core.errors import InputError, UnavailableError
from crb_core.store.judge_calls import calls, spending
from crb_worker.judge.base import LaterError
from crb_worker.judge.calls import BudgetError
from crb_worker.judge.loopback import AnthropicServer, Cut, Fault, ReadingModel, Reply, text
from crb_worker.judge.loopback.server import _Batch
from crb_worker.judge.questions import AnswerError
from crb_worker.snapshot import Snapshot
from tests.crb_worker.judge.claude_support import Desk, finding, golden, open_desk
from tests.crb_worker.judge.test_claude_matcher import answer, reply, same

CANDIDATES = [finding(f"c{number}", file=f"{number}.py") for number in range(3)]
GOLDEN = [golden(f"c{number}", file=f"{number}.py") for number in range(3)]
USAGE = {"input_tokens": 1000, "output_tokens": 1000}


def good(request: Any) -> Any:
    return reply(answer(request, same), usage=USAGE)


def take(desk: Desk, server: AnthropicServer) -> Any:
    """One take of the step, by whichever worker: the judge is made anew."""
    return desk.judge(server, batch="true").match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")


def test_one_batch_for_all_requests_of_a_step(desk: Desk) -> None:
    """The step is deferred twice, then every answer is there, in one batch, at the batch price."""
    with AnthropicServer(good, batch_looks=1) as server:
        for _ in range(2):
            with pytest.raises(LaterError, match="Waits for batch msgbatch_1"):
                take(desk, server)
        found = take(desk, server)
        assert len(server.requests) == 3
        assert [request.path for request in server.all_requests].count("/v1/messages/batches") == 1
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    rows = desk.calls()
    assert [(row.outcome, row.service_tier) for row in rows] == [("answered", "batch")] * 3
    assert rows[0].list_price_usd == pytest.approx((1000 * 2 + 1000 * 10) / 1e6 / 2)
    assert {row.batch_id for row in rows} == {"msgbatch_1"}


def test_what_a_batch_leaves_open_is_asked_again(desk: Desk) -> None:
    """Errored and expired requests go into the next batch; what was answered does not."""
    script = [good, Fault(500), Cut(), good, good]
    with AnthropicServer(script, batch_looks=0) as server:
        for _ in range(2):
            with pytest.raises(LaterError):
                take(desk, server)
        found = take(desk, server)
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    outcomes = [row.outcome for row in desk.calls()]
    assert outcomes == ["answered", "server_error", "expired", "answered", "answered"]


def test_an_unusable_answer_of_a_batch_is_repaired_in_the_next(desk: Desk) -> None:
    """Once, as without a batch; what was answered well is not sent again. Then the judgment fails, visibly."""
    with AnthropicServer([good, lambda _: Reply([text("They match.")]), good, good], batch_looks=0) as server:
        found = judged_in_the_end(desk, server)
        assert len(server.requests) == 4
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    assert len({row.batch_id for row in desk.calls()}) == 2


@pytest.mark.parametrize("stop_reason", [None, "refusal", "max_tokens"])
def test_an_answer_of_a_batch_that_stays_unusable_fails_the_judgment(desk: Desk, stop_reason: str | None) -> None:
    """Refused, cut off or malformed: an error, never "no match"."""
    more = {} if stop_reason is None else {"stop_reason": stop_reason}
    with (
        AnthropicServer(lambda _: Reply([text("They match.")], **more), batch_looks=0) as server,
        pytest.raises(AnswerError, match="No judgment"),
    ):
        judged_in_the_end(desk, server)
    assert "rejected" in {row.outcome for row in desk.calls()}


def test_a_request_that_is_invalid_fails_the_judgment(desk: Desk) -> None:
    """It is not sent for ever."""
    with AnthropicServer([Fault(400)] * 3, batch_looks=0) as server:
        with pytest.raises(LaterError):
            take(desk, server)
        with pytest.raises(InputError, match="refused the request"):
            take(desk, server)


def test_a_request_that_stays_open_ends(desk: Desk) -> None:
    """After three batches without an answer the step fails with its reason."""
    with AnthropicServer(lambda request: Fault(500), batch_looks=0) as server:
        for _ in range(3):
            with pytest.raises(LaterError):
                take(desk, server)
        with pytest.raises(UnavailableError, match="no answer in 3 tries"):
            take(desk, server)


def test_a_batch_that_is_not_accepted_costs_nothing(desk: Desk) -> None:
    """The rows say so and keep no reservation."""
    with AnthropicServer(good, api_key="another") as server, pytest.raises(Exception, match="API key"):
        take(desk, server)
    assert [(row.outcome, row.reserved_usd) for row in desk.calls()] == [("invalid", None)] * 3


def test_a_batch_that_would_pass_the_budget_is_not_handed_over(
    tmp_path: Path, showcase_corpus: Corpus, ledger_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its requests fit or none is reserved: what is left of the budget is left to others."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    with open_desk(tmp_path, showcase_corpus, ledger_snapshot, max_cost_usd=0.2) as desk:
        with AnthropicServer(good, batch_looks=0) as server:
            with pytest.raises(BudgetError, match="A batch of 3 calls could cost"):
                take(desk, server)
            assert server.all_requests == []
        assert desk.calls() == []
        with desk.store.read() as connection:
            assert spending(connection, desk.sweep_id).reserved_usd == 0


@pytest.mark.parametrize("said", ["half \ud83d of it", "\ud800"])
def test_an_answer_that_is_no_text_counts_as_none(desk: Desk, said: str) -> None:
    """A lone surrogate could be stored and never be read again: the request goes into the next batch."""
    broken = Reply([text(said)], usage=USAGE)
    with AnthropicServer([good, lambda _: broken, good, good], batch_looks=0) as server:
        found = judged_in_the_end(desk, server)
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    assert [row.outcome for row in desk.calls()] == ["answered", "server_error", "answered", "answered"]


def test_sessions_of_the_classifier_go_in_waves(desk: Desk) -> None:
    """Every turn of all findings is one batch; the sessions are replayed from what is stored."""
    findings = [finding("list_refunds pastes reason"), finding("Zyxw qwertz uiopu.")]
    with AnthropicServer(ReadingModel(), batch_looks=0) as server:
        labels: Any = None
        takes = 0
        while labels is None:
            takes += 1
            judge = desk.judge(server, batch="true")
            try:
                labels = judge.classify("pr", findings, (0, 1), protocol="reviewbench")
            except LaterError:
                continue
        assert len(server.requests) == 4
    assert takes == 3
    assert [record.label.tp_fp for record in labels] == ["tp", "fp"]


class LosingServer(AnthropicServer):
    """Takes the first batch and then does something else than answer: ``then`` is called, or status 500 is sent."""

    def __init__(self, *arguments: Any, then: Callable[[], None] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.then = then
        self.lost = False

    def _create_batch(self, request: Any) -> tuple[int, Any]:
        answer = super()._create_batch(request)
        if self.lost:
            return answer
        self.lost = True
        if self.then is not None:
            self.then()
        return 500, {"type": "error", "error": {"type": "api_error", "message": "lost"}}


def judged_in_the_end(desk: Desk, server: AnthropicServer) -> Any:
    for _ in range(6):
        try:
            return take(desk, server)
        except LaterError:
            continue
    pytest.fail("the batch never ended")


def test_an_acceptance_that_did_not_arrive_is_found(desk: Desk) -> None:
    """The service took the batch, and its answer was lost: the batch is found again, and no other is made."""
    with LosingServer(good, batch_looks=1) as server:
        with pytest.raises(UnavailableError):
            take(desk, server)
        assert {row.batch_id for row in desk.calls()} == {"submitting"}
        found = judged_in_the_end(desk, server)
        assert len(server.requests) == 3
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    assert [(row.outcome, row.batch_id, row.attempt) for row in desk.calls()] == [("answered", "msgbatch_1", 1)] * 3


def test_a_batch_that_was_never_accepted_is_made_again(desk: Desk) -> None:
    """Another batch of the same size is somebody else's; it is not taken, and the rows say what happened."""
    with AnthropicServer([Fault(500)] * 3, batch_looks=0) as server, pytest.raises(LaterError):
        take(desk, server)
    with desk.store.write() as connection:
        connection.execute(update(calls).values(outcome=None, batch_id="submitting"))
    with AnthropicServer(good, batch_looks=0) as server:
        other = [{"custom_id": f"mine-{number}", "params": {}} for number in range(3)]
        server._batches["msgbatch_0"] = _Batch("msgbatch_0", other, {}, 0)
        found = judged_in_the_end(desk, server)
        assert len(server._batches) == 2
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    assert [row.outcome for row in desk.calls()] == ["connection"] * 3 + ["answered"] * 3


CHILD = """
import sys
from pathlib import Path
from dataclasses import replace
from crb_core.evidence import FolderEvidence
from crb_core.store import open_store
from crb_worker.judge.base import JudgeWork
from crb_worker.judge.calls import CallLimits
from crb_worker.judge.claude import ClaudeJudge, read_setup
from crb_worker.judge.rate_limit import LocalRateLimiter, RateLimits
from tests.crb_worker.judge.test_claude_batches import CANDIDATES, GOLDEN

url, evidence, address, trial, sweep = sys.argv[1:]
setup = replace(read_setup({"model": "claude-sonnet-5", "batch": "true"}), base_url=address)
judge = ClaudeJudge(setup, CallLimits(seconds=20, tries=3))
limiter = LocalRateLimiter(RateLimits())
work = JudgeWork(
    trial_id=int(trial), judge_id=judge.fingerprint, sweep_id=sweep, store=open_store(url),
    evidence=FolderEvidence(Path(evidence)), limiter=lambda scope: limiter, pull_request=None, snapshot=None,
)
judge.for_step(work).match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")
"""


def test_a_worker_that_is_killed_while_its_batch_runs_pays_once(desk: Desk, tmp_path: Path) -> None:
    """kill -9 between the service's acceptance and the worker's note of it: the next worker collects that batch."""
    children: list[subprocess.Popen[bytes]] = []
    with LosingServer(good, batch_looks=1, then=lambda: children[0].kill()) as server:
        command = [sys.executable, "-c", CHILD, str(desk.store.engine.url), str(desk.evidence.root), server.base_url]
        children.append(subprocess.Popen([*command, str(desk.trial_id), desk.sweep_id], cwd=Path.cwd()))
        assert children[0].wait(timeout=120) == -signal.SIGKILL
        found = judged_in_the_end(desk, server)
        assert len(server.requests) == 3
        assert len(server._batches) == 1
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    assert [(row.outcome, row.attempt) for row in desk.calls()] == [("answered", 1)] * 3
