"""Hunts: for the golden set, other trials, later commits, and what the host has."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from acts import OUT, PR, REPO, attack, breach, refused, say, write_review

_MAX_FILE = 4 * 1024 * 1024


def _wanted() -> bytes:
    """The word that is hidden outside; it comes backwards, so that it does not find itself."""
    return os.environ["RB_CONFIG_HUNT"][::-1].encode()


def _files(root: str, *without: str) -> Iterator[str]:
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if os.path.join(folder, name) not in without]
        for name in files:
            yield os.path.join(folder, name)


@attack
def hunt_in_files() -> None:
    """The golden set, other trials, the farm's home: any file that holds the word."""
    seen = 0
    for path in _files("/", "/proc", "/sys", "/usr/lib", "/usr/share"):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.lstat(path).st_mode) and os.path.getsize(path) <= _MAX_FILE:
                seen += 1
                if _wanted() in Path(path).read_bytes():
                    breach(f"the word in {path}")
    say(f"{seen} files")
    write_review()


@attack
def hunt_in_proc() -> None:
    """Other processes, their environment and files, and the host's mounts by their paths on the host."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) not in {1, os.getpid()}:
            breach(f"process {path.name}: {(path / 'cmdline').read_bytes()!r}")
        for name in ("environ", "cmdline", "maps"):
            with contextlib.suppress(OSError):
                if _wanted() in (path / name).read_bytes():
                    breach(f"the word in {path / name}")
    for root in ("/proc/1/root", "/proc/self/root", "/proc/1/cwd"):
        if not Path(root, "agent").exists() and root != "/proc/1/cwd":
            breach(f"{root} is another tree")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        for word in [fields[3], *fields[-1].split(",")]:
            path = word.rpartition("=")[2]
            ours = path.count("/") <= 2 or path.startswith(("/docker/", "/proc", "/sys", "/dev"))
            if not ours and os.path.exists(path):
                breach(f"the host's path {path}")
    for name in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats"):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            if file.read(16):
                breach(f"{name} can be read")
    write_review()


@attack
def hunt_above_the_mounts() -> None:
    """Up from each mount, by path, by descriptor, and by a handle to the root of the mounted file system."""
    for root in (REPO, PR, OUT):
        descriptor = os.open(root, os.O_RDONLY)
        os.fchdir(descriptor)
        for _ in range(8):
            os.chdir("..")
        here, root_ = os.stat("."), os.stat("/")
        if (here.st_dev, here.st_ino) != (root_.st_dev, root_.st_ino):
            breach(f"above {root}")
    with refused("a chroot, the way out of another one"):
        os.chroot("/tmp")
    write_review()


@attack
def hunt_for_sockets() -> None:
    """The engine's socket, any other, and abstract ones of the host."""
    paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/docker/containerd"]
    paths += [path for path in _files("/", "/proc", "/sys") if stat.S_ISSOCK(os.lstat(path).st_mode)]
    for path in [*paths, "\0" + os.environ["RB_CONFIG_ABSTRACT"]]:
        with refused(f"connecting to {path!r}"), socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
    if os.environ["RB_CONFIG_ABSTRACT"] in Path("/proc/net/unix").read_text():
        breach("the host's abstract sockets can be seen")
    write_review()


@attack
def hunt_for_later_commits() -> None:
    """Every object, reflog, pack, alternate, ref and remote that a checkout can hide."""
    later = os.environ["RB_CONFIG_LATER"][::-1]

    def git(*words: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(["git", "-C", REPO, *words], input=stdin, capture_output=True, check=False)
        return done.stdout + done.stderr

    objects = git("cat-file", "--batch-all-objects", "--batch", "--unordered")
    looks = {
        "objects": objects,
        "unreachable": git("fsck", "--full", "--unreachable", "--lost-found", "--no-reflogs"),
        "refs": git("for-each-ref") + git("log", "--all", "-p") + git("log", "-g", "--all") + git("stash", "list"),
        "remotes": git("remote", "-v") + git("config", "--list"),
        "notes": git("notes", "list") + git("worktree", "list") + git("bundle", "create", "-", "--all"),
    }
    for name, found in looks.items():
        if _wanted() in found or later.encode() in found:
            breach(f"the later commit in {name}")
    if git("cat-file", "-t", later, stdin=b"").startswith(b"commit"):
        breach("the later commit itself")
    for name in ("objects/info/alternates", "objects/info/http-alternates", "packed-refs", "FETCH_HEAD", "ORIG_HEAD"):
        if (REPO / ".git" / name).exists():
            breach(f"{name} exists")
    for path in (REPO / ".git" / "logs").rglob("*"):
        breach(f"a reflog {path}")
    for path in (REPO / ".git").rglob("*"):
        if path.is_symlink():
            breach(f"a link {path}")
    say(f"{len(objects)} bytes of objects")
    write_review()
