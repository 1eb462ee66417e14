"""The store and the evidence that a server reads, and the sweeps that it keeps loaded."""

from __future__ import annotations

import gc
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import make_url, text
from sqlalchemy.exc import ArgumentError

from crb_core.dimensions import KnownDimensions
from crb_core.errors import InputError, StoreError
from crb_core.evidence import EvidenceStore, open_evidence
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.audit import sweep_records
from crb_core.store.boards import LoadedBoard
from crb_core.store.comment_boards import PROTOCOL as COMMENTS
from crb_core.store.comment_boards import LoadedComments
from crb_core.store.content import board_content, store_content
from crb_core.store.judge_costs import judge_cost_totals
from crb_core.store.pull_request_diffs import PullRequestDiffs
from crb_core.store.pull_request_dimensions import stored_dimensions
from crb_core.store.results import StoredJudge, find_judge, sweep_judges
from crb_core.store.schema import HEAD, stored_revision
from crb_core.store.sweeps import find_sweep
from crb_web.errors import NotFoundError
from crb_web.turns import Turns

__all__ = ["Loaded", "Sources"]

#: Sweeps under a judge that stay in memory; one of 130,000 findings takes about 150 MiB.
KEPT = 4
#: New objects after which the collector looks at the young ones: an answer of a megabyte makes some thousands, all of
#: which are gone with it.
COLLECTED_AFTER = 50_000
#: Small answers of the store that stay in memory until somebody commits.
KEPT_ANSWERS = 256

T = TypeVar("T")

Loaded = LoadedBoard | LoadedComments


@dataclass(frozen=True)
class _Kept:
    """What was loaded, under which token and content, and the how-manieth loading it was."""

    token: str
    #: What the whole store held then, which is quicker to ask for than what this leaderboard is made of.
    store_content: tuple[object, ...]
    content: tuple[object, ...]
    judge: StoredJudge
    number: int
    loaded: Loaded


