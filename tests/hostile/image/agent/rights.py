"""Rights: what needs more of them than an agent has. Every call here would do nothing lasting if allowed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from acts import FINDINGS, OUT, PR, REPO, attack, breach, children, refused, say, write_review

_LIBC = ctypes.CDLL(None, use_errno=True)
#: What the kernel or its filter answers to somebody who lacks the right.
_DENIED = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EROFS}
#: Numbers of system calls on x86-64 and arm64.
_CALLS = {
    "x86_64": {
        "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298, "kexec_load": 246,
        "init_module": 175, "delete_module": 176, "open_by_handle_at": 304, "syslog": 103, "swapon": 167, "acct": 163,
        "settimeofday": 164, "clock_settime": 227, "iopl": 172, "quotactl": 179, "pivot_root": 155, "setns": 308,
        "unshare": 272, "userfaultfd": 323, "lookup_dcookie": 212, "fsopen": 430, "open_tree": 428, "move_mount": 429,
        "ioperm": 173, "vhangup": 153, "sethostname": 170, "mount": 165, "umount2": 166, "ptrace": 101,
    },
    "aarch64": {
        "keyctl": 219, "add_key": 217, "request_key": 218, "bpf": 280, "perf_event_open": 241, "kexec_load": 104,
        "init_module": 105, "delete_module": 106, "open_by_handle_at": 265, "syslog": 116, "swapon": 224, "acct": 89,
        "settimeofday": 170, "clock_settime": 112, "quotactl": 60, "pivot_root": 41, "setns": 268, "unshare": 97,
        "userfaultfd": 282, "fsopen": 430, "open_tree": 428, "move_mount": 429, "vhangup": 58, "sethostname": 161,
        "mount": 40, "umount2": 39, "ptrace": 117,
    },
}[platform.machine()]  # fmt: skip


def _call(name: str, *arguments: object) -> None:
    """OSError if the call is denied; other refusals count as allowed, since only the arguments were wrong."""
    if name not in _CALLS:
        raise OSError(errno.ENOSYS, name)
    ctypes.set_errno(0)
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = _LIBC.syscall(ctypes.c_long(_CALLS[name]), *words)
    error = ctypes.get_errno()
    if result == -1 and error in _DENIED:
        raise OSError(error, os.strerror(error))
    say(f"ALLOWED {name}: {result} {os.strerror(error)}")


@attack
def forbidden_calls() -> None:
    """System calls that reach the kernel's inside, each with arguments that do nothing."""
    new_user = 0x10000000
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("keyctl", (0, -3, 0)), ("add_key", (b"user", b"x", b"x", 1, -3)), ("request_key", (b"user", b"x", None, 0)),
        ("bpf", (0, None, 0)), ("perf_event_open", (None, 0, -1, -1, 0)), ("kexec_load", (0, 0, None, 0)),
        ("init_module", (None, 0, b"")), ("delete_module", (b"no_such_module", 0)), ("swapon", (b"/no/such", 0)),
        ("acct", (b"/no/such",)), ("iopl", (3,)), ("ioperm", (0x70, 1, 1)), ("quotactl", (0x800002, None, 0, None)),
        ("pivot_root", (b"/no/such", b"/no/such")), ("unshare", (new_user,)), ("unshare", (0x00020000,)),
        ("userfaultfd", (0,)), ("lookup_dcookie", (0, None, 0)), ("fsopen", (b"tmpfs", 0)),
        ("open_tree", (-100, b"/", 1)), ("move_mount", (-1, b"", -1, b"", 0)), ("vhangup", ()),
        ("sethostname", (b"owned", 5)), ("setns", (0, 0)),
    ]  # fmt: skip
    for name, arguments in calls:
        with refused(f"{name}{arguments}"):
            _call(name, *arguments)
    write_review()


@attack
def mounts() -> None:
    tmpfs, bind, remount = 0, 4096, 32 + 4096
    Path("/tmp/m").mkdir()
    for source, target, kind, flags in (
        (b"none", b"/tmp/m", b"tmpfs", tmpfs),
        (b"proc", b"/tmp/m", b"proc", tmpfs),
        (b"cgroup", b"/tmp/m", b"cgroup", tmpfs),
        (b"/", b"/tmp/m", None, bind),
        (b"none", b"/work/pr", None, remount),
        (b"none", b"/sys", None, remount),
        (b"none", b"/proc/sys", None, remount),
    ):
        with refused(f"mount {source!r} on {target!r}"):
            _call("mount", source, target, kind, flags, None)
    for target in (b"/work/pr", b"/work/out", b"/proc/kcore", b"/sys/fs/cgroup"):
        with refused(f"umount {target!r}"):
            _call("umount2", target, 2)
    with refused("writing into /work/pr"):
        (PR / "owned").write_text("x")
    write_review()


