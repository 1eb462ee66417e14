"""Comparisons of builds and of judges as the API and the pages show them, kept while what they are made of holds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from crb_core.errors import InputError, Where
from crb_core.store.comparisons import comparison_json, side_by_side
from crb_core.store.judge_comparison import comparison_json as judges_json
from crb_core.store.judge_comparison import require_two
from crb_core.store.results import StoredJudge
from crb_core.store.sweep_rows import RowOptions
from crb_web.boards import Boards
from crb_web.query import BoardQuery
from crb_web.sources import Sources

__all__ = ["Comparisons"]

T = TypeVar("T")

#: Documents that stay in memory; one of four builds and 200 pull requests takes a megabyte.
KEPT = 16


class Comparisons:
    """Computes one document at a time: a comparison of a big sweep takes seconds of all cores."""

    def __init__(self, boards: Boards) -> None:
        self.boards = boards
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, Any] = OrderedDict()

    @property
    def sources(self) -> Sources:
        return self.boards.sources

    def builds(self, query: BoardQuery, names: Sequence[str]) -> dict[str, Any]:
        """``crb.comparison/2`` of the query's first judge."""
        sweep_id, protocol, judges = self.boards.chosen(query.model_copy(update={"judge": query.judge[:1]}))
        number, loaded = self.sources.loaded(sweep_id, judges[0], protocol)
        key = ("builds", sweep_id, judges[0], number, tuple(names), query.encoded(judge=[], sweep=None))
        return self._kept_or(key, lambda: comparison_json(self.sources.store(), loaded, names, row_options(query)))

    def judges_of_builds(self, query: BoardQuery, builds: Sequence[str]) -> list[dict[str, Any]]:
        """Rank, precision, recall and F of these builds under every judge of the sweep, without filters."""
        sweep_id, protocol, judges = self.boards.chosen(query.model_copy(update={"judge": []}))
        loaded = [(judge, self.sources.loaded(sweep_id, judge, protocol)) for judge in judges]
        key = ("side", sweep_id, [(judge, number) for judge, (number, _) in loaded], builds, query.beta, query.profile)
        return self._kept_or(
            repr(key),
            lambda: side_by_side(
                self.sources.store(),
                sweep_id,
                protocol,
                [(judge, found) for judge, (_, found) in loaded],
                builds,
                RowOptions(beta=query.beta, profile=query.profile),
            ),
        )

    def judges(self, sweep: str) -> dict[str, Any]:
        """``crb.judge-comparison/1`` of every judge of a sweep; InputError where it has fewer than two."""
        sweep_id, protocol, judges = self.boards.chosen(BoardQuery(sweep=sweep))
        chosen: list[StoredJudge] = require_two(judges)
        loaded = {judge.judge_id: self.sources.loaded(sweep_id, judge, protocol) for judge in chosen}
        key = ("judges", sweep_id, tuple((judge.judge_id, loaded[judge.judge_id][0]) for judge in chosen))
        return self._kept_or(
            key,
            lambda: judges_json(
                self.sources.store(),
                sweep_id,
                protocol,
                chosen,
                loaded={judge_id: found for judge_id, (_, found) in loaded.items()},
            ),
        )

    def _kept_or(self, key: Any, compute: Callable[[], T]) -> T:
        key = repr(key)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: T = self._kept[key]
                return found
            found = self._kept[key] = compute()
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found


def row_options(query: BoardQuery) -> RowOptions:
    """How a query's rows are counted; InputError for the compatible way, which counts lists and not pairs."""
    if query.compatible:
        raise InputError(
            "compatible counting has no paired comparison", where=Where(field="compatible"), remedy="Leave it out"
        )
    return RowOptions(
        beta=query.beta,
        subset=query.subset,
        allow_partial=query.allow_partial,
        exclude_producers=tuple(query.exclude_producer),
        pull_requests=query.inside,
        profile=query.profile,
        no_dedup=query.no_dedup,
    )
