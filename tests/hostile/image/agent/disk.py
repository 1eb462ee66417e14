"""Disk: too much of it, too many files, and files that hide from whoever measures."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import time
from pathlib import Path

from acts import FINDINGS, OUT, REPO, attack, breach, children, daemon, refused, say, write_review

#: Nothing here takes more of the host than this, even where no limit holds.
_MOST_MIB = 300
_MIB = b"\1" * (1024 * 1024)


def _bomb(folder: Path) -> None:
    for number in range(_MOST_MIB):
        (folder / f"bomb{number}").write_bytes(_MIB)
        time.sleep(0.02)
    breach(f"{_MOST_MIB} MiB in {folder}")
    time.sleep(60)


@attack
def disk_bomb_in_out() -> None:
    _bomb(OUT)


@attack
def disk_bomb_in_tmp() -> None:
    _bomb(Path("/tmp"))


@attack
def disk_bomb_in_repo() -> None:
    _bomb(REPO)


@attack
def files_without_a_name() -> None:
    """Open files that were removed take space, but no folder lists them."""
    held = []
    for number in range(_MOST_MIB):
        descriptor = os.open(f"/tmp/gone{number}", os.O_RDWR | os.O_CREAT)
        os.unlink(f"/tmp/gone{number}")
        os.write(descriptor, _MIB)
        held.append(descriptor)
        time.sleep(0.02)
    breach(f"{_MOST_MIB} MiB in files without a name")
    time.sleep(60)


@attack
def files_never_named() -> None:
    """O_TMPFILE on the mount that the host reads, held by a daemon, mapped and closed."""

    def hold() -> None:
        for _ in range(_MOST_MIB):
            descriptor = os.open(OUT, os.O_RDWR | os.O_TMPFILE)
            os.write(descriptor, _MIB)
            ctypes.CDLL(None).mmap(None, len(_MIB), 1, 1, descriptor, 0)
            os.close(descriptor)
            time.sleep(0.02)
        breach(f"{_MOST_MIB} MiB in files that had no name")
        time.sleep(60)

    daemon(hold)
    time.sleep(60)


@attack
def reserved_blocks() -> None:
    """Blocks beyond the end of a file escape the limit on a file's size, and are there at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open("/tmp/reserved", os.O_RDWR | os.O_CREAT)
    keep_size = 1
    if libc.fallocate(descriptor, keep_size, ctypes.c_long(0), ctypes.c_long(64 * 1024 * 1024)) != 0:
        say("cannot reserve")
    time.sleep(60)


@attack
def sparse_terabyte() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with FINDINGS.open("wb") as file:
        with refused("a sparse file of 1 TB"):
            file.truncate(10**12)
        file.truncate(8 * 1024 * 1024)


@attack
def endless_file() -> None:
    """One file grows until its limit ends the agent."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with open("/tmp/endless", "wb") as file:
        for _ in range(_MOST_MIB):
            file.write(_MIB)
    breach("a file beyond the limit")


@attack
def tiny_files() -> None:
    """Empty files take no space, but the host's inodes."""
    made = 0
    for folder in range(200):
        (REPO / f"tiny{folder}").mkdir()
        for number in range(1000):
            os.close(os.open(REPO / f"tiny{folder}" / str(number), os.O_CREAT))
            made += 1
            if made % 200 == 0:
                time.sleep(0.01)
    breach(f"{made} files")
    time.sleep(60)


@attack
def hard_link_herd() -> None:
    """Names of one file take no inode, but their folder grows."""
    (OUT / "one").write_bytes(b"1")
    made = 0
    with contextlib.suppress(OSError):
        for number in range(60_000):
            os.link(OUT / "one", OUT / f"{number:0>250}")
            made += 1
            if made % 500 == 0:
                time.sleep(0.01)
    say(f"{made} links")
    time.sleep(60)