@attack
def cgroup_release_agent() -> None:
    """The way out through the program that the kernel starts when a cgroup empties: nothing here may be opened."""
    names = (
        [path for path in Path("/sys/fs/cgroup").rglob("*") if path.is_file()]
        if Path("/sys/fs/cgroup").exists()
        else []
    )
    wanted = {"release_agent", "notify_on_release", "cgroup.procs", "tasks", "memory.limit_in_bytes", "pids.max",
              "memory.max", "cpu.cfs_quota_us", "cpu.max", "devices.allow", "cgroup.kill", "cgroup.freeze"}  # fmt: skip
    tried = 0
    for path in names:
        if path.name in wanted:
            tried += 1
            with refused(f"opening {path} for writing"):
                os.close(os.open(path, os.O_WRONLY))
    for folder in {path.parent for path in names}:
        with refused(f"a cgroup in {folder}"):
            (folder / "owned").mkdir()
    say(f"{tried} files tried")
    write_review()


@attack
def kernel_switches() -> None:
    """Files that steer the host's kernel; they are opened, never written."""
    paths = [
        "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
        "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/ksm/run",
        "/proc/sys/kernel/hotplug", "/proc/sys/kernel/panic", "/proc/irq/default_smp_affinity", "/proc/bus/pci",
        "/dev/mem", "/dev/kmsg", "/dev/port", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm", "/dev/net/tun",
    ]  # fmt: skip
    for path in paths:
        with refused(f"opening {path} for writing"):
            os.close(os.open(path, os.O_WRONLY))
    for path in Path("/sys/class").glob("*/*/uevent"):
        with refused(f"opening {path} for writing"):
            os.close(os.open(path, os.O_WRONLY))
            break
    with refused("lowering the own score for the memory killer"):
        Path("/proc/self/oom_score_adj").write_text("-1000")
    write_review()


@attack
def kernel_log() -> None:
    with refused("syslog"):
        _call("syslog", 3, ctypes.create_string_buffer(4096), 4096)
    for path in ("/dev/kmsg", "/proc/kmsg"):
        with refused(f"reading {path}"):
            os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 100)
    write_review()


@attack
def setuid_program() -> None:
    """A program of root with the setuid bit, started by somebody else, and one with file capabilities."""
    for name in ("shell", "capable"):
        shutil.copy("/bin/dash", f"/tmp/{name}")
    os.chmod("/tmp/shell", 0o6755)
    every = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
    with refused("a file capability"):
        os.setxattr("/tmp/capable", "security.capability", every)

    def become() -> None:
        os.setgid(1234)
        os.setuid(1234)
        done = subprocess.run(
            ["/tmp/shell", "-p", "-c", "id -u; id -g; cat /proc/self/status"], capture_output=True, check=False
        )
        said = done.stdout.decode().split("\n")
        if "0" in said[:2]:
            breach(f"a setuid program became {said[:2]}")
        say(f"started as {said[:2]}")

    os.chmod("/tmp", 0o1777)
    for pid in children(1, become):
        os.waitpid(pid, 0)
    with refused("raising the limit on a file's size"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write_review()


@attack
def device_nodes() -> None:
    """Disks of the host by their numbers, made and opened in every place that can be written."""
    for folder in (OUT, REPO, Path("/tmp"), Path("/dev"), Path("/dev/shm")):
        for kind, major, minor in (
            (0o60000, 8, 0),
            (0o60000, 254, 0),
            (0o60000, 259, 0),
            (0o20000, 1, 1),
            (0o20000, 1, 11),
        ):
            path = folder / f"node-{major}-{minor}"
            with refused(f"making {path}"):
                os.mknod(path, kind | 0o666, os.makedev(major, minor))
    write_review()


@attack
def sockets_of_all_kinds() -> None:
    """Raw packets, and families that reach past the network namespace; nothing is sent."""
    raw, packet, bluetooth, can, tipc, rds, xdp = socket.SOCK_RAW, 17, 31, 29, 30, 21, 44
    kinds = [
        (socket.AF_INET, raw, 1), (socket.AF_INET6, raw, 58), (packet, raw, 3), (packet, socket.SOCK_DGRAM, 3),
        (bluetooth, raw, 1), (can, raw, 1), (tipc, socket.SOCK_STREAM, 0), (xdp, raw, 0),
        (rds, socket.SOCK_SEQPACKET, 0),
    ]  # fmt: skip
    for family, kind, protocol in kinds:
        with refused(f"a socket of family {family}"):
            socket.socket(family, kind, protocol).close()
    write_review()


@attack
def socket_to_the_hypervisor() -> None:
    """Network namespaces do not hold this family. It is opened, never connected."""
    vsock = 40
    try:
        socket.socket(vsock, socket.SOCK_STREAM).close()
        say("hypervisor open")
    except OSError:
        say("hypervisor closed")
    write_review()


@attack
def network() -> None:
    """Interfaces, routes and names, then the host's own listeners; they are the only addresses that are tried."""
    names = sorted(os.listdir("/sys/class/net"))
    if names != ["lo"]:
        breach(f"interfaces {names}")
    if len(Path("/proc/net/route").read_text().splitlines()) > 1:
        breach("routes")
    if any(not line.endswith("lo") for line in Path("/proc/net/ipv6_route").read_text().splitlines()):
        breach("IPv6 routes")
    for place in os.environ["RB_CONFIG_LISTENERS"].split(" "):
        host, _, port = place.rpartition(":")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind) as client:
                client.settimeout(1)
                client.connect((host, int(port)))
                client.send(b"x")
                if kind == socket.SOCK_STREAM:
                    breach(f"a connection to {place}")
    write_review()


