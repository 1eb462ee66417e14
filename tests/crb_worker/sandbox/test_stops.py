"""A stop that comes at whatever moment ends the attempt: before, while and after its sandbox knows it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from crb_core.agent import Outcome
from crb_worker.sandbox.stops import Stops
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, Ground


def test_a_stop_just_before_the_sandbox_knows_the_attempt_ends_it(process_ground: Ground) -> None:
    """It was not stopped yet when it was asked, and it is not registered yet when the stop comes."""
    request = process_ground.request("sleep 600")
    stops = Stops(request.attempt_id)
    with ThreadPoolExecutor(1) as stoppers, stops.reaching(process_ground.sandbox):
        assert stops.outcome is None
        stopping = stoppers.submit(stops.stop, Outcome.CANCELLED)
        while stops.outcome is None:
            pass
        assert not process_ground.sandbox.stop(request.attempt_id, Outcome.LOST), "nobody knows it yet"
        result = process_ground.sandbox.run(request)
        stopping.result(60)
    assert result.outcome is Outcome.CANCELLED


def test_a_stop_that_comes_too_late_returns(process_ground: Ground) -> None:
    """What has ended is left as it ended, and so is what will never begin."""
    request = process_ground.request(EMPTY_REVIEW)
    stops = Stops(request.attempt_id)
    stops.stop(Outcome.LOST)
    assert stops.outcome is Outcome.LOST
    late = Stops(request.attempt_id)
    with late.reaching(process_ground.sandbox):
        assert process_ground.sandbox.run(request).outcome is Outcome.SUCCEEDED
        waiting = threading.Thread(target=late.stop, args=(Outcome.CANCELLED,))
        waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
