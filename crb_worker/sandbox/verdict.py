"""How an attempt's ending becomes its outcome. One order of precedence for every sandbox."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass

from crb_core.agent import Outcome
from crb_core.finding import CandidateFinding
from crb_worker.sandbox.contract import AttemptRequest
from crb_worker.sandbox.control import Stop
from crb_worker.sandbox.output import OutputError, reported_usage, require_few_values, validate_findings

__all__ = ["Ending", "Verdict", "judge"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What is known of an attempt that ended.

    ``stop`` is the farm's own reason, ``problem`` says what went wrong on the farm's side, ``start_problem`` why the
    image could not be started although the farm did its part. ``exit_code`` is None where no process ended.
    """

    stop: Stop | None = None
    problem: str | None = None
    start_problem: str | None = None
    out_of_memory: bool = False
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Outcome, the sentence that explains it, and what was accepted.

    ``usage`` is what the file reports, also of an attempt that did not succeed; None where it reports none.
    """

    outcome: Outcome
    detail: str
    findings: tuple[CandidateFinding, ...] = ()
    usage: dict[str, float] | None = None
    findings_bytes: bytes | None = None


def judge(
    request: AttemptRequest,
    ending: Ending,
    read: Callable[[int], bytes],
    repo_prefixes: tuple[str, ...],
    *,
    remark: str = "",
) -> Verdict:
    """The verdict. ``read(max_bytes)`` gives the findings file or raises OutputError; ``remark`` is added to what is
    said of the agent itself.

    Precedence: what the farm did itself, then what went wrong on the farm's side, then how the agent ended, then what
    it wrote.
    """
    data, unreadable = None, None
    limit = request.build.limits.findings_mib * 1024 * 1024
    if ending.exit_code is not None:
        try:
            written = read(limit)
            require_few_values(written)
            data = written
        except OutputError as error:
            unreadable = error

    def verdict(outcome: Outcome, detail: str) -> Verdict:
        # What was used was used, whatever became of the review.
        usage = None if data is None else reported_usage(data, request.pull_request)
        return Verdict(outcome=outcome, detail=detail, usage=usage, findings_bytes=data)

    if ending.stop is not None:
        return verdict(ending.stop.outcome, f"{ending.stop.detail}{remark}")
    if ending.problem is not None:
        return verdict(Outcome.ENGINE_ERROR, ending.problem)
    if ending.start_problem is not None:
        return verdict(Outcome.NONZERO_EXIT, ending.start_problem)
    if ending.out_of_memory and ending.exit_code != 0:
        return verdict(
            Outcome.OUT_OF_MEMORY,
            f"The agent needed more than its {request.build.limits.memory_mib} MiB of memory"
            f" and ended with exit code {ending.exit_code}.{remark}",
        )
    if ending.exit_code != 0:
        return verdict(Outcome.NONZERO_EXIT, f"{_exit_sentence(request, ending.exit_code)}{remark}")
    if unreadable is not None:
        return verdict(unreadable.outcome, _sentence(unreadable, remark))
    assert data is not None
    try:
        review = validate_findings(data, request.pull_request, request.in_diff, repo_prefixes=repo_prefixes)
    except OutputError as error:
        return verdict(error.outcome, _sentence(error, remark))
    count = len(review.findings)
    said = f"The agent reported {count} finding{'' if count == 1 else 's'}."
    return Verdict(
        outcome=Outcome.SUCCEEDED,
        detail=f"{said if count else 'The agent reviewed the pull request and found nothing.'}{remark}",
        findings=review.findings,
        usage=review.usage,
        findings_bytes=data,
    )


def _sentence(error: OutputError, remark: str) -> str:
    text = str(error)
    end = "." if remark and not text.endswith(".") else ""
    return text[:1].upper() + text[1:] + end + remark


def _exit_sentence(request: AttemptRequest, code: int | None) -> str:
    sentence = f"The agent ended with exit code {code}"
    if code is not None and code > 128:
        with contextlib.suppress(ValueError):
            sentence += f" (signal {signal.Signals(code - 128).name})"
        if code == 128 + signal.SIGXFSZ:
            sentence += f", because it wrote a file larger than {request.build.limits.disk_mib} MiB"
    return f"{sentence}; see its stderr."
