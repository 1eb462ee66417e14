"""Calls of the claude judge: stored, tried again, resumed, limited by budget; every fault has its behaviour."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Corpus
from crb_core.errors import InputError, SettingsError, UnavailableError
from crb_core.store.judge_calls import spending
from crb_worker.judge.base import LaterError, StoppedError
from crb_worker.judge.calls import BudgetError, CallLimits
from crb_worker.judge.loopback import AnthropicServer, Cut, Fault, Raw, ReadingModel, Reply, text
from crb_worker.judge.prices import TABLE
from crb_worker.judge.rate_limit import LocalRateLimiter, RateLimits
from crb_worker.judge.requests import unfolded
from crb_worker.snapshot import Snapshot
from tests.crb_worker.judge.claude_support import Desk, finding, golden, open_desk
from tests.crb_worker.judge.test_claude_matcher import answer, reply, same

ONE = ([finding("a")], [golden("a")])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off without waiting: how long it waits is drawn from this function."""
    monkeypatch.setattr("crb_worker.judge.calls.random.uniform", lambda low, high: 0.0)


def good(request: Any) -> Reply:
    return reply(answer(request, same))


def match(desk: Desk, script: Any, limits: CallLimits | None = None, **options: str) -> tuple[Any, int]:
    with AnthropicServer(script) as server:
        found = desk.judge(server, limits, **options).match("pr", *ONE, protocol="reviewbench")
        return found, len(server.requests)


FAULTS = {
    "429": (Fault(429, retry_after=0), "rate_limited", 429),
    "429 without a time": (Fault(429), "rate_limited", 429),
    "429 with a date": (Fault(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), "rate_limited", 429),
    "529": (Fault(529), "overloaded", 529),
    "500": (Fault(500), "server_error", 500),
    "503": (Fault(503), "server_error", 503),
    "408": (Fault(408), "server_error", 408),
    "cut before": (Cut(), "connection", None),
    "cut within": (Cut(in_the_middle=True), "connection", None),
    "no JSON": (Raw(b"<html>", "text/html"), "server_error", 200),
    "no message": (Raw(b'{"content": "x"}'), "server_error", 200),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_is_tried_again(desk: Desk, fault: str) -> None:
    """The answer after it counts; both attempts are rows, numbered, under one request hash."""
    scripted, outcome, status = FAULTS[fault]
    found, requests = match(desk, [scripted, good])
    assert found[0].golden == (0,)
    assert requests == 2
    first, second = desk.calls()
    assert (first.outcome, first.http_status, first.attempt) == (outcome, status, 1)
    assert (second.outcome, second.http_status, second.attempt) == ("answered", 200, 2)
    assert first.request_hash == second.request_hash
    assert first.detail


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lasting_fault_ends_the_step_for_now(desk: Desk, fault: str) -> None:
    """What the service asks to wait for defers the step; what is broken lets it be tried again. Never "no match"."""
    scripted, outcome, _ = FAULTS[fault]
    expected = LaterError if outcome in {"rate_limited", "overloaded"} else UnavailableError
    with pytest.raises(expected, match="gave no answer"):
        match(desk, [scripted] * 3)
    assert [row.outcome for row in desk.calls()] == [outcome] * 3


def test_a_timeout_is_a_fault_with_a_deadline(desk: Desk) -> None:
    """A call ends at its deadline, whether nothing comes or the answer only drips."""
    body = json.dumps({"content": []}).encode()
    for slow in (Reply([text("late")], delay=3.0), Raw(body + b" " * 400, drip=0.05)):
        with pytest.raises(UnavailableError):
            match(desk, [slow], CallLimits(seconds=0.5, tries=1))
    assert [row.outcome for row in desk.calls()] == ["timeout", "timeout"]


def test_a_long_retry_after_holds_no_thread(desk: Desk) -> None:
    """The step is deferred for as long as the service asks, and all workers pause."""
    with pytest.raises(LaterError) as later:
        match(desk, [Fault(429, retry_after=300)])
    assert later.value.seconds == 300
    assert 290 < desk.limiter.rest() <= 300
    with pytest.raises(LaterError, match="asked to wait"):
        match(desk, [good])


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, InputError), (404, InputError), (413, InputError), (401, SettingsError), (403, SettingsError)],
)
def test_a_request_that_is_refused_is_not_repeated(desk: Desk, status: int, error: type[Exception]) -> None:
    """The service's reason is passed on, without a second try."""
    with pytest.raises(error, match="scripted fault"):
        match(desk, [Fault(status)])
    assert [row.outcome for row in desk.calls()] == ["invalid"]


