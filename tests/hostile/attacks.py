"""Every attack by name: how it must end, and within which limits. What it does is in image/agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crb_core.agent import Outcome

__all__ = ["ATTACKS", "COUSINS", "Attack"]

_SMALL: dict[str, Any] = {
    "memory_mib": 64,
    "cpus": 1.0,
    "pids": 64,
    "timeout_seconds": 30,
    "findings_mib": 1,
    "log_mib": 1,
    "disk_mib": 16,
}


@dataclass(frozen=True)
class Attack:
    """One hostile agent. ``said`` must be in the verdict's sentence, ``printed`` in what the agent printed."""

    name: str
    outcome: Outcome
    said: str = ""
    printed: str = ""
    #: Other outcomes that are as right, where the attack races against the farm.
    or_else: tuple[Outcome, ...] = ()
    #: Whether its first lines survive the cap on logs.
    floods: bool = False
    changed_limits: dict[str, Any] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, Any]:
        return _SMALL | self.changed_limits


def _ends(name: str, outcome: Outcome, said: str = "", **limits: Any) -> Attack:
    return Attack(name, outcome, said, changed_limits=limits)


def _survives(name: str, printed: str = "", **limits: Any) -> Attack:
    """An attack whose agent ends by itself with a valid review, having reached nothing."""
    return Attack(name, Outcome.SUCCEEDED, printed=printed, changed_limits=limits)


def _invalid(name: str, said: str, **limits: Any) -> Attack:
    return _ends(name, Outcome.OUTPUT_INVALID, said, **limits)


_MISSING, _LARGE, _EXIT = Outcome.OUTPUT_MISSING, Outcome.OUTPUT_TOO_LARGE, Outcome.NONZERO_EXIT
_OOM, _TIMEOUT, _OK = Outcome.OUT_OF_MEMORY, Outcome.TIMEOUT, Outcome.SUCCEEDED
_LATE = "not done after 2 seconds"

