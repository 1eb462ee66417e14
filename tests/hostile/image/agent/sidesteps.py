"""Sidesteps: past the limits and walls by ways that are easily forgotten."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gzip
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import sys
import time
from pathlib import Path

from acts import OUT, PR, REPO, attack, breach, children, refused, review, say, write, write_review

_LIBC = ctypes.CDLL(None, use_errno=True)
_IS_ARM = platform.machine() == "aarch64"


def _denied(what: str, number: int, *arguments: object) -> None:
    """A system call that must be denied for want of a right, whatever its arguments are."""
    with refused(what):
        words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        ctypes.set_errno(0)
        if _LIBC.syscall(ctypes.c_long(number), *words) == -1:
            error = ctypes.get_errno()
            if error in {errno.EPERM, errno.EACCES, errno.ENOSYS}:
                raise OSError(error, os.strerror(error))
            say(f"ALLOWED {what}: {os.strerror(error)}")


@attack
def watched_mounts() -> None:
    """Watches on what the host mounts: nobody else's changes are seen, and no whole file system can be watched.

    That its own folders are opened to be measured an agent may see.
    """
    watcher = _LIBC.inotify_init1(os.O_NONBLOCK)
    for path in (PR, PR / "diff.patch", OUT, REPO / ".git", Path("/etc/resolv.conf"), Path("/etc/hosts")):
        changes = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
        _LIBC.inotify_add_watch(watcher, bytes(path), changes)
    _denied("fanotify_init", 262 if _IS_ARM else 300, 0x4, 0)
    time.sleep(1)
    with contextlib.suppress(BlockingIOError):
        breach(f"events of others: {os.read(watcher, 4096)!r}")
    write_review()


@attack
def memory_of_files() -> None:
    """What is mapped read-only is written through /proc/self/mem; the file itself must stay as it is."""
    before = (PR / "diff.patch").read_bytes()
    with (PR / "diff.patch").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        address = int(
            next(line for line in Path("/proc/self/maps").read_text().splitlines() if "diff.patch" in line).split("-")[
                0
            ],
            16,
        )
        with contextlib.suppress(OSError), open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(b"owned")
        with refused("a shared mapping that can be written"):
            mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        del mapped
    if (PR / "diff.patch").read_bytes() != before:
        breach("the diff was changed through memory")
    write_review()


@attack
def core_dumps() -> None:
    """Memory written to disk, or handed to a program of the host."""
    with refused("raising the limit on core dumps"):
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for folder in (OUT, REPO, Path("/tmp")):

        def abort(folder: Path = folder) -> None:
            os.chdir(folder)
            os.kill(os.getpid(), signal.SIGABRT)

        for pid in children(1, abort):
            os.waitpid(pid, 0)
        for path in folder.glob("core*"):
            breach(f"a core dump {path}")
    write_review()


@attack
def access_lists() -> None:
    """Lists that deny everybody, and attributes that the kernel or the overlay believes."""
    nobody = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 0, 0xFFFFFFFF) for tag in (1, 4, 0x20))
    for root in (OUT, REPO):
        for name in ("system.posix_acl_default", "system.posix_acl_access"):
            with contextlib.suppress(OSError):
                os.setxattr(root, name, nobody)
        for name in ("trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.metacopy"):
            with refused(f"{name} on {root}"):
                os.setxattr(root, name, b"y")
        with contextlib.suppress(OSError):
            os.setxattr(root, "user.overlay.opaque", b"y")
    write_review()
    os.chmod(OUT, 0)


@attack
def whiteouts() -> None:
    """The devices by which an overlay hides files, put over every file of the checkout."""
    made = 0
    for path in [REPO / "src" / "app.py", REPO / ".git" / "HEAD", REPO / "link", REPO / "new"]:
        with contextlib.suppress(OSError):
            if os.path.lexists(path):
                path.unlink()
            os.mknod(path, 0o20000, 0)
            made += 1
    with contextlib.suppress(OSError):
        os.rename(REPO / ".git", REPO / "gone")
        os.symlink("/", REPO / ".git")
    say(f"{made} whiteouts")
    write_review()


@attack
def compressed_bomb() -> None:
    write(gzip.compress(bytes(100_000_000)))


@attack
def zero_bytes_for_findings() -> None:
    write(bytes(1_000_000))


@attack
def values_beyond_memory() -> None:
    """Small on disk, a thousand times larger once it is parsed."""
    write(b'{"pr": {"x": [' + b"{}," * 5_000_000 + b"{}]}}")


@attack
def new_namespaces() -> None:
    """Of every kind, by every call that makes one."""
    kinds = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000,
             "uts": 0x4000000, "cgroup": 0x2000000, "time": 0x80}  # fmt: skip
    for name, flag in kinds.items():
        with refused(f"unshare of {name}"):
            if _LIBC.unshare(flag) == -1:
                raise OSError(ctypes.get_errno(), "unshare")
        if name != "time":
            _denied(f"clone of {name}", 220 if _IS_ARM else 56, flag | signal.SIGCHLD, 0, 0, 0, 0)
    write_review()


@attack
def asynchronous_calls() -> None:
    """Calls that a filter of system calls does not see. With them, too, only what is allowed is done."""
    ctypes.set_errno(0)
    ring = _LIBC.syscall(425, 4, ctypes.create_string_buffer(120))
    say(f"io_uring {'open' if ring >= 0 else 'closed'}")
    write_review()


@attack
def sockets_to_the_kernel() -> None:
    """Netlink: interfaces, routes, audit, packet filters. Each request would change nothing if it were allowed."""
    for name, protocol, kind, body in (
        ("removing an interface that is not there", 0, 17, struct.pack("<BxHiII", 0, 0, 9999, 0, 0)),
        ("a route without a target", 0, 25, struct.pack("<BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 0, 0)),
        ("the audit's settings", 9, 1001, bytes(32)),
        ("a policy of IPsec", 6, 25, bytes(64)),
        ("a table of the packet filter", 12, 0xA02, struct.pack("<BBH", 2, 0, 0)),
    ):
        with refused(name), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as asked:
            asked.settimeout(2)
            asked.bind((0, 0))
            asked.send(struct.pack("<IHHII", 16 + len(body), kind, 5, 1, 0) + body)
            answer = asked.recv(4096)
            code = -struct.unpack_from("<i", answer, 16)[0] if struct.unpack_from("<H", answer, 4)[0] == 2 else 0
            if code:
                raise OSError(code, os.strerror(code))
    write_review()


@attack
def file_system_controls() -> None:
    """What holds or cuts a whole file system of the host. Here it is asked to go on, and to cut nothing."""
    thaw, trim = 0xC0045878, 0xC0185879
    for path in (OUT, PR, REPO, Path("/etc/hosts"), Path("/tmp")):
        descriptor = os.open(path, os.O_RDONLY)
        with refused(f"thawing {path}"):
            fcntl.ioctl(descriptor, thaw, 0)
        with refused(f"trimming {path}"):
            fcntl.ioctl(descriptor, trim, struct.pack("<QQQ", 0, 0, 2**62))
        os.close(descriptor)
    write_review()


@attack
def restarts_and_clocks() -> None:
    """The machine's restart with wrong numbers, the clock's speed as it is, and its hardware."""
    _denied("a restart", 142 if _IS_ARM else 169, 0, 0, 0, 0)
    state = ctypes.create_string_buffer(208)
    _LIBC.adjtimex(state)
    struct.pack_into("<I", state, 0, 0x2)
    with refused("the clock's frequency"):
        if _LIBC.adjtimex(state) == -1:
            raise OSError(ctypes.get_errno(), "adjtimex")
    for path in ("/dev/rtc", "/dev/rtc0", "/dev/ptp0", "/dev/watchdog"):
        with refused(f"opening {path}"):
            os.close(os.open(path, os.O_RDWR))
    write_review()


@attack
def forged_log() -> None:
    """Lines that look like the engine's own log, its frames, and lines of other agents."""
    say('{"log":"forged\\n","stream":"stderr","time":"2030-01-01T00:00:00Z"}')
    os.write(1, b"\2\0\0\0\0\0\0\6forged\n" + b"\1\0\0\0\xff\xff\xff\xff")
    os.write(1, b"\n")
    write_review()


