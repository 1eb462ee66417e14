"""What the page of a sweep shows, in parts that can be replaced one by one while it runs.

A part is a rendered, escaped fragment. The page holds the same fragments, so that it is whole without scripts.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crb_core.store.operations import Operation, list_operations
from crb_core.store.sweep_limits import SweepLimits, read_limits
from crb_core.time_words import time_text
from crb_scheduler.beats import BeatWatch
from crb_scheduler.broker_watch import BrokerWatch
from crb_scheduler.progress import SweepProgress, sweep_progress
from crb_scheduler.progress_parts import STATE_GLYPHS, HeatMapRow, TrialState, WorkerState
from crb_web.live import NOTICE
from crb_web.pages import render_part
from crb_web.sources import Sources
from crb_web.turns import Turns

__all__ = ["SweepReading", "SweepViews", "change_words"]

#: Up to so many trials every cell says which pull request it is; more are drawn as runs of equal cells.
MAX_NAMED_CELLS = 2000
#: Operations, kinds of failures and workers on the page; JSON has all.
OPERATIONS_SHOWN = 30
FAILURES_SHOWN = 50
WORKERS_SHOWN = 200

_TEMPLATE = "sweep_parts.html"


class SweepReading:
    """One reading of a sweep: its progress, its limits, and what people did to it."""

    def __init__(self, progress: SweepProgress, limits: SweepLimits, operations: list[Operation]) -> None:
        self.progress = progress
        self.limits = limits
        self.operations = operations

    def parts(self) -> dict[str, str]:
        """Fragments by the name of the element that shows them."""
        progress = self.progress
        states = [state for state in TrialState if progress.by_state.get(state.value)]
        legend = [(state, STATE_GLYPHS[state], progress.by_state[state]) for state in states]
        parts = {
            "summary": _part("summary", progress=progress, limits=self.limits, pace=_pace(progress)),
            "counts": _part("counts", progress=progress, states=states),
            "legend": _part("legend", states=legend),
            "running": _part("running", running=progress.running, words=time_text),
            "failures": _part("failures", progress=progress, groups=progress.failure_groups[:FAILURES_SHOWN]),
            "workers": _part("workers", workers=[_worker(each) for each in progress.workers[:WORKERS_SHOWN]],
                             all=len(progress.workers), is_over=progress.finished),
            "operations": _part("operations", operations=self.operations, changes=change_words),
        }  # fmt: skip
        names = progress.heat_map.pull_requests if progress.trials <= MAX_NAMED_CELLS else None
        for number, row in enumerate(progress.heat_map.rows):
            parts[f"row-{number}"] = _part("cells", **_cells(row, names))
        return parts


class SweepViews:
    """Reads sweeps; remembers the workers' beats between readings, of whichever page.

    ``still_at`` is the moment as of which a store is read that does not change any more: the same whenever it is read.
    ``broker`` is asked beside the store, where there is one: without it nothing of a sweep goes on.
    """

    def __init__(
        self,
        sources: Sources,
        lease_seconds: float,
        *,
        still_at: datetime | None = None,
        broker: BrokerWatch | None = None,
    ) -> None:
        self._sources = sources
        self._turns = Turns()
        self._broker = broker
        self._still_at = still_at
        self._beats = BeatWatch(lease_seconds) if still_at is None else BeatWatch(math.inf, clock=lambda: 0.0)

    def read(self, sweep_id: str) -> SweepReading:
        """A sweep now. StoreError where the store does not answer."""
        with self._turns.taken(), self._sources.store().read() as connection:
            return SweepReading(
                sweep_progress(connection, sweep_id, beats=self._beats, now=self._still_at),
                read_limits(connection, sweep_id),
                list_operations(connection, sweep_id=sweep_id, limit=OPERATIONS_SHOWN),
            )

    def live(self, sweep_id: str) -> tuple[dict[str, str], bool]:
        """The parts of a sweep, and whether nothing of it waits or runs any more."""
        reading = self.read(sweep_id)
        return reading.parts() | {NOTICE: self.notice(reading)}, reading.progress.finished

    def notice(self, reading: SweepReading) -> str:
        """A sentence where the broker keeps a sweep from going on; else empty."""
        return "" if self._broker is None or reading.progress.finished else self._broker.problem or ""


def change_words(operation: Operation) -> str:
    """What an operation changed, by field: ``priority 0 -> 5``."""
    if operation.action not in {"set limits", "set slots"}:
        return ""
    return ", ".join(
        f"{name} {_value(operation.before.get(name))} -> {_value(value)}"
        for name, value in operation.after.items()
        if operation.before.get(name) != value
    )


def _value(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _part(macro: str, **values: Any) -> str:
    return render_part(_TEMPLATE, macro, **values)


def _pace(progress: SweepProgress) -> dict[str, Any]:
    estimate = progress.estimate
    return {
        "rate": None if progress.finished else progress.rate,
        "left": None if estimate.seconds is None else time_text(estimate.seconds),
        "finish": None if progress.finish_at is None else progress.finish_at[:16].replace("T", " "),
        "how": None if progress.finished else estimate.how,
        "share": 100 * progress.ended // progress.trials if progress.trials else 0,
    }


def _cells(row: HeatMapRow, names: tuple[str, ...] | None) -> dict[str, Any]:
    """A row's cells as runs of (class, text, tooltip), and its counts in words."""
    from crb_scheduler.progress_parts import CELL_CODES, ENDED

    states = {code: state for state, code in CELL_CODES.items()}
    runs: list[tuple[str, str, str | None]] = []
    if names is None:
        for code, group in itertools.groupby(row.cells):
            length = len(list(group))
            state = states.get(code)
            runs.append((_class(state), (STATE_GLYPHS[state] if state else " ") * length, None))
    else:
        for code, name in zip(row.cells, names, strict=True):
            state = states.get(code)
            runs.append((_class(state), STATE_GLYPHS[state] if state else " ", f"{name}: {state or 'no trial'}"))
    counts = Counter(states[code] for code in row.cells if code in states)
    return {
        "runs": runs,
        "ended": sum(counts[state] for state in ENDED),
        "trials": counts.total(),
        "counts": [(state, counts[state]) for state in TrialState if counts[state]],
    }


