"""Times and usage of reviews, as a leaderboard needs them beside its counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, select

from crb_core.agent import AgentBuild
from crb_core.store.tables import AttemptRow, ImportRow, TrialRow, core
from crb_core.usage import UsageRecord

__all__ = ["Reviews", "read_attempts", "review_states"]

attempts = core(AttemptRow)
imports = core(ImportRow)
trials = core(TrialRow)


def review_states(connection: Connection, in_scope: Any) -> dict[int, tuple[str | None, bool]]:
    """By trial when its first attempt began and whether one succeeded; trials without an attempt are left out."""
    found: dict[int, tuple[str | None, bool]] = {}
    for trial, outcome, started in connection.execute(
        select(attempts.c.trial_id, attempts.c.outcome, attempts.c.started_at)
        .join(trials, trials.c.id == attempts.c.trial_id)
        .where(in_scope)
        .order_by(attempts.c.trial_id, attempts.c.number)
    ):
        first, has_succeeded = found.get(trial, (started, False))
        found[trial] = (first, has_succeeded or outcome == "succeeded")
    return found


def read_attempts(connection: Connection, in_scope: Any) -> tuple[dict[int, Any], dict[int, str]]:
    """By trial the row of the attempt that succeeded, and when the first one began."""
    succeeded: dict[int, Any] = {}
    started: dict[int, str] = {}
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
    return succeeded, started


class Reviews:
    """Times and usage of the attempts of each trial."""

    def __init__(self, connection: Connection, sweep_id: str, in_scope: Any, known: Iterable[AgentBuild]) -> None:
        self._models = {build.build_id: [role.model for role in build.model_roles] for build in known}
        self._imported = _imported_files(connection, sweep_id)
        self._succeeded, self._started = read_attempts(connection, in_scope)

    def of_trial(self, trial_id: int, build_id: str) -> dict[str, Any]:
        """The fields of a ``Trial`` that its attempts decide."""
        row = self._succeeded.get(trial_id)
        return {
            "succeeded": row is not None,
            "review_ms": None if row is None else row.review_ms,
            "duration_seconds": None if row is None else row.duration_seconds,
            "started_at": self._started.get(trial_id),
            "usage": None
            if row is None
            else UsageRecord.of_report(row.usage, models=self._models[build_id], evidence=self._evidence(row)),
        }

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