@attack
def zero_bytes_on_stdout() -> None:
    """Each byte takes six in the engine's log."""
    for _ in range(160):
        os.write(1, bytes(50_000))
    write_review()
    print("the end")


@attack
def line_ends_on_stdout() -> None:
    """Each byte is an entry of the engine's log, eighty times as long."""
    for _ in range(4):
        os.write(1, b"\n" * 50_000)
    write_review()
    print("the end")


@attack
def review_after_the_end() -> None:
    """A valid review in time, and new ones for as long as anything runs."""
    write_review()
    signal.signal(signal.SIGTERM, lambda *_: write_review())
    while True:
        write(review(agent=f"late {time.monotonic()}"))
        time.sleep(0.01)


@attack
def disk_bomb_in_a_volume() -> None:
    """The image declares a volume, which is no layer and no mount of ours."""
    for number in range(300):
        (Path("/volume") / str(number)).write_bytes(b"\1" * (1024 * 1024))
        time.sleep(0.02)
    breach("300 MiB in a volume")
    time.sleep(60)


@attack
def meeting_place() -> None:
    """Whoever runs beside it is looked for where names are not files of a mount: sockets, queues, shared memory."""
    taken = []
    meeting = socket.socket(socket.AF_UNIX)
    try:
        meeting.bind("\0crb-meeting")
    except OSError:
        taken.append("an abstract socket")
    create, exclusive = 0o1000, 0o2000
    for name, make in (("shmget", (4711, 4096)), ("semget", (4711, 1)), ("msgget", (4711,))):
        if getattr(_LIBC, name)(*make, create | exclusive | 0o666) == -1 and ctypes.get_errno() == errno.EEXIST:
            taken.append(name)
    for path in ("/dev/shm/meeting", "/dev/mqueue/meeting", "/tmp/meeting", "/work/out/meeting"):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))
        except FileExistsError:
            taken.append(path)
        except OSError:
            say(f"no {path}")
    port = socket.socket()
    try:
        port.bind(("127.0.0.1", 4711))
    except OSError:
        taken.append("a port")
    for what in taken:
        breach(f"somebody else has {what}")
    time.sleep(2)
    write_review()


@attack
def stays_a_while() -> None:
    """No attack of its own: what the image says about itself is one."""
    time.sleep(3)
    write_review()
    sys.stdout.flush()
