"""What an exported site holds: of every sweep and judge the views of the leaderboard, and pairs of its first builds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from crb_core.comment_rows import NO_PROFILE
from crb_core.protocols.golden_comments import DEFAULT_PROFILE, PROFILES
from crb_core.store.audit import sweep_record, sweep_records
from crb_core.store.comment_boards import PROTOCOL as COMMENTS
from crb_core.store.results import StoredJudge
from crb_web.boards import Boards
from crb_web.filters import PRESETS
from crb_web.query import BoardQuery

__all__ = ["TOP_BUILDS", "SitePlan", "SweepPlan", "View", "planned", "query_of"]

#: Builds of a leaderboard, from its first row on, that are compared with each other; four make six pairs.
TOP_BUILDS = 4


@dataclass(frozen=True)
class View:
    """A leaderboard under one judge: what is counted, in words, and the whole state."""

    group: str
    title: str
    query: BoardQuery

    @property
    def state(self) -> str:
        """The query string, with sweep and judge."""
        return self.query.encoded()


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """One sweep: its record, judges, and by judge the views and the pairs of builds."""

    record: Mapping[str, Any]
    judges: tuple[StoredJudge, ...]
    views: Mapping[str, tuple[View, ...]]
    pairs: Mapping[str, tuple[tuple[str, str], ...]]
    rows: Mapping[str, int]

    @property
    def id(self) -> str:
        return str(self.record["id"])

    @property
    def is_comments(self) -> bool:
        return bool(self.record["protocol"] == COMMENTS)

    def judge(self, name: str | None) -> str | None:
        """The fingerprint of a judge by name or fingerprint, the first one's for None; None where there is none."""
        if name is None:
            return self.judges[0].judge_id if self.judges else None
        found = [each.judge_id for each in self.judges if name == each.judge_id]
        found += [each.judge_id for each in self.judges if name == each.name]
        return found[0] if found else None

    def view(self, query: BoardQuery, judge: str) -> View | None:
        """The view of a state, whatever it says of sweep and judge."""
        if self.is_comments and query.profile == DEFAULT_PROFILE:
            query = query.model_copy(update={"profile": None})
        wanted = query.encoded(sweep=None, judge=[])
        return next((each for each in self.views[judge] if each.query.encoded(sweep=None, judge=[]) == wanted), None)


@dataclass(frozen=True)
class SitePlan:
    """All sweeps of a store, the newest first."""

    sweeps: tuple[SweepPlan, ...]

    def sweep(self, name: str | None) -> SweepPlan | None:
        """A sweep by id or name; the newest for None."""
        if name is None:
            return self.sweeps[0] if self.sweeps else None
        by_id = [each for each in self.sweeps if each.id == name]
        by_name = [each for each in self.sweeps if each.record["name"] == name]
        return next(iter(by_id + by_name), None)

    @property
    def first(self) -> View | None:
        """What the site opens with: the default view of the newest sweep that has a judge."""
        return next((each.views[each.judges[0].judge_id][0] for each in self.sweeps if each.judges), None)


def planned(boards: Boards) -> SitePlan:
    """What a site of this store holds."""
    sources = boards.sources
    with sources.store().read() as connection:
        records = [sweep_record(connection, each["id"]) for each in sweep_records(connection)]
    return SitePlan(tuple(_sweep(boards, record) for record in records if record is not None))


def _sweep(boards: Boards, record: Mapping[str, Any]) -> SweepPlan:
    judges = tuple(boards.sources.judges(record["id"]))
    views = {each.judge_id: tuple(_views(record, each.judge_id)) for each in judges}
    rows = {each.judge_id: _builds(boards, record, each, views[each.judge_id][0]) for each in judges}
    first = rows[judges[0].judge_id][:TOP_BUILDS] if judges else []
    pairs = {}
    for judge, builds in rows.items():
        same = [build for build in first if build in builds]
        pairs[judge] = tuple(itertools.combinations(same if len(same) > 1 else builds[:TOP_BUILDS], 2))
    return SweepPlan(
        record=record,
        judges=judges,
        views=views,
        pairs=pairs,
        rows={judge: len(builds) for judge, builds in rows.items()},
    )


def _builds(boards: Boards, record: Mapping[str, Any], judge: StoredJudge, view: View) -> list[str]:
    """Build ids in the order of the default view's rows."""
    shown = boards.shown(view.query, judge, record["id"], record["protocol"], intervals="made")
    return [row["build"] for row in shown.document["rows"]]


def _views(record: Mapping[str, Any], judge: str) -> Iterator[View]:
    here = {"sweep": record["id"], "judge": [judge]}
    preferences: Sequence[tuple[str, float]] = [(name, beta) for name, beta, _ in PRESETS]
    # The default comes first.
    preferences = sorted(preferences, key=lambda each: each[1] != 1)
    if record["protocol"] == COMMENTS:
        for name in (DEFAULT_PROFILE, *(each for each in (*PROFILES, NO_PROFILE) if each != DEFAULT_PROFILE)):
            profile = None if name == DEFAULT_PROFILE else name
            for title, beta in preferences:
                yield View(
                    f"profile {name}", title, BoardQuery.model_validate(here | {"profile": profile, "beta": beta})
                )
        yield View("as the public tool counts", "balanced", BoardQuery.model_validate(here | {"compatible": True}))
        return
    for basis in ("grounded", "augmented") if record["protocol"] == "reviewbench" else ("grounded",):
        for title, beta in preferences:
            group = f"{basis} metrics" if record["protocol"] == "reviewbench" else "answer key"
            yield View(group, title, BoardQuery.model_validate(here | {"basis": basis, "beta": beta}))


def query_of(values: Mapping[str, Sequence[str]]) -> BoardQuery | None:
    """A query string's values as a state; None where it is none."""
    given = {
        name: list(each) if BoardQuery.model_fields[name].annotation == list[str] else each[-1]
        for name, each in values.items()
        if name in BoardQuery.model_fields
    }
    if given.keys() != values.keys():
        return None
    try:
        return BoardQuery.model_validate(given)
    except ValidationError:
        return None