@attack
def handles_of_the_host() -> None:
    """Opens the root of the file system under a mount by its inode, as a container escape of 2014 did."""
    for mount in (OUT, PR, REPO, Path("/etc/hostname"), Path("/etc/resolv.conf")):
        descriptor = os.open(mount, os.O_RDONLY)
        handle = struct.pack("<IiQ", 8, 1, 2)
        with refused(f"a handle below {mount}"):
            _call("open_by_handle_at", descriptor, handle, os.O_RDONLY)
    write_review()


@attack
def processes_of_others() -> None:
    """Tracing, reading and signalling processes outside by number."""
    trace = _LIBC.ptrace
    seen = 0
    for pid in (2, *range(100, 5000)):
        if os.path.exists(f"/proc/{pid}"):
            breach(f"process {pid} can be seen")
        ctypes.set_errno(0)
        if trace(0x4206, pid, 0, 0) == 0:
            breach(f"process {pid} can be traced")
        seen += 1
    for name in ("pid", "net", "mnt", "ipc", "uts"):
        with refused(f"the {name} namespace of process 1's parent"):
            os.open(f"/proc/0/ns/{name}", os.O_RDONLY)
    with refused("the tty of somebody"):
        fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x")
    say(f"{seen} tried")
    write_review()


@attack
def clocks() -> None:
    """Setting the clock (to what it shows), and files from the future and the past."""
    now = time.time()
    with refused("clock_settime"):
        time.clock_settime(time.CLOCK_REALTIME, now)
    with refused("settimeofday"):
        _call("settimeofday", struct.pack("<qq", int(now), 0), None)
    write_review()
    for path, at in ((FINDINGS, 4_000_000_000), (OUT, 0), (REPO, -1), (REPO / "src" / "app.py", 2**33)):
        os.utime(path, (at, at))


@attack
def priorities() -> None:
    """Being more important than others."""
    with refused("real-time scheduling"):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with refused("a better priority"):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    with refused("locking all memory"):
        if _LIBC.mlockall(3) != 0:
            raise OSError(ctypes.get_errno(), "mlockall")
        _LIBC.munlockall()
    write_review()


@attack
def tables_of_the_kernel() -> None:
    """Fills what the kernel counts by user: watches, pipes, asynchronous requests, queues."""
    held = []
    with contextlib.suppress(OSError):
        for _ in range(100_000):
            descriptor = _LIBC.inotify_init()
            if descriptor < 0:
                break
            held.append(descriptor)
    say(f"{len(held)} watchers")
    with contextlib.suppress(OSError):
        for _ in range(2000):
            held += os.pipe()
    for number in range(10_000):
        if _LIBC.semget(0, 250, 0o1666) < 0 or _LIBC.msgget(0, 0o1666) < 0:
            say(f"{number} queues")
            break
    write_review()


@attack
def leases() -> None:
    """A write lease makes everybody else who opens the file wait; its owner may take one without any right."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    held = 0
    for path in (PR / "diff.patch", PR / "pr.json", REPO / "src" / "app.py", REPO / ".git" / "HEAD"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            held += 1
    say(f"{held} leases")
    write_review_without_reading()
    time.sleep(2)


def write_review_without_reading() -> None:
    """As ``write_review``, but pr.json is under our own lease."""
    names = {"repo": f"https://github.com/{os.environ['RB_NWO']}", "pr_number": int(os.environ["RB_PR_NUMBER"]),
             "base": os.environ["RB_BASE"], "head": os.environ["RB_HEAD"]}  # fmt: skip
    FINDINGS.write_text(json.dumps({"pr": names, "agent": "x", "findings": []}))
