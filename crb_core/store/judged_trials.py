"""What a judge said of trials, read in bulk without a text: counts of candidates, matches and labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, String, cast, func, select, type_coerce

from crb_core.store.tables import (
    CandidateRow,
    ClassificationRow,
    CorrespondenceRow,
    JudgmentRow,
    TrialRow,
    core,
)
from crb_core.strata import LABEL_FILTERS

__all__ = ["LABEL", "JudgedTrial", "judged_trials", "scored_judgments"]

candidates = core(CandidateRow)
classifications = core(ClassificationRow)
correspondences = core(CorrespondenceRow)
judgments = core(JudgmentRow)
trials = core(TrialRow)

#: The fields of a label that anything is counted by.
LABEL = ("tp_fp", *LABEL_FILTERS)


@dataclass(slots=True)
class JudgedTrial:
    """A scored trial: how many candidates it has, and by candidate the golden positions and the label."""

    candidates: int
    matches: list[tuple[int, list[int]]] = field(default_factory=list)
    labels: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)


def scored_judgments(connection: Connection, in_scope: Any, judge_id: str) -> dict[int, int]:
    """By trial the id of the judgment that scored it."""
    return {
        row.trial_id: row.id
        for row in connection.execute(
            select(judgments.c.id, judgments.c.trial_id)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(in_scope, judgments.c.judge_id == judge_id, judgments.c.scored_at.is_not(None))
        )
    }


def judged_trials(
    connection: Connection, in_scope: Any, judge_id: str, scored: Mapping[int, int]
) -> dict[int, JudgedTrial]:
    """By trial what the judge said; ``scored`` are the judgments of the trials ``in_scope``."""
    sizes: dict[int, int] = dict(
        connection.execute(
            select(candidates.c.trial_id, func.count())
            .join(trials, trials.c.id == candidates.c.trial_id)
            .where(in_scope)
            .group_by(candidates.c.trial_id)
        ).all()
    )
    by_trial = {trial: JudgedTrial(sizes.get(trial, 0)) for trial in scored}
    by_judgment = {judgment: by_trial[trial] for trial, judgment in scored.items()}

    def of_judge(table: Any, *columns: Any) -> Iterable[Any]:
        return connection.execute(
            select(table.c.judgment_id, *columns)
            .join(judgments, judgments.c.id == table.c.judgment_id)
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(in_scope, judgments.c.judge_id == judge_id)
            .order_by(table.c.judgment_id, *columns[:2] if table is correspondences else columns[:1])
        ).all()

    for judgment, candidate, golden in of_judge(correspondences, correspondences.c.candidate, correspondences.c.golden):
        if (judged := by_judgment.get(judgment)) is None:
            continue
        if judged.matches and judged.matches[-1][0] == candidate:
            judged.matches[-1][1].append(golden)
        else:
            judged.matches.append((candidate, [golden]))
    # Labels repeat: one small record stands for all equal ones, and no justification leaves the store.
    known: dict[str, dict[str, Any]] = {}
    for judgment, candidate, text in of_judge(classifications, classifications.c.candidate, _label_text(connection)):
        if (judged := by_judgment.get(judgment)) is None:
            continue
        label = known.get(text)
        if label is None:
            label = known[text] = dict(zip(LABEL, json.loads(text), strict=True))
        judged.labels.append((candidate, label))
    return by_trial


def _label_text(connection: Connection) -> Any:
    """The axes of a stored label as the text of a JSON array, made by the database.

    Loading whole labels takes twice the time.
    """
    document = classifications.c.document
    if connection.dialect.name == "sqlite":
        return type_coerce(func.json_extract(document, *(f"$.{name}" for name in LABEL)), String)
    return cast(func.json_build_array(*(document[name] for name in LABEL)), String)
