"""Calibrations of judges in the store, by what a judge is rather than by the corpus that it is opened for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from crb_core.calibration import calibration_key
from crb_core.clock import utc_now
from crb_core.store.tables import CalibrationRow, core

__all__ = ["StoredCalibration", "calibration_of", "calibrations", "save_calibration", "summary"]

rows = core(CalibrationRow)

#: What of a reference judge's figures is shown beside a result.
_SHOWN = ("n", "agreement", "kappa", "kappa_low", "kappa_high", "precision", "recall", "f1")


@dataclass(frozen=True, kw_only=True)
class StoredCalibration:
    """One calibration. ``document`` is ``crb.calibration/1``; ``measured_at`` is UTC."""

    judge_key: str
    judge_name: str
    reference: str
    reference_sha256: str
    held_out: bool
    document: Mapping[str, Any]
    measured_at: str


def save_calibration(
    connection: Connection,
    *,
    description: Mapping[str, Any],
    judge_name: str,
    reference: str,
    reference_sha256: str,
    held_out: bool,
    document: Mapping[str, Any],
) -> str:
    """Store a calibration and return its judge key; the same judge against the same reference replaces the last one."""
    key = calibration_key(description)
    connection.execute(
        delete(rows).where(
            rows.c.judge_key == key, rows.c.reference_sha256 == reference_sha256, rows.c.held_out == held_out
        )
    )
    connection.execute(
        insert(rows).values(
            judge_key=key,
            judge_name=judge_name,
            reference=reference,
            reference_sha256=reference_sha256,
            held_out=held_out,
            document=dict(document),
            measured_at=utc_now(),
        )
    )
    return key


def calibrations(connection: Connection, judge_key: str | None = None) -> list[StoredCalibration]:
    """Every calibration, of one judge where a key is given, the newest first."""
    query = select(rows).order_by(rows.c.id.desc())
    if judge_key is not None:
        query = query.where(rows.c.judge_key == judge_key)
    return [
        StoredCalibration(
            judge_key=row.judge_key,
            judge_name=row.judge_name,
            reference=row.reference,
            reference_sha256=row.reference_sha256,
            held_out=bool(row.held_out),
            document=row.document,
            measured_at=row.measured_at,
        )
        for row in connection.execute(query)
    ]


def calibration_of(connection: Connection, judge_document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The summary of the newest held-out calibration of a stored judge; None where it is uncalibrated.

    Figures on examples that the judge was tuned on are no calibration.
    """
    description = judge_document.get("description")
    if not isinstance(description, Mapping):
        return None
    for found in calibrations(connection, calibration_key(description)):
        if found.held_out:
            return summary(found)
    return None


def summary(found: StoredCalibration) -> dict[str, Any]:
    """What is shown beside a result: against what, when, and the figures of each reference judge and axis."""
    classifier = found.document.get("classifier")
    return {
        "reference": found.reference,
        "reference_sha256": found.reference_sha256,
        "held_out": found.held_out,
        "measured_at": found.measured_at,
        "judges": {
            name: {field: figures[field] for field in _SHOWN} for name, figures in found.document["judges"].items()
        },
        "classifier": None
        if classifier is None
        else {
            rater: {
                axis["axis"]: {field: axis[field] for field in ("n", "agreement", "kappa", "kappa_low", "kappa_high")}
                for axis in axes
            }
            for rater, axes in classifier.items()
        },
    }
