"""``crb`` with one weak point: the process kills itself with SIGKILL when it gets there. Run as a program:

    python -m tests.chaos.dying POINT HIT RECORD ARGUMENTS...

``ARGUMENTS`` are those of crb. The process dies at the ``HIT``-th time that it passes ``POINT``, after it has written
the monotonic time to the file ``RECORD``. Up to there it is the real program: nothing of it is replaced.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any


class Side(Enum):
    """On which side of a call the process dies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Point:
    """A call of the product: ``module``, and the dotted path of a function or method in it."""

    module: str
    path: str
    side: Side


PROCESS = "crb_worker.sandbox.process_run"
WATCH = "crb_worker.sandbox.watch"
PREPARATION = "crb_worker.sandbox.preparation"
TASKS = "crb_worker.tasks"

WORKER_POINTS = {
    "review: taken": Point(f"{TASKS}.review", "_run", Side.BEFORE),
    "review: prepared": Point(PROCESS, "ProcessRun._prepare", Side.AFTER),
    "review: agent runs": Point(PROCESS, "ProcessRun._wait", Side.BEFORE),
    "review: agent has ended": Point(PROCESS, "ProcessRun._wait", Side.AFTER),
    "review: before finish": Point(f"{TASKS}.review", "_finish", Side.BEFORE),
    "review: in the transaction": Point(f"{TASKS}.review", "add_judge_steps", Side.AFTER),
    "between review and match": Point(f"{TASKS}.review", "_finish", Side.AFTER),
    "match: taken": Point(f"{TASKS}.match", "load_judged", Side.BEFORE),
    "match: judged": Point(f"{TASKS}.match", "finish_match", Side.BEFORE),
    "match: in the transaction": Point(f"{TASKS}.match", "finish_match", Side.AFTER),
    "between match and the next": Point(f"{TASKS}.match", "judge_step", Side.AFTER),
    "classify: taken": Point(f"{TASKS}.classify", "load_judged", Side.BEFORE),
    "classify: in the transaction": Point(f"{TASKS}.classify", "finish_classify", Side.AFTER),
    "between classify and score": Point(f"{TASKS}.classify", "judge_step", Side.AFTER),
    "score: taken": Point(f"{TASKS}.score", "load_judged", Side.BEFORE),
    "score: in the transaction": Point(f"{TASKS}.score", "finish_score", Side.AFTER),
    "after score": Point(f"{TASKS}.score", "judge_step", Side.AFTER),
}
CONTAINER_POINTS = {
    "container: prepared": Point(PREPARATION, "Preparation.prepare", Side.AFTER),
    "container: created": Point(PREPARATION, "Preparation.create", Side.AFTER),
    "container: runs": Point(WATCH, "AgentWatch.until_end", Side.BEFORE),
    "container: has ended": Point(WATCH, "AgentWatch.until_end", Side.AFTER),
    "container: before finish": Point(f"{TASKS}.review", "_finish", Side.BEFORE),
}
SCHEDULER_POINTS = {
    "scheduler: before the commit": Point("crb_scheduler.dispatch", "mark_queued", Side.AFTER),
    "scheduler: before it publishes": Point("crb_scheduler.dispatch", "publish", Side.BEFORE),
    "scheduler: after one of its messages": Point("crb_scheduler.dispatch", "publish", Side.AFTER),
}
POINTS = WORKER_POINTS | CONTAINER_POINTS | SCHEDULER_POINTS


def arm(point: Point, hit: int, record: Path) -> None:
    """Wrap the call so that the process dies at its ``hit``-th passing."""
    owner: Any = importlib.import_module(point.module)
    *parents, name = point.path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    call: Callable[..., Any] = getattr(owner, name)
    passed = 0
    lock = threading.Lock()

    def die() -> None:
        nonlocal passed
        with lock:
            passed += 1
            if passed < hit:
                return
            record.write_text(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)

    @functools.wraps(call)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if point.side is Side.BEFORE:
            die()
        result = call(*arguments, **named)
        if point.side is Side.AFTER:
            die()
        return result

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    arm(POINTS[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3]))
    sys.argv[1:] = sys.argv[4:]
    from crb_cli.main import run

    run()
