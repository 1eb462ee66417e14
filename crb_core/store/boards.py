"""Leaderboards of stored sweeps: what the command line, the exports and the web pages compute in the same way."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select

from crb_core.ablation import Exclusion, check_prefixes
from crb_core.bootstrap import Bootstrap
from crb_core.dimensions import EVERY_PULL_REQUEST, KnownDimensions, PullRequestFilter
from crb_core.errors import InputError
from crb_core.leaderboard import Leaderboard, leaderboard
from crb_core.protocols import protocol_named
from crb_core.rows import Measured
from crb_core.store.measured import StoredSweep, load_sweep
from crb_core.store.pull_request_diffs import PullRequestDiffs
from crb_core.store.pull_request_dimensions import stored_dimensions
from crb_core.store.results import StoredJudge, SweepResults, find_judge, oversubscribed_builds, sweep_judges
from crb_core.store.session import Store
from crb_core.store.sweeps import find_sweep
from crb_core.store.tables import CorpusRow, SweepRow, core
from crb_core.strata import EVERYTHING, Subset, check_producers

__all__ = ["LoadedBoard", "board_json", "chosen_judges", "chosen_sweep", "judge_json", "load_board"]

#: How many choices of pull requests stay at hand; one holds the trials and arrays of those inside.
_KEPT_FILTERS = 16
#: How many sets of left-out producers stay loaded beside the whole.
_KEPT_EXCLUSIONS = 4


class LoadedBoard:
    """A sweep under one judge, loaded once; ``board`` computes its leaderboard anew under any filter (seed A 7.4)."""

    def __init__(self, about: StoredSweep, oversubscribed: frozenset[str], dimensions: KnownDimensions) -> None:
        self.about = about
        self.oversubscribed = oversubscribed
        #: By key of the sweep's pull requests what is known of each.
        self.dimensions = dimensions
        self._measured: dict[tuple[str, ...], Measured] = {}
        self._within: OrderedDict[tuple[tuple[str, ...], tuple[str, ...]], Measured] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls,
        store: Store,
        sweep_id: str,
        judge: StoredJudge,
        *,
        diffs: PullRequestDiffs | None = None,
        earlier: LoadedBoard | None = None,
    ) -> LoadedBoard:
        """Read everything that the rows are made of; InputError for a protocol without claims.

        With ``diffs``, dimensions that the corpus does not record are computed from them. Of the same sweep and judge
        loaded ``earlier`` it takes what cannot have changed, and reads only what is new; that one may go on being used.
        """
        with store.read() as connection:
            return cls(
                load_sweep(connection, sweep_id, judge, earlier=None if earlier is None else earlier.about),
                oversubscribed_builds(connection, sweep_id),
                stored_dimensions(connection, sweep_id, diffs),
            )

    def measured(
        self, exclude_producers: Sequence[str] = (), pull_requests: PullRequestFilter = EVERY_PULL_REQUEST
    ) -> Measured:
        """What rows are computed from, without the golden findings of some producers (by prefix, rule 8).

        ``pull_requests`` leaves others out; a round is then complete when it has all of these.
        """
        whole = self._without(exclude_producers)
        if not pull_requests.dimensions:
            return whole
        keys = pull_requests.inside(self.dimensions)
        place = (tuple(check_prefixes(exclude_producers)), keys)
        with self._lock:
            found = self._within.get(place)
            if found is None:
                found = self._within[place] = whole.within(keys)
            self._within.move_to_end(place)
            while len(self._within) > _KEPT_FILTERS:
                self._within.popitem(last=False)
        return found

    def _without(self, exclude_producers: Sequence[str]) -> Measured:
        prefixes = tuple(check_prefixes(exclude_producers))
        with self._lock:
            found = self._measured.get(prefixes)
            if found is None:
                found = self._measured[prefixes] = self.about.measured(prefixes)
            while len(self._measured) > 1 + _KEPT_EXCLUSIONS:
                del self._measured[next(each for each in self._measured if each and each != prefixes)]
        return found

    def exclusion(self, exclude_producers: Sequence[str]) -> Exclusion | None:
        """What leaving producers out removes; None where nothing is left out."""
        prefixes = check_prefixes(exclude_producers)
        return self.about.exclusion(prefixes) if prefixes else None

    def board(
        self,
        *,
        beta: float = 1.0,
        subset: Subset = EVERYTHING,
        sort: str | None = None,
        allow_partial: bool = False,
        exclude_producers: Sequence[str] = (),
        pull_requests: PullRequestFilter = EVERY_PULL_REQUEST,
        bootstrap: Bootstrap | None = None,
        strata: bool = True,
    ) -> Leaderboard:
        """The rows; ``bootstrap`` adds intervals, stability and letters. InputError for a value nothing can have.

        Without ``strata`` it is made faster, for a document without the scores of single rounds.
        """
        # Before the arrays are made, so that a prefix of nobody costs nothing.
        self.exclusion(exclude_producers)
        measured = self.measured(exclude_producers, pull_requests)
        protocol_named(measured.protocol).check_subset(subset)
        check_producers(subset, measured.arrays.producers)
        return leaderboard(
            measured,
            beta=beta,
            subset=subset,
            sort=sort,
            allow_partial=allow_partial,
            bootstrap=bootstrap,
            oversubscribed=self.oversubscribed,
            strata=strata,
        )


def load_board(
    store: Store,
    sweep_id: str,
    judge: StoredJudge,
    *,
    beta: float = 1.0,
    subset: Subset | None = None,
    sort: str | None = None,
    allow_partial: bool = False,
    exclude_producers: Sequence[str] = (),
    pull_requests: PullRequestFilter = EVERY_PULL_REQUEST,
    diffs: PullRequestDiffs | None = None,
) -> tuple[Leaderboard, LoadedBoard, Exclusion | None]:
    """A sweep's leaderboard under one judge, with intervals, computed anew from what is stored."""
    loaded = LoadedBoard.load(store, sweep_id, judge, diffs=diffs)
    board = loaded.board(
        beta=beta,
        subset=subset or EVERYTHING,
        sort=sort,
        allow_partial=allow_partial,
        exclude_producers=exclude_producers,
        pull_requests=pull_requests,
        bootstrap=Bootstrap(),
    )
    return board, loaded, loaded.exclusion(exclude_producers)