def _class(state: TrialState | None) -> str:
    return "none" if state is None else state.value.replace(" ", "-")


def _worker(worker: WorkerState) -> dict[str, Any]:
    """A worker in words: whether it lives, what it holds of its slots, its load."""
    alive = "" if worker.alive is None else "beats" if worker.alive else "silent"
    if worker.alive is False:
        alive = f"not heard of for {time_text(worker.silent_seconds)}"
    held = []
    for name, queues in (("review", ["review"]), ("judge", sorted(set(worker.slots) - {"review"}))):
        if any(queue in worker.slots for queue in queues):
            slots = sum(worker.slots.get(queue, 0) for queue in queues)
            wanted = sum((worker.wanted_slots or worker.slots).get(queue, 0) for queue in queues)
            running = sum(worker.running.get(queue, 0) for queue in queues)
            held.append(f"{name} {running} of {slots}" + (f" (to be {wanted})" if wanted != slots else ""))
    status: Mapping[str, Any] = worker.status or {}
    load = []
    for name, key, unit, scale in (
        ("cpu", "cpu_percent", "%", 1.0),
        ("memory", "memory_percent", "%", 1.0),
        ("disk", "disk_free_bytes", " GB free", 1e9),
    ):
        value = status.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            load.append(f"{name} {value / scale:.0f}{unit}")
    return {
        "name": worker.name,
        "host": worker.host,
        "alive": alive or "not known yet",
        "is_silent": worker.alive is False,
        "held": "; ".join(held) or "no slots",
        "load": ", ".join(load) or "nothing said yet",
        "rests": status.get("takes_no_reviews"),
    }
