"""What is known of the judges of a store: versions of model and prompts, calibrations, and what is stale."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.calibration import calibration_key
from crb_core.store.calibrations import StoredCalibration, calibrations, summary
from crb_core.store.judge_versions import JudgeVersion, PromptVersion, judge_versions
from crb_core.store.tables import (
    ClassificationRow,
    CorrespondenceRow,
    JudgmentRow,
    SweepJudgeRow,
    SweepRow,
    TrialRow,
    core,
)

__all__ = [
    "calibration_records",
    "judge_document",
    "models_of",
    "of_description",
    "prompt_record",
    "stored_judge_record",
    "stored_judges",
]

FORMAT = "crb.judge/1"

_DIGEST = re.compile(r"[0-9a-f]{64}")

classifications = core(ClassificationRow)
correspondences = core(CorrespondenceRow)
judgments = core(JudgmentRow)
sweep_judge_rows = core(SweepJudgeRow)
sweeps = core(SweepRow)
trials = core(TrialRow)


def stored_judges(connection: Connection) -> list[dict[str, Any]]:
    """A record of every judge of the store, by name and fingerprint."""
    known = calibrations(connection)
    return [stored_judge_record(version, known) for version in judge_versions(connection)]


def judge_document(connection: Connection, judge_id: str) -> dict[str, Any] | None:
    """``crb.judge/1``: a judge's record, its whole description and calibrations, and what it judged in each sweep.

    None where the store has no judge of that fingerprint.
    """
    known = calibrations(connection)
    for version in judge_versions(connection):
        if version.judge_id == judge_id:
            key = calibration_key(version.description)
            return {
                "format": FORMAT,
                **stored_judge_record(version, known),
                "description": dict(version.description),
                "measured": [_whole(each) for each in known if each.judge_key == key],
                "sweeps": _sweeps(connection, judge_id),
            }
    return None


def stored_judge_record(version: JudgeVersion, known: Sequence[StoredCalibration]) -> dict[str, Any]:
    """One judge: how much it has judged, with which models and prompts, which of it is stale, and its calibrations."""
    return {
        "name": version.name,
        "fingerprint": version.judge_id,
        "classifies": version.classifies,
        "fake_model": version.fake_model,
        "council": dict(version.council) or None,
        "models": models_of(version.description),
        "prompts": [prompt_record(prompt) for prompt in version.prompts],
        "judgments": version.judgments,
        "matches": version.matches,
        "labels": version.labels,
        "stale": {"matching": version.stale_matching, "classifying": version.stale_classifying},
        **of_description(version.description, known),
    }


def models_of(description: Mapping[str, Any]) -> dict[str, str]:
    """Model ids by role; of the offline judge the first digits of its model's digest."""
    description = description.get("requests", description)
    found = {
        role: str(description[role]["model"])
        for role in ("matcher", "classifier")
        if isinstance(description.get(role), Mapping) and "model" in description[role]
    }
    model = description.get("model")
    if isinstance(model, str):
        found["matcher"] = model[:12] if _DIGEST.fullmatch(model) else model
    return found


def prompt_record(prompt: PromptVersion) -> dict[str, Any]:
    """A prompt that a judge used, beside the present one; ``present_version`` is None where there is none."""
    return {
        "name": prompt.name,
        "version": prompt.version,
        "sha256": prompt.sha256,
        "present_version": prompt.now,
        "stale": prompt.is_stale,
    }


def of_description(description: Mapping[str, Any], known: Sequence[StoredCalibration]) -> dict[str, Any]:
    """The calibration key of a judge's description, and the summaries of its calibrations, the newest first."""
    key = calibration_key(description)
    return {"key": key, "calibrations": [summary(each) for each in known if each.judge_key == key]}


def calibration_records(known: Sequence[StoredCalibration]) -> list[dict[str, Any]]:
    """Every calibration of the store, also of judges with options of their own."""
    return [{"judge": each.judge_name, "key": each.judge_key, **summary(each)} for each in known]


def _whole(found: StoredCalibration) -> dict[str, Any]:
    return {
        "reference": found.reference,
        "reference_sha256": found.reference_sha256,
        "held_out": found.held_out,
        "measured_at": found.measured_at,
        "document": dict(found.document),
    }


def _sweeps(connection: Connection, judge_id: str) -> list[dict[str, Any]]:
    """The sweeps that a judge judges, the newest first, with how many judgments, matches and labels it made."""

    def counted(table: Any, column: Any) -> Any:
        query = select(trials.c.sweep_id, func.count(column).label("count")).select_from(judgments)
        query = query.join(trials, trials.c.id == judgments.c.trial_id)
        if table is not judgments:
            query = query.join(table, table.c.judgment_id == judgments.c.id)
        return query.where(judgments.c.judge_id == judge_id).group_by(trials.c.sweep_id)

    amounts = {
        name: {row.sweep_id: row.count for row in connection.execute(counted(table, column))}
        for name, table, column in (
            ("judgments", judgments, judgments.c.id),
            ("scored", judgments, judgments.c.scored_at),
            ("matches", correspondences, correspondences.c.candidate),
            ("labels", classifications, classifications.c.candidate),
        )
    }
    mine = select(sweep_judge_rows.c.sweep_id).where(sweep_judge_rows.c.judge_id == judge_id)
    rows = connection.execute(
        select(sweeps.c.id, sweeps.c.name)
        .where(sweeps.c.id.in_(mine) | sweeps.c.id.in_(list(amounts["judgments"])))
        .order_by(sweeps.c.created_at.desc(), sweeps.c.id)
    )
    return [
        {"sweep": row.name, "sweep_id": row.id, **{name: amounts[name].get(row.id, 0) for name in amounts}}
        for row in rows
    ]
