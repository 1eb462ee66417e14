"""Output: streams without end, and everything that a findings file must not be."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time

from acts import FINDINGS, OUT, PR, attack, breach, children, fail, finding, refused, review, write, write_review

_LINE = b"0123456789abcde" * 64 + b"\n"


def _print(size: int) -> None:
    block = _LINE * 64
    for _ in range(size // len(block)):
        os.write(1, block)


@attack
def gigabyte_on_stdout() -> None:
    _print(10**9)
    write_review()
    print("the end")


@attack
def endless_output() -> None:
    while True:
        _print(10**8)


@attack
def endless_line_on_stderr() -> None:
    while True:
        os.write(2, b"\0\x1b<>&" * 8192)


@attack
def findings_link_out() -> None:
    FINDINGS.symlink_to("/etc/passwd")


@attack
def findings_link_to_environment() -> None:
    """Read on the host, this would be the environment of the farm."""
    FINDINGS.symlink_to("/proc/self/environ")


@attack
def findings_hard_link() -> None:
    with refused("a hard link to a shared file"):
        os.link(PR / "diff.patch", FINDINGS)
    write_review()
    os.link(FINDINGS, OUT / "second")


@attack
def findings_fifo() -> None:
    os.mkfifo(FINDINGS)


@attack
def findings_socket() -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(FINDINGS))
    listener.listen()


@attack
def findings_device() -> None:
    """The one device that needs no right to make."""
    with refused("a block device"):
        os.mknod(OUT / "disk", 0o60666, os.makedev(8, 0))
    os.mknod(FINDINGS, 0o20666, os.makedev(0, 0))


@attack
def findings_folder() -> None:
    FINDINGS.mkdir()
    (FINDINGS / "findings.json").write_bytes(b"{}")


@attack
def swapped_while_read() -> None:
    """A valid file and a link change places as fast as they can when the agent ends."""
    write_review()
    os.symlink("/etc/hostname", OUT / "link")

    def swap() -> None:
        os.chdir(OUT)
        while True:
            with contextlib.suppress(OSError):
                os.rename("findings.json", "aside")
                os.rename("link", "findings.json")
                os.rename("findings.json", "link")
                os.rename("aside", "findings.json")

    children(3, swap)
    time.sleep(0.3)
    fail(0)


@attack
def deep_json() -> None:
    write(b'{"pr": ' + b"[" * 900_000)


@attack
def wide_json() -> None:
    write(b'{"pr": [' + b"{}," * 330_000 + b"{}]}")


@attack
def huge_file() -> None:
    write(json.dumps(review(finding(message="m" * 2_000_000))).encode())


@attack
def not_utf8() -> None:
    write(json.dumps(review(finding(message="broken"))).encode().replace(b"broken", b"\xc3\x28"))


@attack
def utf_16() -> None:
    write(json.dumps(review(finding())).encode("utf-16"))


@attack
def lone_surrogate() -> None:
    write(json.dumps(review(finding(message="x"))).encode().replace(b'"x"', b'"\\udc80"'))


@attack
def duplicate_keys() -> None:
    write(json.dumps(review(finding())).encode().replace(b'"agent"', b'"findings": [], "agent"'))


@attack
def not_a_number() -> None:
    write(json.dumps(review(finding(start_line=float("nan")))).encode())


@attack
def lines_beyond_numbers() -> None:
    write(review(finding(start_line=1, end_line=10**308)))


@attack
def number_of_many_digits() -> None:
    write(json.dumps(review(finding(start_line=77))).encode().replace(b": 77,", b": " + b"7" * 900_000 + b","))


@attack
def float_beyond_numbers() -> None:
    write(json.dumps(review(finding(end_line=77))).encode().replace(b": 77,", b": 1e999999999,"))


@attack
def too_many_findings() -> None:
    write(review(*[finding()] * 200_000))


@attack
def climbing_path() -> None:
    write_review(finding(file="src/../../../../etc/passwd"))


@attack
def absolute_path() -> None:
    write_review(finding(file="/work/repo//etc/passwd"))


@attack
def zero_byte_in_path() -> None:
    write_review(finding(file="src/app.py\0.txt"))


@attack
def review_of_another() -> None:
    document = review(finding())
    document["pr"]["pr_number"] = 8
    write(document)


@attack
def written_over_by_others() -> None:
    """Children go on writing into the open file after the agent has ended."""
    write_review()
    descriptor = os.open(FINDINGS, os.O_WRONLY | os.O_APPEND)

    def append() -> None:
        time.sleep(0.5)
        while True:
            os.write(descriptor, b"x" * 65536)

    children(3, append)
    if sys.gettrace() is not None:
        breach("traced")
