"""What an agent left is stored without its secrets, wherever it wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from crb_core.agent import Outcome
from crb_core.finding import CandidateFinding
from crb_core.scrub import Scrubber
from crb_worker.sandbox.contract import AttemptResult
from crb_worker.sandbox.scrubbing import without_secrets

SECRET = "key-7f3a9c51d2e84b60"


def ended(**fields: Any) -> AttemptResult:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    return AttemptResult(outcome=Outcome.SUCCEEDED, image_id="i", concurrent=1, host="h", started_at=start, **fields)


def test_every_text_of_a_result_is_scrubbed() -> None:
    """Detail, findings, the names of the models that its usage counts, and the streams."""
    result = ended(
        detail=f"It printed {SECRET}.",
        findings=(
            CandidateFinding(file=f"{SECRET}.py", start_line=1, end_line=1, message=SECRET, producer=f"a {SECRET}"),
        ),
        usage={"total_tokens": 12, "models": ["m", f"n {SECRET}"]},
        findings_bytes=f'{{"findings": [], "usage": {{"models": ["{SECRET}"]}}}}'.encode(),
        stdout=SECRET.encode(),
        stderr=SECRET.encode(),
    )
    kept = without_secrets(result, Scrubber([SECRET]))
    assert SECRET not in repr(kept)
    assert kept.usage is not None
    assert (kept.usage["total_tokens"], kept.usage["models"][0]) == (12, "m")
    unchanged = ended(detail="It ended.", usage={"total_tokens": 1})
    assert without_secrets(unchanged, Scrubber([SECRET])).usage == {"total_tokens": 1}
