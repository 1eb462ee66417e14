"""Leaderboards as the API and the pages show them: the documents of ``crb leaderboard --json``, computed on demand.

Re-scoring takes tens of milliseconds for 130,000 findings, intervals take a second or more. So intervals of a big sweep
are made once in the background and kept; until then a page can be had without them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from crb_core.bootstrap import Bootstrap
from crb_core.comment_rows import CommentRow
from crb_core.errors import InputError
from crb_core.leaderboard import Leaderboard
from crb_core.pictures import Picture, pictures
from crb_core.rows import Row
from crb_core.store import comment_boards
from crb_core.store.boards import LoadedBoard, board_json, chosen_sweep
from crb_core.store.comment_boards import LoadedComments
from crb_core.store.results import StoredJudge
from crb_web.errors import NotFoundError
from crb_web.give_way import Priority
from crb_web.json_text import quick_json_bytes
from crb_web.query import BoardQuery
from crb_web.sources import Loaded, Sources

__all__ = ["Boards", "Intervals", "Shown"]

T = TypeVar("T")

#: ``made`` waits for intervals; ``ready`` takes them if they are there or quickly made, and begins those of a whole
#: sweep; ``none`` leaves them out.
Intervals = Literal["made", "ready", "none"]

#: Trials of a leaderboard whose intervals are made at once: about a tenth of a second.
QUICK = 1000
#: Documents that stay in memory; one of 20 builds takes a tenth of a megabyte.
KEPT = 128
#: Whole documents that stay in memory, as JSON; one of 20 builds takes a megabyte.
KEPT_TEXTS = 32
#: Documents whose intervals may wait to be made for pages that nobody may look at any more.
WAITING = 3


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A leaderboard's document without the scores of single rounds, and whether it has intervals.

    A document without intervals misses their fields.
    """

    document: Mapping[str, Any]
    judge: StoredJudge
    loaded: Loaded
    has_intervals: bool
    #: What it is remembered under.
    key: tuple[Any, ...]


@dataclass(frozen=True)
class _Made:
    """A leaderboard with intervals: as pages show it, and the whole document as JSON."""

    brief: dict[str, Any]
    text: bytes


class Boards:
    """Computes leaderboards of stored sweeps; remembers documents until a record behind them changes."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._lock = threading.Lock()
        self._priority = Priority()
        self._drawing = threading.Lock()
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._texts: OrderedDict[Any, bytes] = OrderedDict()
        self._made: dict[Any, Future[_Made]] = {}
        # One thread, which gives way to answers: the sums of intervals are heavy, and a page must not wait behind those
        # of another page.
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="crb-intervals")

    def close(self) -> None:
        self._maker.shutdown(wait=True, cancel_futures=True)

    def chosen(self, query: BoardQuery) -> tuple[str, str, list[StoredJudge]]:
        """Sweep id, protocol and judges of a query."""
        if query.sweep is not None:
            self.sources.sweep(query.sweep)
        sweep_id, protocol = self.sources.unchanged(
            ("chosen", query.sweep), lambda: chosen_sweep(self.sources.store(), query.sweep, None)
        )
        if query.judge:
            return sweep_id, protocol, [self.sources.judge(sweep_id, name) for name in query.judge]
        judges = self.sources.judges(sweep_id)
        if not judges:
            raise NotFoundError("The sweep has no judge", remedy="Judge it with `crb judge run`")
        return sweep_id, protocol, judges

    def shown(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, *, intervals: Intervals
    ) -> Shown:
        """The leaderboard of a query under one judge, as pages show it."""
        key, loaded = self._place(query, judge, sweep_id, protocol)
        made: _Made | None = None
        if intervals == "made" or (intervals == "ready" and _trials(loaded) <= QUICK):
            made = self._with(key, query, loaded).result()
        elif intervals == "ready":
            is_whole = not query.pairs(sweep=None, judge=[], basis="grounded")
            made = self._if_ready(key, query, loaded, begin=is_whole)
        if made is not None:
            return Shown(document=made.brief, judge=judge, loaded=loaded, has_intervals=True, key=key)
        plain = self._remembered((*key, "plain"), lambda: _document(query, loaded, None, scores=False))
        return Shown(document=plain, judge=judge, loaded=loaded, has_intervals=False, key=key)

    def text(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, *, with_intervals: bool
    ) -> bytes:
        """The whole document as JSON, without single pull requests."""
        key, loaded = self._place(query, judge, sweep_id, protocol)
        if with_intervals:
            return self._with(key, query, loaded).result().text
        with self._lock:
            found = self._texts.get(key)
        if found is None:
            with self._priority.answering():
                found = quick_json_bytes(_document(query, loaded, None))
            with self._lock:
                self._texts[key] = found
                while len(self._texts) > KEPT_TEXTS:
                    self._texts.popitem(last=False)
        return found

    def _place(self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str) -> tuple[Any, Loaded]:
        """What the leaderboard of a query is remembered under, and what it is made of."""
        number, loaded = self.sources.loaded(sweep_id, judge, protocol)
        return (number, sweep_id, judge.judge_id, query.encoded(sweep=None, judge=[], basis="grounded")), loaded

    def pictures(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, *, intervals: Intervals
    ) -> dict[str, Picture]:
        """What the pictures of a query's leaderboard show, by name."""
        shown = self.shown(query, judge, sweep_id, protocol, intervals=intervals)
        key = (*shown.key, query.basis, shown.has_intervals, "pictures")
        # A page asks for all of them at once.
        with self._drawing:
            return self._remembered(key, lambda: _pictures(query, shown))

    def in_full(self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str) -> dict[str, Any]:
        """The document with every pull request, and with intervals; not remembered, it may be big."""
        _, loaded = self.sources.loaded(sweep_id, judge, protocol)
        return _document(query, loaded, Bootstrap(), pull_requests=True)

    def pull_requests(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, build: str
    ) -> dict[str, Any]:
        """One row with every pull request, without intervals."""
        _, loaded = self.sources.loaded(sweep_id, judge, protocol)
        with self._priority.answering():
            document = _document(query, loaded, None, pull_requests=True, build=build)
        if not document["rows"]:
            raise NotFoundError(f"There is no row of the build {build} under this judge")
        return document

    def comments_counted(
        self, query: BoardQuery, judge: StoredJudge, sweep_id: str, protocol: str, build: str
    ) -> dict[str, dict[int, dict[str, Any]]]:
        """By pull request and round what golden-comments counted for a build; empty where it is counted compatibly."""
        _, loaded = self.sources.loaded(sweep_id, judge, protocol)
        if not isinstance(loaded, LoadedComments):
            return {}
        found: dict[str, dict[int, dict[str, Any]]] = {}
        with self._priority.answering():
            rows = [row for row in loaded.rows(_options(query)) if row.build.build_id == build]
        for row in rows:
            for (number, key), counted in row.counted.items():
                found.setdefault(key, {})[number] = counted.model_dump()
        return found

    def _if_ready(self, key: Any, query: BoardQuery, loaded: Loaded, *, begin: bool) -> _Made | None:
        """The document with intervals if it is there; where it is to ``begin``, it does unless others wait already."""
        with self._lock:
            is_known = key in self._made or (*key, "made") in self._kept
            is_busy = len(self._made) >= WAITING
        if not is_known and (is_busy or not begin):
            return None
        future = self._with(key, query, loaded)
        return future.result() if future.done() else None

    def _with(self, key: Any, query: BoardQuery, loaded: Loaded) -> Future[_Made]:
        """The document with intervals, begun if nobody has begun it."""
        with self._lock:
            found = self._kept.get((*key, "made"))
            if found is not None:
                self._kept.move_to_end((*key, "made"))
                done: Future[_Made] = Future()
                done.set_result(found)
                return done
            begun = self._made.get(key)
            if begun is not None and not begun.cancelled():
                return begun
            future = self._made[key] = self._maker.submit(_made, query, loaded, self._priority)
        future.add_done_callback(lambda done: self._keep(key, done))
        return future

    def _keep(self, key: Any, done: Future[_Made]) -> None:
        with self._lock:
            self._made.pop(key, None)
            if not done.cancelled() and done.exception() is None:
                self._put((*key, "made"), done.result())

    def _remembered(self, key: Any, compute: Callable[[], T]) -> T:
        with self._lock:
            found: T | None = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        with self._priority.answering():
            fresh = compute()
        with self._lock:
            self._put(key, fresh)
        return fresh

    def _put(self, key: Any, document: Any) -> None:
        self._kept[key] = document
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _trials(loaded: Loaded) -> int:
    if isinstance(loaded, LoadedBoard):
        return sum(len(of_build) for of_build in loaded.about.trials.values())
    return len(loaded.results.trials)


