"""Message batches: half the price, no thread waits, and a restart while one runs loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.errors import InputError, UnavailableError
from crb_worker.judge.base import LaterError
from crb_worker.judge.loopback import AnthropicServer, Cut, Fault, ReadingModel
from tests.crb_worker.judge.claude_support import Desk, finding, golden
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
    assert [(row.outcome, row.reserved_usd) for row in desk.calls()] == [("server_error", None)] * 3


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
