"""Which judges a store holds, with the versions of their prompts, and which of them are stale (seed A 5.3).

A judge is stale for what was changed after it: a prompt with another digest than this installation's. Its judgments
stay what they are; ``crb judge rejudge`` adds those of the present judge beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.prompts import CLASSIFYING, MATCHING, PromptSet, bundled_prompts
from crb_core.store.judgments import judges, judgments
from crb_core.store.tables import ClassificationRow, CorrespondenceRow, TrialRow, core
from crb_core.store.texts import by_characters

__all__ = ["JudgeVersion", "JudgedAmount", "PromptVersion", "judge_versions", "stale_prompts", "sweep_judgments"]

classifications = core(ClassificationRow)
correspondences = core(CorrespondenceRow)
trials = core(TrialRow)


@dataclass(frozen=True, kw_only=True)
class PromptVersion:
    """A prompt that a judge used, beside the one of this installation. ``now`` is None where it has none."""

    name: str
    version: int
    sha256: str
    now: int | None
    is_stale: bool


@dataclass(frozen=True, kw_only=True)
class JudgeVersion:
    """A judge of the store. ``judgments``, ``matches`` and ``labels`` are what would be made anew.

    ``stale_matching`` and ``stale_classifying`` say which of the two a changed prompt concerns. ``council`` maps the
    fingerprints of the judges that vote in a council to their names; it is empty for other judges.
    """

    judge_id: str
    name: str
    classifies: bool
    fake_model: bool
    council: Mapping[str, str]
    description: Mapping[str, Any]
    prompts: tuple[PromptVersion, ...]
    judgments: int
    matches: int
    labels: int

    @property
    def stale_matching(self) -> bool:
        return any(prompt.is_stale and prompt.name in MATCHING for prompt in self.prompts)

    @property
    def stale_classifying(self) -> bool:
        return any(prompt.is_stale and prompt.name in CLASSIFYING for prompt in self.prompts)

    @property
    def is_stale(self) -> bool:
        return any(prompt.is_stale for prompt in self.prompts)


def stale_prompts(description: Mapping[str, Any], prompts: PromptSet | None = None) -> tuple[PromptVersion, ...]:
    """The prompts that a judge's description names; empty for a judge without prompts."""
    present = prompts or bundled_prompts()
    described = description.get("requests", description).get("prompts", {})
    versions = []
    for name, used in sorted(described.items()):
        now = present.by_name.get(name)
        versions.append(
            PromptVersion(
                name=name,
                version=used["version"],
                sha256=used["sha256"],
                now=now.version if now else None,
                is_stale=now is None or now.sha256 != used["sha256"],
            )
        )
    return tuple(versions)


def judge_versions(connection: Connection, prompts: PromptSet | None = None) -> list[JudgeVersion]:
    """Every judge of a store, by name and id, with how much it has judged."""

    def count(table: Any) -> dict[str, int]:
        rows = connection.execute(
            select(judgments.c.judge_id, func.count())
            .select_from(table.join(judgments, judgments.c.id == table.c.judgment_id))
            .group_by(judgments.c.judge_id)
        )
        return {row[0]: row[1] for row in rows}

    judged = {
        row[0]: row[1]
        for row in connection.execute(select(judgments.c.judge_id, func.count()).group_by(judgments.c.judge_id))
    }
    matched, labelled = count(correspondences), count(classifications)
    found = []
    rows = connection.execute(select(judges).order_by(by_characters(judges.c.name), judges.c.id)).all()
    names = {row.id: row.name for row in rows}
    scripted = {row.id for row in rows if row.document.get("description", {}).get("fake_model")}
    for row in rows:
        description = row.document.get("description", {})
        members = description["judges"] if description.get("judge") == "council" else []
        found.append(
            JudgeVersion(
                judge_id=row.id,
                name=row.name,
                classifies=row.classifies,
                fake_model=not scripted.isdisjoint({row.id, *members}),
                council={member: names.get(member, member) for member in members},
                description=description,
                prompts=stale_prompts(description, prompts),
                judgments=judged.get(row.id, 0),
                matches=matched.get(row.id, 0),
                labels=labelled.get(row.id, 0),
            )
        )
    return found


@dataclass(frozen=True, kw_only=True)
class JudgedAmount:
    """How much a judge has judged of a sweep."""

    judgments: int
    matches: int
    labels: int


def sweep_judgments(connection: Connection, sweep_id: str) -> dict[str, JudgedAmount]:
    """By judge id, how many judgments, matches and labels it made in a sweep."""

    def count(table: Any) -> dict[str, int]:
        rows = connection.execute(
            select(judgments.c.judge_id, func.count())
            .select_from(table.join(judgments, judgments.c.id == table.c.judgment_id))
            .join(trials, trials.c.id == judgments.c.trial_id)
            .where(trials.c.sweep_id == sweep_id)
            .group_by(judgments.c.judge_id)
        )
        return {row[0]: row[1] for row in rows}

    matched, labelled = count(correspondences), count(classifications)
    judged = connection.execute(
        select(judgments.c.judge_id, func.count())
        .join(trials, trials.c.id == judgments.c.trial_id)
        .where(trials.c.sweep_id == sweep_id)
        .group_by(judgments.c.judge_id)
    )
    return {
        row[0]: JudgedAmount(judgments=row[1], matches=matched.get(row[0], 0), labels=labelled.get(row[0], 0))
        for row in judged
    }