@attack
def extended_attributes() -> None:
    for number in range(20_000):
        path = f"/tmp/attribute{number}"
        os.close(os.open(path, os.O_CREAT))
        with contextlib.suppress(OSError):
            os.setxattr(path, "user.fill", os.urandom(1500) * 2)
        if number % 100 == 0:
            time.sleep(0.01)
    breach("20,000 files with attributes")
    time.sleep(60)


def _nest(folder: Path) -> None:
    os.chdir(folder)
    for _ in range(5000):
        os.mkdir("d")
        os.chdir("d")
    time.sleep(60)


@attack
def deep_folders() -> None:
    _nest(REPO)


@attack
def deep_folders_in_tmp() -> None:
    """Here it is the engine that has to remove them."""
    _nest(Path("/tmp"))


@attack
def strange_names() -> None:
    names = [
        b"new\nline",
        b"\x1b[2J",
        b"\xff\xfe",
        b"-rf",
        b"*",
        b" ",
        b"\\",
        b"'",
        b'"',
        b"$(id)",
        b"`id`",
        b"n" * 255,
    ]
    names += ["\u202etxt.exe".encode(), "日本".encode(), b"--help", b"...", b"\x7f", b"~"]
    for root in (OUT, REPO, Path("/tmp")):
        for name in names:
            os.mkdir(os.fsencode(root) + b"/" + name)
            (root / os.fsdecode(name) / os.fsdecode(name)).write_bytes(b"x")
        os.chdir(root)
        for _ in range(12):
            os.mkdir(b"n" * 250)
            os.chdir(b"n" * 250)
            Path("file").write_bytes(b"x")
    write_review()


@attack
def locked_folders() -> None:
    """What is locked, owned by others or set immutable must still be removed."""
    for root in (OUT, REPO):
        locked = root / "locked"
        locked.mkdir()
        (locked / "file").write_bytes(b"x")
        descriptor = os.open(locked / "file", os.O_RDONLY)
        # FS_IOC_SETFLAGS with the flags for immutable and append-only.
        for flag in (0x10, 0x20):
            with refused(f"file flag {flag:#x}"):
                fcntl.ioctl(descriptor, 0x40086602, flag.to_bytes(8, "little"))
        os.chown(locked / "file", 4_000_000_000, 4_000_000_000)
        os.chown(locked, 1234, 1234)
        locked.chmod(0)
    write_review()
    OUT.chmod(0)


@attack
def folders_that_turn_into_links() -> None:
    """Whoever walks the tree by path is led out of it, into the host's own tree or in circles."""
    (OUT / "real").mkdir()
    for number in range(200):
        (OUT / "real" / str(number)).mkdir()

    def swap() -> None:
        os.chdir(OUT / "real")
        for number in range(10):
            os.symlink("/", f"../link{number}")
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for number in range(10):
                with contextlib.suppress(OSError):
                    os.rename(str(number), "../aside")
                    os.rename(f"../link{number}", str(number))
                    os.rename(str(number), f"../link{number}")
                    os.rename("../aside", str(number))

    for pid in children(2, swap):
        os.waitpid(pid, 0)
    write_review()


@attack
def folders_that_move() -> None:
    """Folders within folders change their names all the time, so that whoever follows a path finds nothing there."""
    folder = Path("/tmp/a")
    for _ in range(6):
        folder /= "a"
    folder.mkdir(parents=True)
    bomb = folder / "bomb"
    bomb.mkdir()
    held = os.open(bomb, os.O_RDONLY)

    def move(depth: int) -> None:
        os.chdir("/tmp" + "/a" * depth)
        while True:
            with contextlib.suppress(OSError):
                os.rename("a", "b")
                os.rename("b", "a")

    for depth in range(7):
        children(1, lambda depth=depth: move(depth))
    for number in range(_MOST_MIB):
        descriptor = os.open(f"bomb{number}", os.O_WRONLY | os.O_CREAT, dir_fd=held)
        os.write(descriptor, _MIB)
        os.close(descriptor)
        time.sleep(0.02)
    breach(f"{_MOST_MIB} MiB in folders that move")
    time.sleep(60)
