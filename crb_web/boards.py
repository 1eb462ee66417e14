"""Leaderboards as the API and the pages show them: the documents of ``crb leaderboard --json``, computed on demand.

Re-scoring takes tens of milliseconds for 130,000 findings, intervals take a second or more. So intervals of a big sweep
are made once in the background and kept; until then a page can be had without them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from crb_core.bootstrap import Bootstrap
from crb_core.errors import InputError
from crb_core.store import comment_boards
from crb_core.store.boards import LoadedBoard, board_json, chosen_sweep
from crb_core.store.comment_boards import LoadedComments
from crb_core.store.results import StoredJudge
from crb_web.errors import NotFoundError
from crb_web.query import BoardQuery
from crb_web.sources import Loaded, Sources

__all__ = ["Boards", "Intervals", "Shown"]

#: ``made`` waits for intervals; ``ready`` takes them if they are there or quickly made; ``none`` leaves them out.
Intervals = Literal["made", "ready", "none"]

#: Trials of a leaderboard whose intervals are made at once: about a tenth of a second.
QUICK = 1000
#: Documents that stay in memory; one of 20 builds takes half a megabyte.
KEPT = 128
#: Documents whose intervals may wait to be made for pages that nobody may look at any more.
WAITING = 3


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A leaderboard's document, and whether it has intervals (a document without misses their fields)."""

    document: Mapping[str, Any]
    judge: StoredJudge
    loaded: Loaded
    has_intervals: bool


class Boards:
    """Computes leaderboards of stored sweeps; remembers documents until somebody commits to the store."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._made: dict[Any, Future[dict[str, Any]]] = {}
        # One thread: the sums of intervals are heavy, and a page must not wait behind those of another page.
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="crb-intervals")

    def close(self) -> None:
        self._maker.shutdown(wait=True, cancel_futures=True)

    def chosen(self, query: BoardQuery) -> tuple[str, str, list[StoredJudge]]:
        """Sweep id, protocol and judges of a query."""
        if query.sweep is not None:
            self.sources.sweep(query.sweep)
        sweep_id, protocol = chosen_sweep(self.sources.store(), query.sweep, None)
        if query.judge:
            return sweep_id, protocol, [self.sources.judge(sweep_id, name) for name in query.judge]
        judges = self.sources.judges(sweep_id)
        if not judges:
            raise NotFoundError("The sweep has no judge", remedy="Judge it with `crb judge run`")
        return sweep_id, protocol, judges

    def shown(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, *, intervals: Intervals
    ) -> Shown:
        """The leaderboard of a query under one judge, without single pull requests."""
        token, loaded = self.sources.loaded(sweep_id, judge, protocol)
        key = (token, sweep_id, judge.judge_id, query.encoded(sweep=None, judge=[]))
        document: dict[str, Any] | None = None
        if intervals == "made" or (intervals == "ready" and _trials(loaded) <= QUICK):
            document = self._with(key, query, loaded).result()
        elif intervals == "ready":
            document = self._if_ready(key, query, loaded)
        if document is not None:
            return Shown(document=document, judge=judge, loaded=loaded, has_intervals=True)
        plain = self._remembered((*key, "plain"), lambda: _document(query, loaded, None))
        return Shown(document=plain, judge=judge, loaded=loaded, has_intervals=False)

    def in_full(self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str) -> dict[str, Any]:
        """The document with every pull request, and with intervals; not remembered, it may be big."""
        _, loaded = self.sources.loaded(sweep_id, judge, protocol)
        return _document(query, loaded, Bootstrap(), pull_requests=True)

    def pull_requests(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, build: str
    ) -> dict[str, Any]:
        """One row with every pull request, without intervals."""
        _, loaded = self.sources.loaded(sweep_id, judge, protocol)
        document = _document(query, loaded, None, pull_requests=True)
        for row in document["rows"]:
            if row["build"] == build:
                return document | {"rows": [row]}
        raise NotFoundError(f"There is no row of the build {build} under this judge")

    def _if_ready(self, key: Any, query: BoardQuery, loaded: Loaded) -> dict[str, Any] | None:
        """The document with intervals if it is there; begins it unless others wait already."""
        with self._lock:
            is_busy = key not in self._made and (*key, "made") not in self._kept and len(self._made) >= WAITING
        if is_busy:
            return None
        future = self._with(key, query, loaded)
        return future.result() if future.done() else None

    def _with(self, key: Any, query: BoardQuery, loaded: Loaded) -> Future[dict[str, Any]]:
        """The document with intervals, begun if nobody has begun it."""
        with self._lock:
            found = self._kept.get((*key, "made"))
            if found is not None:
                self._kept.move_to_end((*key, "made"))
                done: Future[dict[str, Any]] = Future()
                done.set_result(found)
                return done
            begun = self._made.get(key)
            if begun is not None and not begun.cancelled():
                return begun
            future = self._made[key] = self._maker.submit(_document, query, loaded, Bootstrap())
        future.add_done_callback(lambda done: self._keep(key, done))
        return future

    def _keep(self, key: Any, done: Future[dict[str, Any]]) -> None:
        with self._lock:
            self._made.pop(key, None)
            if not done.cancelled() and done.exception() is None:
                self._put((*key, "made"), done.result())

    def _remembered(self, key: Any, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        fresh = compute()
        with self._lock:
            self._put(key, fresh)
        return fresh

    def _put(self, key: Any, document: dict[str, Any]) -> None:
        self._kept[key] = document
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _trials(loaded: Loaded) -> int:
    if isinstance(loaded, LoadedBoard):
        return sum(len(of_build) for of_build in loaded.about.trials.values())
    return len(loaded.results.trials)


def _document(
    query: BoardQuery, loaded: Loaded, bootstrap: Bootstrap | None, *, pull_requests: bool = False
) -> dict[str, Any]:
    if isinstance(loaded, LoadedComments):
        options = _options(query)
        rows = loaded.rows(options, bootstrap)
        return comment_boards.board_json([(loaded.results.judge, rows)], loaded.results, options)
    for name in ("profile", "compatible", "no_dedup"):
        if getattr(query, name):
            raise InputError(f"{name} belongs to the protocol golden-comments, and this sweep is of another")
    board = loaded.board(
        beta=query.beta,
        subset=query.subset,
        sort=query.sort,
        allow_partial=query.allow_partial,
        exclude_producers=query.exclude_producer,
        bootstrap=bootstrap,
    )
    excluded = loaded.exclusion(query.exclude_producer)
    return board_json(board, loaded.about, excluded, pull_requests=pull_requests)


def _options(query: BoardQuery) -> comment_boards.Options:
    for name in _refused(query):
        raise InputError(f"{name} is for protocols with claims; this sweep is of golden-comments")
    options = comment_boards.Options(
        compatible=query.compatible,
        profile=query.profile,
        dedup=not query.no_dedup,
        beta=query.beta,
        subset=query.subset,
        partial=query.allow_partial,
    )
    options.check()
    return options


def _refused(query: BoardQuery) -> Iterator[str]:
    if query.exclude_producer:
        yield "exclude_producer"
    if query.sort not in {None, "f"}:
        yield "sort"
