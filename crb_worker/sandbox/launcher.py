"""Runs one agent as a process and leaves nothing of it behind. A program of its own: standard library only.

    python launcher.py LIFELINE REPORT FSIZE COMMAND...

It starts COMMAND in a session of its own, waits for its end or for the lifeline (a file descriptor: any byte, or its
end when the farm is killed), then kills everything that descends from it, daemons included, and writes how COMMAND
ended to REPORT: ``exit N``, ``signal N`` or ``cannot MESSAGE``. FSIZE is the largest file in bytes.

On Linux it is the reaper of orphans below it (PR_SET_CHILD_SUBREAPER), so no descendant escapes by leaving the
session. Elsewhere only the session's process group is reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Seconds to go on killing descendants that start others as fast as they die.
_SWEEP_SECONDS = 10.0


def main() -> None:
    lifeline, report, fsize = (int(word) for word in sys.argv[1:4])
    command = sys.argv[4:]
    is_linux = sys.platform == "linux"
    if is_linux:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    # A Ctrl-C in the farm's terminal is the farm's to handle; this process is in a session of its own anyway.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent = os.fork()
    if agent == 0:
        _become(command, fsize, lifeline, report, is_linux)
    for stream in (0, 1, 2):
        os.close(stream)
    status = _wait(agent, lifeline, wakeup_read)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(agent, signal.SIGKILL)
    if status is None:
        # By pid as well: the agent may not have its session yet.
        os.kill(agent, signal.SIGKILL)
        _, status = os.waitpid(agent, 0)
    _sweep(is_linux)
    code = os.waitstatus_to_exitcode(status)
    os.write(report, f"exit {code}\n".encode() if code >= 0 else f"signal {-code}\n".encode())


def _become(command: list[str], fsize: int, lifeline: int, report: int, is_linux: bool) -> None:
    """The child: give up what is the launcher's, and turn into the agent."""
    try:
        os.setsid()
        if is_linux:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for caught in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(caught, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fsize, fsize))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.set_inheritable(lifeline, False)
        os.set_inheritable(report, False)
        os.execvpe(command[0], command, os.environ)
    except OSError as error:
        os.write(report, f"cannot {error.strerror}: {error.filename or command[0]}\n".encode())
        os._exit(127)


def _wait(agent: int, lifeline: int, wakeup: int) -> int | None:
    """The agent's wait status, or None where the lifeline ended first."""
    while True:
        done, status = os.waitpid(agent, os.WNOHANG)
        if done:
            return status
        ready, _, _ = select.select([lifeline, wakeup], [], [])
        if lifeline in ready:
            return None
        os.read(wakeup, 4096)


def _sweep(is_linux: bool) -> None:
    """Kill and collect every descendant: the children of one that dies become children of this process."""
    until = time.monotonic() + _SWEEP_SECONDS
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if not is_linux:
            return
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _children() -> list[int]:
    """Pids whose parent is this process."""
    # Imported here: it costs a third of this program's start, which most agents never need.
    from pathlib import Path

    me = os.getpid()
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/self/task/{me}/children").read_text().split()]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == me:
                    found.append(int(entry.name))
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
