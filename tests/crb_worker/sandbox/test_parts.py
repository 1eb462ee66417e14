"""The small parts of the sandbox that need no agent."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path

import pytest
import requests
import urllib3

from crb_core.agent import Outcome
from crb_worker.sandbox.control import Control, Stop
from crb_worker.sandbox.disk import DiskWatch
from crb_worker.sandbox.egress_parts import Subnets
from crb_worker.sandbox.engine_failures import is_read_timeout
from crb_worker.sandbox.engine_formats import engine_milliseconds
from crb_worker.sandbox.folder import TooDeepError, copy_tree, disk_usage, remove_tree
from crb_worker.sandbox.images import repository_of
from crb_worker.sandbox.logs import Tail, may_have_lost_lines
from crb_worker.sandbox.nameless import device, nameless_bytes, process_tree


class TestControl:
    def test_first_stop_decides(self) -> None:
        """Later stops kill again, but do not change the reason."""
        kills: list[int] = []
        control = Control()
        control.stop(Outcome.LOST, "lost")
        control.arm(lambda: kills.append(1))
        control.stop(Outcome.CANCELLED, "cancelled")
        control.disarm()
        control.stop(Outcome.CANCELLED, "cancelled")
        assert control.stopped is not None
        assert (control.stopped.outcome, len(kills)) == (Outcome.LOST, 2)

    def test_kills_whenever_the_stop_comes(self) -> None:
        """However arming and stopping interleave, what runs is killed."""
        for _ in range(200):
            killed = threading.Event()
            control = Control()
            thread = threading.Thread(target=control.stop, args=(Outcome.CANCELLED, "x"))
            thread.start()
            control.arm(killed.set)
            thread.join()
            assert killed.is_set()


class TestTail:
    def test_keeps_the_end(self) -> None:
        """Whatever the pieces are."""
        for size in (1, 3, 7, 100):
            tail = Tail(10)
            text = bytes(range(40))
            tail.extend(text[i : i + size] for i in range(0, 40, size))
            assert (tail.data(), tail.truncated, tail.total) == (text[-10:], True, 40)

    def test_is_whole_up_to_the_cap(self) -> None:
        """Exactly the cap is not truncated."""
        tail = Tail(4)
        tail.extend([b"ab", b"cd"])
        assert (tail.data(), tail.truncated) == (b"abcd", False)

    @pytest.mark.parametrize(("data", "lost"), [(b"x" * 100, False), (b"\n" * 70_000, True), (b"\x01" * 900_000, True)])
    def test_knows_when_the_driver_may_have_dropped_lines(self, data: bytes, lost: bool) -> None:
        """Short lines and control characters fill the driver's files faster than text."""
        assert may_have_lost_lines([data, b""], 1024 * 1024) is lost

    def test_a_stream_of_single_bytes_takes_no_more_room(self) -> None:
        """An agent decides how large the pieces are; forty bytes of the worker's memory for each would be a way in."""
        tail = Tail(50_000)
        tracemalloc.start()
        try:
            tail.extend(b"\n" for _ in range(60_000))
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert tail.data() == b"\n" * 50_000
        assert used < 500_000