class Sources:
    """Opens the store when it is first asked for, and again where its file was replaced.

    ``token`` changes with every commit of anybody; what was loaded under another one is loaded anew, unless every
    record behind it is the same. The store is never created, migrated or written.
    """

    def __init__(self, settings: Settings) -> None:
        self._url = settings.resolved_store_url
        self._evidence_url = settings.resolved_evidence_url
        self.diffs = PullRequestDiffs.of_settings(settings)
        self._lock = threading.Lock()
        self._opening = Turns()
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._watch: Any = None
        self._opened = 0
        self._loaded: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._answers: OrderedDict[Any, tuple[str, Any]] = OrderedDict()
        self._numbers = itertools.count()
        self._loading: dict[tuple[str, str], Turns] = {}

    @property
    def evidence(self) -> EvidenceStore:
        return open_evidence(self._evidence_url)

    def store(self) -> Store:
        """The store; StoreError where there is none, or where another version of crb wrote it."""
        with self._opening.taken():
            return self._open()

    def token(self) -> str:
        """Equal to an earlier one exactly where nobody has committed anything since."""
        with self._opening.taken():
            store = self._open()
            if store.is_sqlite:
                if self._watch is None:
                    self._watch = store.engine.raw_connection()
                # The counter is the connection's own, so one connection is kept for it.
                version = self._watch.cursor().execute("PRAGMA data_version").fetchone()[0]
                return f"{self._opened}:{version}"
        with store.read() as connection:
            return str(connection.execute(text("SELECT pg_current_snapshot()::text")).scalar_one())

    def close(self) -> None:
        with self._opening.taken():
            self._close()

    def unchanged(self, key: Any, read: Callable[[], T]) -> T:
        """What ``read`` gives, or what it gave under this key where nobody has committed anything since.

        It is shared, so nobody may change it.
        """
        # Taken before reading: a commit in between makes the next request read again.
        token = self.token()
        with self._lock:
            known = self._answers.get(key)
        if known is not None and known[0] == token:
            found: T = known[1]
            return found
        found = read()
        with self._lock:
            self._answers[key] = (token, found)
            self._answers.move_to_end(key)
            while len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return found

    def sweep(self, reference: str) -> Any:
        """The sweep row of a name or id."""

        def read() -> Any:
            with self.store().read() as connection:
                try:
                    return find_sweep(connection, reference)
                except InputError as error:
                    raise NotFoundError(error.problem, remedy="/api/v1/sweeps lists the stored ones") from None

        return self.unchanged(("sweep", reference), read)

    def dimensions(self, sweep_id: str) -> KnownDimensions:
        """By key of each pull request that a sweep runs what is known of it, in the order of its corpus."""
        with self.store().read() as connection:
            return stored_dimensions(connection, sweep_id, self.diffs)

    def judges(self, sweep_id: str) -> list[StoredJudge]:
        """The judges of a sweep, in the order in which they were asked for."""

        def read() -> list[StoredJudge]:
            with self.store().read() as connection:
                return sweep_judges(connection, sweep_id)

        return list(self.unchanged(("judges", sweep_id), read))

    def sweeps(self) -> list[dict[str, Any]]:
        """The records of all sweeps, the newest first; not to be changed."""

        def read() -> list[dict[str, Any]]:
            with self.store().read() as connection:
                return sweep_records(connection)

        return self.unchanged("sweeps", read)

    def judge_costs(self, sweep_id: str, judge_id: str) -> dict[str, Any]:
        """What the calls of a judge's model cost in a sweep; not to be changed."""

        def read() -> dict[str, Any]:
            with self.store().read() as connection:
                return judge_cost_totals(connection, sweep_id, judge_id)

        return self.unchanged(("costs", sweep_id, judge_id), read)

    def judge(self, sweep_id: str, reference: str | None) -> StoredJudge:
        """A sweep's judge by name or fingerprint; its first one for None."""

        def read() -> StoredJudge:
            with self.store().read() as connection:
                try:
                    return find_judge(connection, sweep_id, reference)
                except InputError as error:
                    raise NotFoundError(error.problem, remedy=error.remedy) from None

        return self.unchanged(("judge", sweep_id, reference), read)

    def loaded(self, sweep_id: str, judge: StoredJudge, protocol: str) -> tuple[int, Loaded]:
        """The sweep under a judge, loaded again where a record behind its leaderboard changed, and which loading it is.

        Most commits while a sweep runs are beats of workers; they cost a look at what changed, not a loading.
        """
        key = (sweep_id, judge.judge_id)
        with self._lock:
            turns = self._loading.setdefault(key, Turns())
        # One request loads, the others wait for it.
        with turns.taken():
            # Taken before reading: a commit in between makes the next request look again.
            token = self.token()
            with self._lock:
                found = self._loaded.get(key)
            if found is None or found.token != token or found.judge != judge:
                store = self.store()
                with store.read() as connection:
                    # First the quicker one, so that it is never the newer one.
                    whole = store_content(connection, sweep_id)
                    if found is not None and found.store_content == whole:
                        content = found.content
                    else:
                        content = board_content(connection, sweep_id, judge.judge_id)
                if found is None or found.content != content or found.judge != judge:
                    loaded = self._load(store, sweep_id, judge, protocol, found)
                    # A sweep is millions of objects without cycles: the collector need not walk them again and again.
                    gc.freeze()
                    gc.set_threshold(COLLECTED_AFTER, *gc.get_threshold()[1:])
                    found = _Kept(token, whole, content, judge, next(self._numbers), loaded)
                else:
                    found = replace(found, token=token, store_content=whole)
            with self._lock:
                self._loaded[key] = found
                self._loaded.move_to_end(key)
                while len(self._loaded) > KEPT:
                    self._loaded.popitem(last=False)
            return found.number, found.loaded

    def _load(
        self, store: Store, sweep_id: str, judge: StoredJudge, protocol: str, found: _Kept | None
    ) -> LoadedBoard | LoadedComments:
        if protocol == COMMENTS:
            return LoadedComments.load(store, sweep_id, judge, diffs=self.diffs)
        earlier = None if found is None or not isinstance(found.loaded, LoadedBoard) else found.loaded
        return LoadedBoard.load(store, sweep_id, judge, diffs=self.diffs, earlier=earlier)

    def _open(self) -> Store:
        file = self._identity()
        if self._store is not None and file == self._file:
            return self._store
        self._close()
        store = open_store(self._url, migrate=False)
        try:
            revision = stored_revision(store)
        except BaseException:
            store.close()
            raise
        if revision != HEAD:
            store.close()
            if revision is None:
                raise StoreError(f"{store.url} holds no crb store yet", remedy="Run `crb demo` or start a sweep first")
            raise StoreError(
                f"The store {store.url} has the schema {revision}, and this version of crb reads {HEAD}",
                remedy="Serve it with the version of crb that wrote it; any other command of a newer one upgrades it",
            )
        self._store, self._file = store, file
        self._opened += 1
        return store

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of a SQLite file, so that one that was moved away is not read any longer."""
        try:
            url = make_url(self._url)
        except ArgumentError:
            return None
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            return None
        try:
            found = Path(url.database).stat()
        except OSError as error:
            # Opening it would create it.
            raise StoreError(
                f"There is no store at {url.database}: {error.strerror}",
                remedy="Run `crb demo` or start a sweep first, or set CRB_HOME to the folder that has one",
            ) from None
        return found.st_dev, found.st_ino

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._store is not None:
            self._store.close()
            self._store = None
        with self._lock:
            self._loaded.clear()
            self._answers.clear()
