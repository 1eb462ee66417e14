"""Processes: too many, too long, in the wrong order."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from acts import OUT, PR, REPO, attack, breach, children, daemon, fail, say, write_review


@attack
def calm() -> None:
    """No attack: says everything that it finds in its world, so that any trace of an earlier trial shows."""
    for root in (REPO, PR, OUT, "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"):
        for folder, names, files in sorted(os.walk(root)):
            names.sort()
            if ".git" in names:
                names.remove(".git")
            say(f"{folder} {names} {[(name, os.lstat(os.path.join(folder, name)).st_size) for name in sorted(files)]}")
    for command in (["status", "--short"], ["rev-list", "--all", "HEAD"], ["config", "--list", "--local"]):
        done = subprocess.run(["git", "-C", REPO, *command], capture_output=True, check=False)
        say(f"git {command} {done.returncode} {done.stdout!r} {done.stderr!r}")
    shared = Path("/proc/sysvipc/shm").read_text().splitlines()
    say(f"shared memory {len(shared)}, processes {len(_pids())}")
    say((PR / "diff.patch").read_text())
    write_review()


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


@attack
def fork_bomb() -> None:
    while True:
        with contextlib.suppress(OSError):
            os.fork()


@attack
def thread_bomb() -> None:
    made = 0
    with contextlib.suppress(RuntimeError):
        while made < 100_000:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            made += 1
    if made > 1000:
        breach(f"{made} threads")
    write_review()
    fail(0)


@attack
def ignored_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    write_review()
    while True:
        time.sleep(60)


@attack
def daemons() -> None:
    for _ in range(5):
        daemon(lambda: time.sleep(3600))
    write_review()


@attack
def exit_before_children() -> None:
    def scribble() -> None:
        while True:
            with open(OUT / "late", "ab") as file:
                file.write(b"late\n")
            say("late")

    children(5, scribble)
    time.sleep(0.2)
    fail(0)


@attack
def findings_after_exit() -> None:
    def late() -> None:
        time.sleep(0.3)
        write_review()

    daemon(late)
    fail(0)


@attack
def zombie_herd() -> None:
    with contextlib.suppress(OSError):
        for _ in range(100_000):
            if os.fork() == 0:
                os._exit(0)
    write_review()


@attack
def signals_to_everyone() -> None:
    def strike() -> None:
        os.setsid()
        for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM):
            for victim in (1, -1, os.getppid()):
                with contextlib.suppress(OSError):
                    os.kill(victim, number)
        for victim in range(2, 70_000):
            with contextlib.suppress(OSError):
                if victim != os.getpid():
                    os.kill(victim, signal.SIGKILL)

    for pid in children(1, strike):
        os.waitpid(pid, 0)
    write_review()


@attack
def stopped_for_ever() -> None:
    for pid in children(3, lambda: os.kill(os.getpid(), signal.SIGSTOP)):
        os.waitpid(pid, 0)


@attack
def faked_oom() -> None:
    write_review()
    fail(137)


@attack
def crash() -> None:
    write_review()
    say("crashing")
    ctypes.string_at(0)


@attack
def huge_environment() -> None:
    """Prints an environment of a megabyte, many times."""
    environment = dict(os.environ) | {f"FILL_{number}": "A" * 100_000 for number in range(10)}
    for _ in range(10):
        subprocess.run(["env"], env=environment, stdout=sys.stdout, check=True)
    write_review()


@attack
def traced_by_each_other() -> None:
    """Processes that trace each other, one of them the first, and stop: they must die all the same."""
    trace, seize = ctypes.CDLL(None, use_errno=True).ptrace, 0x4206

    def hold() -> None:
        trace(seize, 1, 0, 0x00100000)
        trace(16, os.getppid(), 0, 0)
        time.sleep(3600)

    children(3, hold)
    write_review()
    time.sleep(3600)
