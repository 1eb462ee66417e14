"""The stored judgments of one trial by several judges: what a council votes with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from crb_core.council import Member
from crb_core.errors import InputError
from crb_core.store.judgments import load_judged
from crb_core.store.tables import JudgeRow, JudgmentRow, StepRow, StepState, core

__all__ = ["MemberJudge", "Responses", "member_judges", "responses"]

judges = core(JudgeRow)
judgments = core(JudgmentRow)
steps = core(StepRow)

_OPEN = (StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)


@dataclass(frozen=True, kw_only=True)
class MemberJudge:
    """A stored judge that can be a member; no two of a council have one ``name``.

    ``fake_model``: the scripted model answers for it, alone or in a council.
    """

    judge_id: str
    name: str
    classifies: bool
    fake_model: bool


@dataclass(frozen=True, kw_only=True)
class Responses:
    """``members`` have judged; ``waiting`` names judges that still work on the trial. Any other did not respond."""

    members: tuple[Member, ...]
    waiting: tuple[str, ...]


def member_judges(connection: Connection, judge_ids: Sequence[str]) -> tuple[MemberJudge, ...]:
    """The judges of these ids, in their order; InputError for one that the store has not."""
    rows = {row.id: row for row in connection.execute(select(judges).where(judges.c.id.in_(judge_ids)))}
    for judge_id in judge_ids:
        if judge_id not in rows:
            raise InputError(
                f"the store has no judge {judge_id[:80]!r}",
                remedy="A council takes judges that have judged the sweep: crb judge run SWEEP "
                "--judge council:judges=NAME+NAME",
            )
    names = Counter(row.name for row in rows.values())
    return tuple(
        MemberJudge(
            judge_id=judge_id,
            # Votes are counted by name, and one judge can be there with two sets of options.
            name=rows[judge_id].name if names[rows[judge_id].name] == 1 else f"{rows[judge_id].name} {judge_id}",
            classifies=bool(rows[judge_id].classifies),
            fake_model=bool(rows[judge_id].document.get("description", {}).get("fake_model", False)),
        )
        for judge_id in judge_ids
    )


def responses(connection: Connection, trial_id: int, members: Sequence[MemberJudge]) -> Responses:
    """Who has judged a trial, and what they said."""
    ids = [member.judge_id for member in members]
    done = {
        row.judge_id: row.document or {}
        for row in connection.execute(
            select(judgments.c.judge_id, judgments.c.document).where(
                judgments.c.trial_id == trial_id, judgments.c.judge_id.in_(ids), judgments.c.scored_at.is_not(None)
            )
        )
    }
    open_ = set(
        connection.execute(
            select(steps.c.judge_id).where(
                steps.c.trial_id == trial_id, steps.c.judge_id.in_(ids), steps.c.state.in_(_OPEN)
            )
        ).scalars()
    )
    found = []
    for member in members:
        if member.judge_id in open_ or member.judge_id not in done or done[member.judge_id].get("unscorable"):
            continue
        judged = load_judged(connection, trial_id, member.judge_id)
        found.append(
            Member(
                judge=member.name,
                correspondences=judged.correspondences,
                classifications=judged.classifications,
                open_golden=frozenset(done[member.judge_id].get("golden_unjudged", ())),
                open_candidates=frozenset(done[member.judge_id].get("match_unrecorded", ())),
            )
        )
    return Responses(members=tuple(found), waiting=tuple(member.name for member in members if member.judge_id in open_))