def judge_json(judge: StoredJudge) -> dict[str, Any]:
    """The judge, whose votes a council counts, its calibration (None without one), and its stale prompts."""
    return {
        "name": judge.name,
        "fingerprint": judge.judge_id,
        "classifies": judge.classifies,
        "council": list(judge.council) or None,
        "calibration": judge.calibration,
        "stale": list(judge.stale),
    }


def board_json(
    board: Leaderboard,
    about: StoredSweep | SweepResults,
    excluded: Exclusion | None = None,
    *,
    dimensions: PullRequestFilter = EVERY_PULL_REQUEST,
    known: KnownDimensions | None = None,
    pull_requests: bool = True,
    scores: bool = True,
) -> dict[str, object]:
    """``crb.leaderboard/1`` with what it was computed from; ``dimensions`` restricted its pull requests.

    ``known`` says of how many pull requests a dimension was computed. Without ``scores`` it is the document of a page,
    which shows no single round.
    """
    return {
        "sweep": about.sweep_name,
        "sweep_id": about.sweep_id,
        "corpus": about.corpus,
        "corpus_fingerprint": about.corpus_fingerprint,
        "protocol": about.protocol,
        "judge": judge_json(about.judge),
        "excluded_producers": None if excluded is None else excluded.model_dump(mode="json"),
        "dimensions": dimensions.to_json(),
        "dimensions_computed": {} if known is None else known.computed_counts(dimensions.dimensions),
        **board.to_json(pull_requests=pull_requests, scores=scores),
    }


def chosen_sweep(store: Store, reference: str | None, protocol: str | None) -> tuple[str, str]:
    """Id and protocol of a named sweep, or of the newest one (of ``protocol``)."""
    sweeps, corpora = core(SweepRow), core(CorpusRow)
    if protocol is not None:
        protocol_named(protocol)
    query = select(sweeps.c.id, sweeps.c.name, corpora.c.protocol).join(corpora, corpora.c.id == sweeps.c.corpus_id)
    with store.read() as connection:
        if reference is not None:
            query = query.where(sweeps.c.id == find_sweep(connection, reference).id)
        elif protocol is not None:
            query = query.where(corpora.c.protocol == protocol)
        row = connection.execute(query.order_by(sweeps.c.created_at.desc(), sweeps.c.id).limit(1)).one_or_none()
    if row is None:
        of = f" of the protocol {protocol}" if protocol is not None else ""
        raise InputError(
            f"The store has no sweep{of} yet",
            remedy="Start one with `crb sweep start` or `crb demo`, or import one with `crb sweep import`",
        )
    if protocol is not None and row.protocol != protocol:
        raise InputError(
            f"The sweep {row.name} is of the protocol {row.protocol}, not {protocol}",
            remedy="Leave --protocol out or name another sweep",
        )
    return str(row.id), str(row.protocol)


def chosen_judges(store: Store, sweep_id: str, names: Collection[str] | None) -> list[StoredJudge]:
    """The named judges of a sweep, or all of them; InputError where it has none."""
    with store.read() as connection:
        found = (
            [find_judge(connection, sweep_id, name) for name in names] if names else sweep_judges(connection, sweep_id)
        )
    if not found:
        raise InputError("The sweep has no judge", remedy="Judge it with `crb judge run`")
    return found
