"""One budget for several worker processes: never passed, and nobody waits for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Corpus
from crb_core.store.judge_calls import spending
from crb_worker.judge.loopback import AnthropicServer
from crb_worker.snapshot import Snapshot
from tests.crb_worker.judge.claude_support import open_desk
from tests.crb_worker.judge.test_claude_matcher import answer, reply, same

CHILD = """
import sys, threading
from dataclasses import replace
from pathlib import Path
from crb_core.evidence import FolderEvidence
from crb_core.store import open_store
from crb_worker.judge import calls
from crb_worker.judge.base import JudgeWork, LaterError
from crb_worker.judge.calls import BudgetError, CallLimits
from crb_worker.judge.claude import ClaudeJudge, read_setup
from crb_worker.judge.rate_limit import LocalRateLimiter, RateLimits
from tests.crb_worker.judge.claude_support import finding, golden

url, evidence, address, trial, sweep, name = sys.argv[1:]
setup = replace(read_setup({"model": "claude-sonnet-5"}), base_url=address)
limiter = LocalRateLimiter(RateLimits())
ends = []

def work(number):
    judge = ClaudeJudge(setup, CallLimits(seconds=30, tries=3))
    lent = JudgeWork(
        trial_id=int(trial), judge_id=judge.fingerprint, sweep_id=sweep, store=open_store(url),
        evidence=FolderEvidence(Path(evidence)), limiter=lambda scope: limiter, pull_request=None, snapshot=None,
    )
    one = ([finding(f"{name} {number}")], [golden(f"{name} {number}")])
    while True:
        try:
            judge.for_step(lent).match("pr", *one, protocol="reviewbench")
            ends.append("done")
        except BudgetError:
            ends.append("budget")
        except LaterError:
            continue
        return

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(" ".join(sorted(ends)))
"""


@pytest.mark.thorough
def test_processes_stay_inside_one_budget(
    tmp_path: Path, showcase_corpus: Corpus, ledger_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workers of four slots want twelve calls of 16 cents; a dollar is enough for five or six of them.

    Every call ends with an answer or with the sentence that the limit would be passed; what they cost together is under
    the limit, and no more of it is left than the next call might have cost.
    """
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    usage = {"input_tokens": 4000, "output_tokens": 15_000}

    def script(request: Any) -> Any:
        return reply(answer(request, same), usage=usage, delay=0.2)

    with open_desk(tmp_path, showcase_corpus, ledger_snapshot, max_cost_usd=1.0) as desk:
        with AnthropicServer(script) as server:
            where = [str(desk.store.engine.url), str(desk.evidence.root), server.base_url]
            command = [sys.executable, "-c", CHILD, *where, str(desk.trial_id), desk.sweep_id]
            children = [
                subprocess.Popen([*command, name], cwd=Path.cwd(), stdout=subprocess.PIPE, text=True)
                for name in ("one", "two", "three")
            ]
            said = [child.communicate(timeout=240)[0].split() for child in children]
            made = len(server.requests)
        with desk.store.read() as connection:
            spent = spending(connection, desk.sweep_id)
        rows = desk.calls()
    ends = [end for each in said for end in each]
    assert len(ends) == 12
    assert ends.count("done") == made == len(rows)
    assert {row.outcome for row in rows} == {"answered"}
    assert spent.known_usd == pytest.approx(made * (4000 * 2 + 15_000 * 10) / 1e6)
    assert 0.8 < spent.known_usd <= 1.0, json.dumps(said)
    assert spent.reserved_usd == 0
