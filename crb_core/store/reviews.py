"""Times and usage of reviews, as a leaderboard needs them beside its counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import Outcome
from crb_core.store.tables import AttemptRow, ImportRow, TrialRow, core
from crb_core.usage import UsageRecord

__all__ = ["Attempts", "Reviews", "read_attempts", "review_states", "was_in_vain"]

attempts = core(AttemptRow)
imports = core(ImportRow)
trials = core(TrialRow)


#: Outcomes of attempts in which no agent ran, so that nothing can have been used.
_NOTHING_RAN = frozenset({Outcome.IMAGE_UNAVAILABLE.value})


def review_states(connection: Connection, in_scope: Any) -> dict[int, tuple[str | None, bool, int]]:
    """By trial when its first attempt began, whether one succeeded, and how many may have used something in vain.

    Trials without an attempt are left out.
    """
    found: dict[int, tuple[str | None, bool, int]] = {}
    for trial, outcome, started in connection.execute(
        select(attempts.c.trial_id, attempts.c.outcome, attempts.c.started_at)
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(in_scope)
        .order_by(attempts.c.trial_id, attempts.c.number)
    ):
        first, has_succeeded, failed = found.get(trial, (started, False, 0))
        found[trial] = (first, has_succeeded or outcome == "succeeded", failed + was_in_vain(outcome))
    return found


def was_in_vain(outcome: str | None) -> bool:
    """Whether an attempt of this outcome ended without success and may have used something."""
    return outcome is not None and outcome != Outcome.SUCCEEDED.value and outcome not in _NOTHING_RAN


@dataclass(frozen=True)
class Attempts:
    """By trial the row of the attempt that succeeded, when the first one began, and the rows of those in vain."""

    succeeded: dict[int, Any]
    started: dict[int, str]
    failed: dict[int, list[Any]]


def read_attempts(connection: Connection, in_scope: Any) -> Attempts:
    """What the attempts of these trials left."""
    succeeded: dict[int, Any] = {}
    started: dict[int, str] = {}
    failed: dict[int, list[Any]] = {}
    for row in connection.execute(
        select(
            attempts.c.trial_id,
            attempts.c.outcome,
            attempts.c.review_ms,
            attempts.c.duration_seconds,
            attempts.c.usage,
            attempts.c.evidence,
            attempts.c.source,
            attempts.c.started_at,
        )
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(in_scope)
        .order_by(attempts.c.trial_id, attempts.c.number)
    ):
        started.setdefault(row.trial_id, row.started_at)
        if row.outcome == "succeeded":
            succeeded[row.trial_id] = row
        elif was_in_vain(row.outcome):
            failed.setdefault(row.trial_id, []).append(row)
    return Attempts(succeeded, started, failed)


class Reviews:
    """Times and usage of the attempts of each trial."""

    def __init__(self, connection: Connection, sweep_id: str, in_scope: Any) -> None:
        self._imported = _imported_files(connection, sweep_id)
        self._attempts = read_attempts(connection, in_scope)

    def of_trial(self, trial_id: int) -> dict[str, Any]:
        """The fields of a ``Trial`` that its attempts decide."""
        row = self._attempts.succeeded.get(trial_id)
        return {
            "succeeded": row is not None,
            "review_ms": None if row is None else row.review_ms,
            "duration_seconds": None if row is None else row.duration_seconds,
            "started_at": self._attempts.started.get(trial_id),
            "usage": None if row is None else self._usage(row),
            "failed": tuple(self._usage(each) for each in self._attempts.failed.get(trial_id, ())),
        }

    def _usage(self, row: Any) -> UsageRecord | None:
        return UsageRecord.of_report(row.usage, evidence=self._evidence(row))

    def _evidence(self, row: Any) -> str | None:
        """The SHA-256 of the findings file that reports the usage; of an imported review, of the file it came from."""
        if row.evidence:
            found = row.evidence.get("findings")
            return found if isinstance(found, str) else None
        files = (row.source or {}).get("files") or [{}]
        return self._imported.get(str(files[0].get("file")))


def _imported_files(connection: Connection, sweep_id: str) -> dict[str, str]:
    """By file name the digest of what was imported into a sweep, where the name belongs to one file only."""
    digests: dict[str, set[str]] = defaultdict(set)
    for document in connection.execute(
        select(imports.c.document).where(imports.c.kind == "sweep", imports.c.target == sweep_id)
    ).scalars():
        for name, digest in (document.get("files") or {}).items():
            digests[PurePath(name).name].add(digest)
    return {name: found.pop() for name, found in digests.items() if len(found) == 1}