def test_a_stopped_step_ends_its_waiting(desk: Desk) -> None:
    """A cancelled judgment does not wait for its next try."""

    def stop_soon(request: Any) -> Fault:
        threading.Timer(0.2, desk.stopped.set).start()
        return Fault(429, retry_after=30)

    with pytest.raises(StoppedError):
        match(desk, [stop_soon, good])
    assert [row.outcome for row in desk.calls()] == ["rate_limited"]


def test_a_judgment_goes_on_where_it_stopped(desk: Desk) -> None:
    """Answers that are stored are not asked for again, by whatever worker."""
    candidates = [finding(f"c{number}", file=f"{number}.py") for number in range(3)]
    goldens = [golden(f"c{number}", file=f"{number}.py") for number in range(3)]
    with AnthropicServer([good, good, Fault(400)]) as server, pytest.raises(InputError):
        desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
    with AnthropicServer([good]) as server:
        found = desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
        assert len(server.requests) == 1
    assert [record.golden for record in found] == [(0,), (1,), (2,)]
    secrets = {row.secret for row in desk.calls()}
    assert len(secrets) == 1


def test_another_judge_or_trial_shares_no_answer(desk: Desk) -> None:
    """Judgments are independent: the same question of another judge is asked anew."""
    match(desk, [good])
    _, requests = match(desk, [good], effort_match="high")
    assert requests == 1
    one, other = desk.calls()
    assert one.secret != other.secret


def test_every_call_is_evidence(desk: Desk) -> None:
    """Request and answer are kept byte by byte, with what the answer says it used; the key is nowhere."""
    usage = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    with AnthropicServer([lambda request: reply(answer(request, same), usage=usage)]) as server:
        desk.judge(server).match("pr", *ONE, protocol="reviewbench")
        (sent,) = server.requests
    (row,) = desk.calls()
    stored = json.loads(desk.evidence.get(row.request_digest))
    body = unfolded(stored["body"], desk.evidence.get)
    assert body == sent.body
    assert stored["request_hash"] == row.request_hash
    assert json.loads(desk.evidence.get(row.answer_digest))["usage"] == usage
    assert (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens) == (7, 5, 3, 2)
    assert row.list_price_usd == pytest.approx((7 * 2 + 5 * 10 + 3 * 0.2 + 2 * 2.5) / 1e6)
    assert (row.price_table, row.charge_usd, row.answered_by) == (TABLE, None, "claude-sonnet-5")
    kept = b"".join(path.read_bytes() for path in desk.evidence.root.rglob("*") if path.is_file())
    assert b"test-key" not in kept


def test_an_answer_with_half_a_character_is_asked_for_again(desk: Desk) -> None:
    """It is refused when it comes, as it would be when it is read again from the evidence."""
    found, requests = match(desk, [Reply([text("half \ud83d of it")]), good])
    assert (found[0].golden, requests) == ((0,), 2)
    assert [row.outcome for row in desk.calls()] == ["server_error", "answered"]


CLOSING = """
from crb_worker.judge.client import Endpoint, open_client
kept = [open_client(Endpoint(base_url="http://127.0.0.1:9", key="k"), seconds=number) for number in (1, 2)]
del kept
print("done")
"""


