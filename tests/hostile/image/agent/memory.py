"""Memory: too much, by itself, by children, and where it is not at once seen."""

from __future__ import annotations

import mmap
import os
import time

from acts import attack, breach, children, fail, say

_MOST = 600 * 1024 * 1024


def _fill() -> None:
    held = []
    while len(held) * 4 * 1024 * 1024 < _MOST:
        held.append(b"x" * (4 * 1024 * 1024))
    breach("600 MiB of memory")


@attack
def memory_bomb() -> None:
    _fill()


@attack
def memory_bomb_of_a_child() -> None:
    """The child is the victim; its parent sees that and fails."""
    (pid,) = children(1, _fill)
    _, status = os.waitpid(pid, 0)
    say(f"the child ended with {os.waitstatus_to_exitcode(status)}")
    fail(137)


@attack
def memory_without_an_owner() -> None:
    """Files in memory belong to no process's resident set."""
    held = []
    while len(held) * 4 * 1024 * 1024 < _MOST:
        descriptor = os.memfd_create("bomb")
        os.write(descriptor, b"x" * (4 * 1024 * 1024))
        held.append(descriptor)
    breach("600 MiB in memory files")


@attack
def memory_of_the_kernel() -> None:
    """Full pipes and page tables, which only the kernel accounts."""
    ends = []
    for _ in range(500):
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 65536)
        except BlockingIOError:
            ends += [read, write]
    held = [mmap.mmap(-1, 2 * 1024 * 1024) for _ in range(20_000)]
    for each in held:
        each[0] = 1
    time.sleep(0.2)
    breach("page tables and pipes beyond the limit")
