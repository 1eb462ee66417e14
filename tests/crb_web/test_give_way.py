"""Background work waits for answers, but not for ever."""

from __future__ import annotations

import threading

from crb_web.give_way import Priority


def test_background_work_waits_until_no_answer_is_made():
    """It goes on when the last of the answers is there."""
    priority, passed = Priority(longest_wait=60), threading.Event()

    def work():
        priority.give_way()
        passed.set()

    with priority.answering(), priority.answering():
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert not passed.wait(0.05)
    assert passed.wait(30)
    thread.join()


def test_background_work_ends_under_any_load():
    """It waits no longer than it was told."""
    priority = Priority(longest_wait=0.01)
    with priority.answering():
        priority.give_way()


def test_an_answer_that_fails_is_over():
    """Nobody waits for it."""
    priority = Priority(longest_wait=60)
    try:
        with priority.answering():
            raise LookupError
    except LookupError:
        priority.give_way()
