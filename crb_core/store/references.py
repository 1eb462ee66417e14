"""What rows name outside the store: evidence by digest, images, snapshots of pull requests.

Every text and JSON column of every table is read, so that a column which is new does not lose its evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import JSON, Connection, MetaData, String, Table, Text, cast, select

from crb_core.errors import StoreError
from crb_core.evidence import EvidenceStore
from crb_core.formats.judge_request import parts_of
from crb_core.pull_request import PullRequest
from crb_core.store.tables import (
    AgentBuildRow,
    JudgeCallRow,
    PullRequestRow,
    StepRow,
    StepState,
    SweepBuildRow,
    SweepRow,
    TrialRow,
    core,
)

__all__ = [
    "ROWS_AT_ONCE",
    "digests_in",
    "is_json",
    "named_digests",
    "named_images",
    "pull_requests_at_work",
    "request_digests",
    "request_parts",
    "stored_rows",
    "stored_tables",
]

ROWS_AT_ONCE = 2000
_VERSION_TABLE = "alembic_version"
#: A digest that stands alone: no part of a longer hexadecimal text.
_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")

builds = core(AgentBuildRow)
calls = core(JudgeCallRow)
pull_requests = core(PullRequestRow)
steps = core(StepRow)
sweep_builds = core(SweepBuildRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def digests_in(value: str) -> list[str]:
    """Every SHA-256 in a text (lower-case hex)."""
    return _DIGEST.findall(value)


def request_parts(evidence: EvidenceStore, digest: str) -> frozenset[str] | None:
    """The blobs that a judge's stored request names: its long texts.

    None where it is missing, damaged or no JSON document: then nobody knows what it names.
    """
    try:
        data = evidence.get(digest)
        json.loads(data)
    except (StoreError, ValueError, RecursionError):
        return None
    return parts_of(data)


def request_digests(connection: Connection) -> list[str]:
    """The blobs of judges' requests, each of which can name further blobs."""
    return list(connection.execute(select(calls.c.request_digest).distinct()).scalars())


def is_json(column: Any) -> bool:
    """Whether a column is of type JSON."""
    return isinstance(column.type, JSON)


def stored_tables(connection: Connection) -> list[Table]:
    """The tables as the store has them, parents before children; of whatever schema revision it is."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name != _VERSION_TABLE)
    return list(found.sorted_tables)


def stored_rows(connection: Connection, table: Table) -> Iterator[list[Any]]:
    """The rows of a table in the order of its key. JSON comes as its text: null as JSON is not an absent value."""
    columns = [cast(column, Text) if is_json(column) else column for column in table.columns]
    ordered = select(*columns).order_by(*table.primary_key.columns)
    for row in connection.execute(ordered, execution_options={"yield_per": ROWS_AT_ONCE}):
        yield list(row)


def named_digests(connection: Connection) -> set[str]:
    """Every SHA-256 that stands anywhere in the store: evidence that must stay, among digests of other things."""
    found: set[str] = set()
    for table in stored_tables(connection):
        columns = [column for column in table.columns if is_json(column) or isinstance(column.type, String)]
        if not columns:
            continue
        wanted = select(*(cast(column, Text) if is_json(column) else column for column in columns))
        for row in connection.execute(wanted, execution_options={"yield_per": ROWS_AT_ONCE}):
            for value in row:
                if value is not None and len(value) >= 64:
                    found.update(_DIGEST.findall(value))
    return found


def named_images(connection: Connection) -> dict[str, str]:
    """By the id of an image the name of a sweep that has a build of it, or the id of the build where no sweep has."""
    named: dict[str, str] = {}
    for row in connection.execute(
        select(builds.c.id, builds.c.document, sweeps.c.name)
        .outerjoin(sweep_builds, sweep_builds.c.build_id == builds.c.id)
        .outerjoin(sweeps, sweeps.c.id == sweep_builds.c.sweep_id)
        .order_by(sweeps.c.created_at)
    ):
        image_id = row.document.get("image_id")
        if image_id:
            named[image_id] = f"sweep {row.name}" if row.name else f"build {row.id}"
    return named


def pull_requests_at_work(connection: Connection) -> list[PullRequest]:
    """Pull requests with a step that is ready, queued or running: their snapshots are in use, or will be."""
    open_states = [StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value]
    at_work = (
        select(trials.c.pull_request_id)
        .join(steps, steps.c.trial_id == trials.c.id)
        .where(steps.c.state.in_(open_states))
        .distinct()
    )
    rows = connection.execute(select(pull_requests.c.document).where(pull_requests.c.id.in_(at_work)))
    return [PullRequest.model_validate(document) for document in rows.scalars()]