class TestFolder:
    def test_measures_what_is_on_disk(self, tmp_path: Path) -> None:
        """Holes are free, hard links count once, links are not followed."""
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "full").write_bytes(os.urandom(100_000))
        os.link(tmp_path / "a" / "full", tmp_path / "a" / "again")
        with (tmp_path / "a" / "sparse").open("wb") as file:
            file.truncate(10**9)
        (tmp_path / "b").write_bytes(os.urandom(500_000))
        (tmp_path / "a" / "link").symlink_to(tmp_path / "b")
        (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
        assert 100_000 <= disk_usage(tmp_path / "a", limit=10**12) < 150_000

    def test_charges_every_entry_and_the_folder_itself(self, tmp_path: Path) -> None:
        """Empty files and long names are not free: a host has one inode for some KiB, and folders grow."""
        (tmp_path / "a").mkdir()
        for number in range(500):
            (tmp_path / "a" / f"{number:0>200}").touch()
        grown = (tmp_path / "a").stat().st_blocks * 512
        assert disk_usage(tmp_path / "a", limit=10**12) == 500 * 4096 + grown

    @pytest.mark.parametrize(
        "swap", [lambda below, other: below.symlink_to(other), lambda below, other: other.rename(below)]
    )
    def test_does_not_follow_what_took_a_folders_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path, Path], object]
    ) -> None:
        """A folder that turns into a link, or into another folder, after it was listed leads nowhere."""
        below, other = tmp_path / "inside" / "below", tmp_path / "other"
        below.mkdir(parents=True)
        other.mkdir()
        (other / "large").write_bytes(os.urandom(1_000_000))
        really_open = os.open

        def opened_late(path: str, flags: int) -> int:
            if path == str(below):
                below.rmdir()
                swap(below, other)
            return really_open(path, flags)

        monkeypatch.setattr(os, "open", opened_late)
        assert disk_usage(tmp_path / "inside", limit=10**12) < 100_000
        assert (below / "large").exists()

    @pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show the open files of a process")
    def test_sees_files_without_a_name(self, tmp_path: Path) -> None:
        """Open or only mapped, once each, on the named devices only, and none that still has a name or is a pipe."""
        (tmp_path / "named").write_bytes(os.urandom(1_000_000))
        program = """
        import mmap, os, sys
        held = [open(sys.argv[1] + '/named', 'rb')]
        for size in (100_000, 200_000):
            file = open(sys.argv[1] + '/gone', 'w+b')
            os.unlink(file.name)
            file.write(os.urandom(size)); file.flush()
            held += [mmap.mmap(file.fileno(), 4096), os.dup(file.fileno())]
        os.close(held[-1])
        file.close()
        memory = os.memfd_create('x'); os.write(memory, b'x' * 5_000_000)
        print('ready', flush=True)
        sys.stdin.read()
        """
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"ready\n"
            found = nameless_bytes(process_tree(child.pid), {device(tmp_path)})
            elsewhere = nameless_bytes(process_tree(child.pid), {-1})
        finally:
            child.communicate()
        assert 300_000 <= found < 350_000
        assert elsewhere == 0
        assert process_tree(child.pid) == []

    def test_refuses_and_removes_depth_without_end(self, tmp_path: Path) -> None:
        """Deeper than a path can say: not measured, but removed."""
        root = tmp_path / "deep"
        root.mkdir()
        here = os.open(root, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        with pytest.raises(TooDeepError):
            disk_usage(root, limit=10**12)
        assert remove_tree(root)
        assert not root.exists()

    def test_removes_links_not_what_they_lead_to(self, tmp_path: Path) -> None:
        """A link to a folder of the farm is only a link."""
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "file").write_text("x")
        (tmp_path / "gone").mkdir()
        (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
        assert remove_tree(tmp_path / "gone")
        assert remove_tree(tmp_path / "gone")
        assert (tmp_path / "kept" / "file").read_text() == "x"

    def test_removes_the_rest_of_what_another_removes_as_well(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file that vanishes in between is no sign that nothing is left."""
        for name in ("a", "b", "c"):
            (tmp_path / "gone" / name).mkdir(parents=True)
            (tmp_path / "gone" / name / "file").write_text("x")
        really_unlink = os.unlink

        def removed_by_another(path: str, *, dir_fd: int | None = None) -> None:
            really_unlink(path, dir_fd=dir_fd)
            really_unlink(path, dir_fd=dir_fd)

        monkeypatch.setattr(os, "unlink", removed_by_another)
        assert remove_tree(tmp_path / "gone")
        assert not (tmp_path / "gone").exists()

    def test_asks_again_for_folders_that_the_engine_did_not_name(self, tmp_path: Path) -> None:
        """Else an engine that is away for a moment would free an agent of its limit."""
        (tmp_path / "out").mkdir()
        (tmp_path / "layer").mkdir()
        (tmp_path / "layer" / "bomb").write_bytes(os.urandom(2_000_000))
        answers: list[list[Path] | None] = [None, [tmp_path / "layer"]]
        watch = DiskWatch(1, tmp_path / "out", [], more=lambda: answers.pop(0))
        stops: list[Stop | None] = []
        while len(stops) < 2:
            time.sleep(watch.seconds_to_next())
            stops.append(watch.check())
        assert stops[0] is None
        assert stops[1] is not None
        assert stops[1].outcome is Outcome.NONZERO_EXIT

    def test_copies_without_hard_links(self, tmp_path: Path) -> None:
        """The copy shares no inode with the cache, and keeps modes and links."""
        source, target = tmp_path / "source", tmp_path / "target"
        source.mkdir()
        target.mkdir()
        (source / "run").write_text("x")
        (source / "run").chmod(0o777)
        (source / "link").symlink_to("run")
        copy_tree(source, target)
        assert (target / "run").stat().st_mode == (source / "run").stat().st_mode
        assert (target / "run").stat().st_ino != (source / "run").stat().st_ino
        assert os.readlink(target / "link") == "run"


class TestEngineFacts:
    @pytest.mark.parametrize(
        ("started", "finished", "milliseconds"),
        [
            ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:06.123456789Z", 623.456789),
            ("2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00", 0.0),
            ("2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", None),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:04Z", None),
            (None, "", None),
            ("yesterday", "today", None),
        ],
    )
    def test_reads_the_engines_times(
        self, started: str | None, finished: str | None, milliseconds: float | None
    ) -> None:
        """Nanoseconds and offsets; no time, or an end before the start, is no measurement."""
        assert engine_milliseconds(started, finished) == milliseconds

    def test_tells_patience_from_a_broken_engine(self) -> None:
        """The SDK reports both as the same error."""
        pool = urllib3.HTTPConnectionPool("x")
        timeout = urllib3.exceptions.ReadTimeoutError(pool, "/", "timed out")
        assert is_read_timeout(requests.ConnectionError(timeout))
        assert is_read_timeout(requests.ReadTimeout())
        assert not is_read_timeout(requests.ConnectionError("refused"))
        assert not is_read_timeout(OSError())

    @pytest.mark.parametrize(
        ("reference", "repository"),
        [
            ("a", "a"),
            ("a:1", "a"),
            ("host:5000/a/b:1", "host:5000/a/b"),
            ("host:5000/a", "host:5000/a"),
            ("ghcr.io/a/b:1@sha256:00", "ghcr.io/a/b"),
        ],
    )
    def test_splits_references(self, reference: str, repository: str) -> None:
        """A port is not a tag."""
        assert repository_of(reference) == repository


@pytest.mark.parametrize(
    ("networks", "left"),
    [
        ((), 4),
        (("10.9.0.8/29",), 3),
        (("10.9.0.0/30", "10.9.0.4/30", "10.9.0.9/32"), 2),
        (("10.9.0.0/28",), 2),
        (("10.0.0.0/8",), 0),
        (("10.9.1.0/24", "fd00::/64", "", "nonsense"), 4),
    ],
)
def test_subnets_that_networks_of_others_leave(networks: tuple[str, ...], left: int) -> None:
    """A subnet that is touched in part is not left, and counts once."""
    assert Subnets(IPv4Network("10.9.0.0/27")).left_by(networks) == left