def test_a_process_ends_quietly(tmp_path: Path) -> None:
    """Its clients are closed before modules are taken apart."""
    done = subprocess.run([sys.executable, "-c", CLOSING], capture_output=True, text=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": None, "output_tokens": -1}, {"input_tokens": True}])
def test_missing_usage_stays_missing(desk: Desk, usage: Any) -> None:
    """No count is made up, and without counts there is no price."""
    match(desk, [lambda request: reply(answer(request, same), usage=usage)])
    (row,) = desk.calls()
    assert (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.list_price_usd) == (None,) * 4
    assert row.reserved_usd > 0


def test_a_charge_is_what_the_service_reports(desk: Desk) -> None:
    """A gateway's own figure is kept as a charge, beside the list price."""
    usage = {"input_tokens": 1000, "output_tokens": 100, "cost": 0.5}
    match(desk, [lambda request: reply(answer(request, same), usage=usage)])
    (row,) = desk.calls()
    assert (row.charge_usd, row.list_price_usd) == (0.5, pytest.approx(0.003))


def test_the_budget_stops_before_it_is_passed(
    tmp_path: Path, showcase_corpus: Corpus, ledger_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose highest price would pass --max-cost is not made; what was spent stays under the limit."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    candidates = [finding(f"c{number}", file=f"{number}.py") for number in range(30)]
    goldens = [golden(f"c{number}", file=f"{number}.py") for number in range(30)]
    usage = {"input_tokens": 4000, "output_tokens": 15_000}
    with open_desk(tmp_path, showcase_corpus, ledger_snapshot, max_cost_usd=1.0) as desk:
        script = lambda request: reply(answer(request, same), usage=usage)  # noqa: E731
        with AnthropicServer(script) as server, pytest.raises(BudgetError, match=r"limit of \$1.00"):
            desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
        with desk.store.read() as connection:
            spent = spending(connection, desk.sweep_id)
        assert 0.7 < spent.known_usd <= 1.0
        assert spent.known_usd == pytest.approx(len(server.requests) * (4000 * 2 + 15_000 * 10) / 1e6)


def test_a_budget_needs_a_price(
    tmp_path: Path, showcase_corpus: Corpus, ledger_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model without a list price is refused under a limit, before it is called."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    with open_desk(tmp_path, showcase_corpus, ledger_snapshot, max_cost_usd=1.0) as desk:
        with AnthropicServer([good]) as server, pytest.raises(InputError, match="has no list price"):
            desk.judge(server, model="some-model").match("pr", *ONE, protocol="reviewbench")
        assert server.requests == []


def test_threads_stay_inside_one_budget(
    tmp_path: Path, showcase_corpus: Corpus, ledger_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reservations are made one after another, so calls at the same time cannot pass the limit together."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setattr("crb_worker.judge.calls._MAX_WAIT", 0.5)
    usage = {"input_tokens": 4000, "output_tokens": 15_000}
    script = lambda request: reply(answer(request, same), usage=usage, delay=0.2)  # noqa: E731
    with (
        open_desk(tmp_path, showcase_corpus, ledger_snapshot, max_cost_usd=0.6) as desk,
        AnthropicServer(script) as server,
    ):

        def work(number: int) -> None:
            one = ([finding(f"c{number}")], [golden(f"c{number}")])
            try:
                desk.judge(server).match("pr", *one, protocol="reviewbench")
            except (BudgetError, LaterError):
                return

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with desk.store.read() as connection:
            spent = spending(connection, desk.sweep_id)
    assert 0 < spent.known_usd + spent.reserved_usd <= 0.6


def test_a_key_is_needed_only_when_the_judge_works(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning needs no key; a worker without one says what to set."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with AnthropicServer([]) as server, pytest.raises(UnavailableError, match="Set ANTHROPIC_API_KEY"):
        desk.judge(server)


def test_the_loopback_model_is_local_and_named_so(desk: Desk) -> None:
    """The fake model's name is in the judge's name, and no other machine is asked for it."""
    with AnthropicServer(ReadingModel(), api_key="loopback") as server:
        judge = desk.judge(server, model="crb-loopback")
        assert judge.match("pr", *ONE, protocol="reviewbench")[0].golden == ()
    assert judge.name == "claude-fake-model"
    assert judge.describe()["fake_model"] is True
    far = replace(judge.setup, base_url="https://models.example")
    with pytest.raises(UnavailableError, match="on this machine only"):
        type(judge)(far).for_step(desk.work("j-1"))


def test_slow_stores_do_not_lose_a_paid_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer waits for the store."""
    from crb_core.errors import StoreError
    from crb_worker.judge import calls as module

    real, failures = module.close_call, [1, 1]

    def flaky(*arguments: Any, **values: Any) -> None:
        if failures:
            failures.pop()
            raise StoreError("away")
        real(*arguments, **values)

    monkeypatch.setattr(module, "close_call", flaky)
    started = time.monotonic()
    found, requests = match(desk, [good])
    assert (found[0].golden, requests) == ((0,), 1)
    assert time.monotonic() > started


def test_thirty_two_threads_share_the_services_limit(desk: Desk) -> None:
    """Every judgment comes to its end with the right matches, and together they never ask faster than the limit."""
    each, threads_, per_second = 2, 32, 60
    desk.limiter = LocalRateLimiter(RateLimits(requests_per_minute=60 * per_second))
    found: dict[int, list[tuple[int, ...]]] = {}
    # A store that is busy for long is another test's matter: the calls' rows are written one at a time.
    with AnthropicServer(good) as server:

        def work(number: int) -> None:
            names = [f"t{number}c{place}" for place in range(each)]
            candidates = [finding(name, file=f"{name}.py") for name in names]
            goldens = [golden(name, file=f"{name}.py") for name in names]
            links = desk.judge(server).match("pr", candidates, goldens, protocol="reviewbench")
            found[number] = [link.golden for link in links]

        begun = time.monotonic()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(threads_)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        arrivals = sorted(request.at - begun for request in server.requests)
    assert found == {number: [(0,), (1,)] for number in range(threads_)}
    assert len(arrivals) == each * threads_
    # The n-th place of the limit is not before n / rate, whatever delayed it.
    assert all(moment >= place / per_second - 0.05 for place, moment in enumerate(arrivals))