ATTACKS: tuple[Attack, ...] = (
    # Processes
    _ends("fork-bomb", _TIMEOUT, _LATE, timeout_seconds=2, memory_mib=512),
    _survives("thread-bomb"),
    _ends("ignored-signals", _TIMEOUT, _LATE, timeout_seconds=2),
    _survives("daemons"),
    Attack("exit-before-children", _MISSING, "no findings file", floods=True),
    _ends("findings-after-exit", _MISSING, "no findings file"),
    _survives("zombie-herd"),
    _survives("signals-to-everyone"),
    _ends("stopped-for-ever", _TIMEOUT, _LATE, timeout_seconds=2),
    _ends("faked-oom", _EXIT, "exit code 137 (signal SIGKILL)"),
    _ends("crash", _EXIT, "SIGSEGV"),
    Attack("huge-environment", _OK, floods=True, changed_limits={"memory_mib": 128}),
    _ends("traced-by-each-other", _TIMEOUT, _LATE, timeout_seconds=2),
    # Memory
    _ends("memory-bomb", _OOM, "64 MiB"),
    _ends("memory-bomb-of-a-child", _OOM, "64 MiB"),
    _ends("memory-without-an-owner", _OOM, "64 MiB"),
    _ends("memory-of-the-kernel", _OOM, "64 MiB"),
    # Disk
    _ends("disk-bomb-in-out", _LARGE, "into its output folder"),
    _ends("disk-bomb-in-tmp", _EXIT, "16 MiB to disk"),
    _ends("disk-bomb-in-repo", _EXIT, "16 MiB to disk"),
    _ends("files-without-a-name", _EXIT, "16 MiB to disk"),
    _ends("files-never-named", _EXIT, "16 MiB to disk"),
    _ends("reserved-blocks", _EXIT, "16 MiB to disk"),
    _ends("sparse-terabyte", _LARGE, "1048576 bytes"),
    _ends("endless-file", _EXIT, "The agent "),
    _ends("tiny-files", _EXIT, "16 MiB to disk"),
    Attack("hard-link-herd", _LARGE, "8 MiB into its output folder", or_else=(_EXIT,), changed_limits={"disk_mib": 8}),
    _ends("extended-attributes", _EXIT, "16 MiB to disk"),
    _ends("deep-folders", _EXIT, "nested folders deeper"),
    _ends("deep-folders-in-tmp", _EXIT, "nested folders deeper"),
    _survives("strange-names"),
    _survives("locked-folders", "REFUSED file flag 0x10"),
    _survives("folders-that-turn-into-links", disk_mib=64),
    _ends("folders-that-move", _EXIT, "16 MiB to disk"),
    # Output
    Attack("gigabyte-on-stdout", _OK, printed="the end", floods=True, changed_limits={"timeout_seconds": 200}),
    Attack("endless-output", _TIMEOUT, _LATE, floods=True, changed_limits={"timeout_seconds": 2}),
    Attack("endless-line-on-stderr", _TIMEOUT, _LATE, floods=True, changed_limits={"timeout_seconds": 2}),
    _invalid("findings-link-out", "a symbolic link"),
    _invalid("findings-link-to-environment", "a symbolic link"),
    _invalid("findings-hard-link", "2 hard links"),
    _invalid("findings-fifo", "a FIFO"),
    _invalid("findings-socket", "a socket"),
    _invalid("findings-device", "a device"),
    _invalid("findings-folder", "a folder"),
    Attack("swapped-while-read", _OK, or_else=(Outcome.OUTPUT_INVALID, _MISSING)),
    _invalid("deep-json", "nested"),
    _invalid("wide-json", "is an array, not an object"),
    _ends("huge-file", _LARGE, "1048576 bytes"),
    _invalid("not-utf8", "UTF-8"),
    _invalid("utf-16", "UTF-8"),
    _invalid("lone-surrogate", "surrogate"),
    _invalid("duplicate-keys", "same key"),
    _invalid("not-a-number", "NaN"),
    _invalid("lines-beyond-numbers", "not between 1 and"),
    _invalid("number-of-many-digits", "findings.json"),
    _invalid("float-beyond-numbers", "findings[0].end_line"),
    Attack(
        "too-many-findings",
        _LARGE,
        "200000 findings",
        changed_limits={"findings_mib": 32, "memory_mib": 512, "disk_mib": 64},
    ),
    _invalid("climbing-path", "'..'"),
    _invalid("absolute-path", "absolute"),
    _invalid("zero-byte-in-path", "NUL"),
    _ends("review-of-another", Outcome.WRONG_PULL_REQUEST, "pr.pr_number is 8"),
    _survives("written-over-by-others"),
    _survives("hostile-text"),
    # Hunts
    _survives("hunt-in-files", " files"),
    _survives("hunt-in-proc"),
    _survives("hunt-above-the-mounts", "REFUSED a chroot"),
    _survives("hunt-for-sockets", "REFUSED connecting"),
    _survives("hunt-for-later-commits", "bytes of objects"),
    # Planted
    _survives("planted-git"),
    _survives("planted-code"),
    _survives("notes-for-the-next", "REFUSED removing the diff"),
    # Rights
    _survives("forbidden-calls", "REFUSED bpf"),
    _survives("mounts", "REFUSED umount"),
    _survives("cgroup-release-agent"),
    _survives("kernel-switches", "REFUSED opening /proc/sysrq-trigger"),
    _survives("kernel-log", "REFUSED syslog"),
    _survives("setuid-program", "started as ['1234', '1234']"),
    _survives("device-nodes", "REFUSED making /tmp/node-8-0"),
    _survives("sockets-of-all-kinds", "REFUSED a socket of family 17"),
    _survives("socket-to-the-hypervisor", "hypervisor "),
    _survives("network"),
    _survives("handles-of-the-host", "REFUSED a handle"),
    _survives("processes-of-others", " tried"),
    _survives("clocks", "REFUSED clock_settime"),
    _survives("priorities", "REFUSED real-time scheduling"),
    _survives("leases", " leases"),
    _survives("tables-of-the-kernel", "watchers", memory_mib=256),
    # Sidesteps
    _survives("watched-mounts", "REFUSED fanotify_init"),
    _survives("memory-of-files", "REFUSED a shared mapping"),
    _survives("core-dumps", "REFUSED raising the limit on core dumps"),
    _survives("access-lists", "REFUSED trusted.overlay.opaque"),
    _survives("whiteouts", " whiteouts"),
    _invalid("compressed-bomb", "UTF-8", memory_mib=256),
    _invalid("zero-bytes-for-findings", "findings.json"),
    _ends("values-beyond-memory", _LARGE, "values", findings_mib=32, disk_mib=64, memory_mib=128),
    _survives("new-namespaces", "REFUSED unshare of user"),
    _survives("asynchronous-calls", "io_uring "),
    _survives("sockets-to-the-kernel", "REFUSED removing an interface"),
    _survives("file-system-controls", "REFUSED thawing /work/out"),
    _survives("restarts-and-clocks", "REFUSED a restart"),
    _survives("forged-log", '{"log":"forged'),
    Attack("zero-bytes-on-stdout", _OK, printed="the end", floods=True),
    Attack("line-ends-on-stdout", _OK, printed="the end", floods=True),
    _ends("review-after-the-end", _TIMEOUT, "not done after 4 seconds", timeout_seconds=4),
    _ends("disk-bomb-in-a-volume", _EXIT, "16 MiB to disk"),
    _survives("meeting-place"),
    _survives("stays-a-while"),
)

#: Attacks that differ little from another one; `make hostile` runs them too.
COUSINS = frozenset(
    {
        "thread-bomb",
        "zombie-herd",
        "stopped-for-ever",
        "crash",
        "traced-by-each-other",
        "memory-bomb-of-a-child",
        "memory-without-an-owner",
        "memory-of-the-kernel",
        "files-never-named",
        "reserved-blocks",
        "endless-file",
        "hard-link-herd",
        "extended-attributes",
        "deep-folders",
        "deep-folders-in-tmp",
        "folders-that-move",
        "endless-line-on-stderr",
        "findings-link-to-environment",
        "wide-json",
        "utf-16",
        "lone-surrogate",
        "number-of-many-digits",
        "float-beyond-numbers",
        "absolute-path",
        "zero-byte-in-path",
        "written-over-by-others",
        "kernel-switches",
        "kernel-log",
        "handles-of-the-host",
        "priorities",
        "leases",
        "tables-of-the-kernel",
        "clocks",
        "socket-to-the-hypervisor",
        # A gigabyte takes ten seconds; endless output is more, and is ended.
        "gigabyte-on-stdout",
        "zero-bytes-for-findings",
        "asynchronous-calls",
        "restarts-and-clocks",
        "core-dumps",
        "whiteouts",
        "line-ends-on-stdout",
        "stays-a-while",
    }
)
