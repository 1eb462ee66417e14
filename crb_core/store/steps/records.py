"""What callers of the step machine hold in their hands."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from crb_core.store.tables import Stage

__all__ = ["AttemptLimits", "HeldStep", "Orders", "TakenStep"]


@dataclass(frozen=True, kw_only=True)
class AttemptLimits:
    """Attempts that may fail before a trial fails: by the agent's own fault, and by the farm's."""

    agent: int
    farm: int


@dataclass(frozen=True, kw_only=True)
class TakenStep:
    """A step that this worker holds. Only a review has an ``attempt_tag``."""

    id: int
    trial_id: int
    judge_id: str
    stage: Stage
    sweep_id: str
    build_id: str
    priority: int
    position: int
    fence: int
    #: The attempt of a review; of a judge step the one that it judges.
    attempt_number: int | None = None
    attempt_tag: str | None = None
    #: Milliseconds from the last publishing to the take; None where the two clocks make it negative.
    queue_ms: float | None = None
    #: This process's monotonic clock at the take.
    taken_at: float = field(default_factory=time.monotonic, compare=False)

    @property
    def log_fields(self) -> dict[str, str | int | None]:
        """What every log line about this step carries."""
        return {"sweep": self.sweep_id, "trial": self.trial_id, "attempt": self.attempt_number}


@dataclass(frozen=True, kw_only=True)
class HeldStep:
    """What a beat tells the watcher: whether the step is still this worker's, and whether it is to be cancelled."""

    id: int
    fence: int
    still_held: bool
    cancel_requested: bool


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What people want of a worker: (step id, fence) pairs to stop, and slots by queue name (None: as it started).

    ``is_registered`` is False where the worker was taken for dead and forgotten.
    """

    cancelled: frozenset[tuple[int, int]]
    wanted_slots: dict[str, int] | None
    is_registered: bool
