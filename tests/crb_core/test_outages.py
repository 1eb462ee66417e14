"""An outage is told once, once a minute while it lasts, and at its end, whoever and however many meet it."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from crb_core.outages import Outage


def test_an_outage_of_ten_minutes_is_twelve_lines() -> None:
    """One at its beginning, one for each full minute, one at its end; the next outage is told anew."""
    now = [100.0]
    outage = Outage("store", clock=lambda: now[0])
    with capture_logs() as lines:
        outage.answered()
        for second in range(601):
            now[0] = 100.0 + second
            outage.failed("refused")
            assert outage.is_on
        now[0] = 700.5
        outage.answered()
        outage.answered()
        assert not outage.is_on
        outage.failed("refused again")
    assert [(line["event"], line["seconds"]) for line in lines] == [
        *(("store_away", 60 * minute) for minute in range(11)),
        ("store_back", 600),
        ("store_away", 0),
    ]
    assert {line["log_level"] for line in lines} == {"warning"}
    assert lines[0]["error"] == "refused"


def test_many_threads_tell_once() -> None:
    """Of thirty threads that fail and are answered at the same time one tells."""
    outage = Outage("broker")
    together = threading.Barrier(30)
    lines: list[str] = []

    def meet() -> None:
        together.wait()
        outage.failed("refused")
        together.wait()
        outage.answered()

    with capture_logs() as captured:
        threads = [threading.Thread(target=meet) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = [line["event"] for line in captured]
    assert lines == ["broker_away", "broker_back"]


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 5.0), (6, 5.0), (10**6, 5.0)]
)
def test_waits_double_up_to_five_seconds(failures: int, seconds: float) -> None:
    """So that nothing spins while a service is away, and everything goes on soon after its return."""
    assert Outage.wait_seconds(failures) == seconds