def _made(query: BoardQuery, loaded: Loaded, priority: Priority) -> _Made:
    document = _document(query, loaded, Bootstrap(between=priority.give_way))
    text = quick_json_bytes(document)
    for row in document["rows"]:
        for each in row.get("rounds", ()):
            del each["score"]
    return _Made(brief=document, text=text)


def _pictures(query: BoardQuery, shown: Shown) -> dict[str, Picture]:
    loaded = shown.loaded
    rows: Sequence[Row | CommentRow]
    if isinstance(loaded, LoadedComments):
        rows = loaded.rows(_options(query), None)
    else:
        rows = _board(query, loaded, None).rows
    inside = query.inside.inside(loaded.dimensions)
    return pictures(shown.document, rows, basis=query.basis, subset=query.subset, pull_requests=inside)


def _document(
    query: BoardQuery,
    loaded: Loaded,
    bootstrap: Bootstrap | None,
    *,
    pull_requests: bool = False,
    scores: bool = True,
    build: str | None = None,
) -> dict[str, Any]:
    """The document, with every pull request or not, of one build or all."""
    if isinstance(loaded, LoadedComments):
        options = _options(query)
        rows = [row for row in loaded.rows(options, bootstrap) if build in {None, row.build.build_id}]
        return comment_boards.board_json([(loaded.results.judge, rows)], loaded, options)
    board = _board(query, loaded, bootstrap, strata=scores)
    if build is not None:
        board = replace(board, rows=tuple(row for row in board.rows if row.build.build_id == build))
    excluded = loaded.exclusion(query.exclude_producer)
    return board_json(
        board,
        loaded.about,
        excluded,
        dimensions=query.inside,
        known=loaded.dimensions,
        pull_requests=pull_requests,
        scores=scores,
    )


def _board(query: BoardQuery, loaded: LoadedBoard, bootstrap: Bootstrap | None, *, strata: bool = True) -> Leaderboard:
    for name in ("profile", "compatible", "no_dedup"):
        if getattr(query, name):
            raise InputError(f"{name} belongs to the protocol golden-comments, and this sweep is of another")
    return loaded.board(
        beta=query.beta,
        subset=query.subset,
        sort=query.sort,
        allow_partial=query.allow_partial,
        exclude_producers=query.exclude_producer,
        pull_requests=query.inside,
        bootstrap=bootstrap,
        strata=strata,
    )


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
        pull_requests=query.inside,
    )
    options.check()
    return options


def _refused(query: BoardQuery) -> Iterator[str]:
    if query.exclude_producer:
        yield "exclude_producer"
    if query.sort not in {None, "f"}:
        yield "sort"
