"""What a machine may give up is listed with who needs it, and removing it harms nobody who works."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
from sqlalchemy import update

from crb_core.evidence import FolderEvidence
from crb_core.formats.showcase import read_showcase
from crb_core.housekeeping import choose_removals
from crb_core.store import Store, open_store
from crb_core.store.judge_calls import NewCall, open_call
from crb_core.store.sweeps import save_build
from crb_core.store.tables import AttemptRow, PullRequestRow, StepRow, core
from crb_worker.corpus_check import seal_corpus
from crb_worker.housekeeping import Found, evidence_things, image_things, snapshot_things
from crb_worker.sandbox.build import AGENT_LABEL
from crb_worker.sandbox.engine import Engine
from crb_worker.snapshot import ShowcaseSource, Snapshot, SnapshotCache
from tests.crb_core.store.planned import build, plan
from tests.crb_worker.text_corpora import write_corpus

WEEK = 7 * 86400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    yield opened
    opened.close()


def make_old(path: Path) -> None:
    os.utime(path, (time.time() - 2 * WEEK,) * 2)


def chosen(found: Found) -> list[str]:
    removals = choose_removals(found.things, now=time.time(), older_than=WEEK, max_bytes=None, young=3600)
    return [thing.name for thing in removals]


class TestEvidence:
    def test_only_what_no_row_names(self, store: Store, tmp_path: Path) -> None:
        """Of three old blobs the one that a row names stays, and so does a young one."""
        evidence = FolderEvidence(tmp_path / "evidence")
        planned = plan(store)
        planned.take(planned.ids()[0])
        named, unnamed = evidence.put(b"named"), evidence.put(b"unnamed")
        (cut_off := tmp_path / "evidence" / "ab").mkdir(exist_ok=True)
        (cut_off / ".new-1").write_bytes(b"half")
        for path in (tmp_path / "evidence").glob("*/*"):
            make_old(path)
        evidence.put(b"young")
        with store.write() as connection:
            connection.execute(update(core(AttemptRow)).values(evidence={"stdout": named}))
        found = evidence_things(store, evidence)
        assert sorted(Path(name).name for name in chosen(found)) == sorted([".new-1", unnamed])
        for name in chosen(found):
            assert found.remove(name) is None
        assert evidence.has(named)
        assert not evidence.has(unnamed)

    def test_a_blob_that_is_put_meanwhile_stays(self, store: Store, tmp_path: Path) -> None:
        """Between the list and the removal a worker puts the same bytes: its row will name them."""
        evidence = FolderEvidence(tmp_path / "evidence")
        digest = evidence.put(b"the same output")
        (path,) = (tmp_path / "evidence").glob("*/*")
        make_old(path)
        found = evidence_things(store, evidence)
        (name,) = chosen(found)
        assert evidence.put(b"the same output") == digest
        assert "again" in (found.remove(name) or "")
        assert evidence.get(digest) == b"the same output"

    @pytest.mark.parametrize("trouble", ["missing", "damaged", "no document", "nested"])
    def test_nothing_goes_while_a_judges_request_cannot_be_read(
        self, store: Store, tmp_path: Path, trouble: str
    ) -> None:
        """It names further blobs: as long as nobody knows which, all are kept, and the sentence names the request."""
        evidence = FolderEvidence(tmp_path / "evidence")
        part, unnamed = evidence.put(b"a long text"), evidence.put(b"unnamed")
        odd = {"no document": b"plain text", "nested": b"[" * 200_000}
        request = evidence.put(odd.get(trouble, json.dumps({"body": [{"$sha256": part}]}).encode()))
        with store.write() as connection:
            open_call(
                connection,
                NewCall(
                    trial_id=None,
                    judge_id="j-1",
                    stage="match",
                    label="a call",
                    request_hash="0" * 64,
                    secret="s",
                    attempt=1,
                    model="m",
                    request_digest=request,
                ),
            )
        path = tmp_path / "evidence" / request[:2] / request
        whole = path.read_bytes()
        path.chmod(0o644)
        if trouble == "missing":
            path.unlink()
        elif trouble == "damaged":
            path.write_bytes(whole + b" ")
        for each in (tmp_path / "evidence").glob("*/*"):
            make_old(each)
        found = evidence_things(store, evidence)
        assert chosen(found) == []
        assert request in (found.problem or "")
        assert "All evidence is kept" in (found.problem or "")
        if trouble in {"missing", "damaged"}:
            path.write_bytes(whole)
            found = evidence_things(store, evidence)
            assert found.problem is None
            assert [Path(name).name for name in chosen(found)] == [unnamed]


class TestSnapshots:
    @pytest.fixture
    def cached(self, tmp_path: Path) -> tuple[SnapshotCache, Snapshot, ShowcaseSource]:
        folder = write_corpus(tmp_path / "corpus")
        seal_corpus(folder)
        (entry,) = read_showcase(folder).entries
        source = ShowcaseSource(folder)
        cache = SnapshotCache(tmp_path / "snapshots")
        return cache, cache.get(source, entry.pull_request), source

    @staticmethod
    def age(cache: SnapshotCache, name: str) -> None:
        make_old(cache.root / name)
        make_old(cache.root / ".locks" / name)

    def test_an_unused_one_goes_and_comes_back(
        self, store: Store, cached: tuple[SnapshotCache, Snapshot, ShowcaseSource]
    ) -> None:
        """It is a cache: the next attempt builds the same snapshot again."""
        cache, snapshot, source = cached
        name = snapshot.folder.name
        assert chosen(snapshot_things(store, cache)) == []
        self.age(cache, name)
        found = snapshot_things(store, cache)
        assert chosen(found) == [name]
        assert sum(thing.size for thing in found.things) > 10_000
        assert found.remove(name) is None
        assert cache.find(snapshot.pull_request) is None
        assert [path.name for path in cache.root.iterdir()] == [".locks"]
        again = cache.get(source, snapshot.pull_request)
        assert again.folder == snapshot.folder
        assert again.diff.files == snapshot.diff.files

    def test_asking_for_one_makes_it_young(
        self, store: Store, cached: tuple[SnapshotCache, Snapshot, ShowcaseSource]
    ) -> None:
        """Use counts, not age; the entry itself is not touched, or it would look damaged."""
        cache, snapshot, source = cached
        self.age(cache, snapshot.folder.name)
        cache.get(source, snapshot.pull_request)
        assert chosen(snapshot_things(store, cache)) == []

    def test_work_that_is_left_keeps_it(
        self, store: Store, cached: tuple[SnapshotCache, Snapshot, ShowcaseSource]
    ) -> None:
        """A pull request with a step to do needs its snapshot, however old that is."""
        cache, snapshot, _ = cached
        self.age(cache, snapshot.folder.name)
        planned = plan(store)
        with store.write() as connection:
            connection.execute(
                update(core(PullRequestRow)).values(document=snapshot.pull_request.model_dump(mode="json"))
            )
        (thing,) = snapshot_things(store, cache).things
        assert thing.kept_because is not None
        with store.write() as connection:
            connection.execute(update(core(StepRow)).values(state="done"))
        assert chosen(snapshot_things(store, cache)) == [snapshot.folder.name]
        assert planned.ids()

    def test_one_that_is_being_built_stays(
        self, store: Store, cached: tuple[SnapshotCache, Snapshot, ShowcaseSource]
    ) -> None:
        """A builder holds the entry's lock; what a dead builder left is removed with the entry's own lock."""
        cache, snapshot, _ = cached
        name = snapshot.folder.name
        half = cache.root / f".{name}.x1y2"
        (half / "repo").mkdir(parents=True)
        make_old(half)
        with (cache.root / ".locks" / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = snapshot_things(store, cache)
            assert chosen(found) == [half.name]
            assert found.remove(half.name) is not None
            assert half.is_dir()
        assert found.remove(half.name) is None
        assert not half.exists()
        assert cache.find(snapshot.pull_request) is not None


@pytest.mark.docker
class TestImages:
    def test_only_what_no_build_names(self, store: Store) -> None:
        """Of three agents' images the one that a build names is kept, and one that a container has."""
        engine, client = Engine(1), docker.from_env()
        made = []
        try:
            for number in range(3):
                image, _ = client.images.build(
                    fileobj=io.BytesIO(f'FROM scratch\nLABEL n={uuid.uuid4().hex}\nCMD ["x"]\n'.encode()),
                    labels={AGENT_LABEL: f"gc-test-{number}"},
                    tag=f"crb/agent-gc-test:{uuid.uuid4().hex[:12]}",
                    # Looking for a cached step fails where another test removes an image in that moment.
                    nocache=True,
                    rm=True,
                    forcerm=True,
                )
                made.append(image)
            container = client.containers.create(made[2].id, labels={"crb.tests": "gc"})
            subject = build("gc-test").model_copy(update={"image_id": made[0].id})
            with store.write() as connection:
                save_build(connection, subject)
            found = image_things(store, engine)
            ours = {thing.name: thing for thing in found.things if thing.name in {image.id for image in made}}
            assert set(ours) == {image.id for image in made}
            assert f"build {subject.build_id}" == ours[made[0].id].kept_because
            assert ours[made[1].id].kept_because is None
            assert ours[made[2].id].kept_because == "a container has it"
            # Just made, so its age keeps it.
            assert made[1].id not in chosen(found)
            assert ours[made[1].id].last_used == pytest.approx(time.time(), abs=600)
            assert found.remove(made[1].id) is None
            assert found.remove(made[1].id) is None
            assert made[1].id not in {image.id for image in client.images.list()}
            container.remove(force=True)
        finally:
            for image in made:
                with contextlib.suppress(docker.errors.ImageNotFound):
                    client.images.remove(image.id, force=True)
            client.close()
            engine.close()
