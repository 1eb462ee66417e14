"""What the attacks share: their register, the review that a well-behaved agent writes, and how a breach is reported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPO, PR, OUT = Path("/work/repo"), Path("/work/pr"), Path("/work/out")
FINDINGS = OUT / "findings.json"

ATTACKS: dict[str, Callable[[], None]] = {}


def attack(do: Callable[[], None]) -> Callable[[], None]:
    """Registers a function under its name with hyphens; it says that it began, so that a test knows that it ran."""
    name = do.__name__.replace("_", "-")

    def run() -> None:
        say(f"BEGUN {name}")
        do()

    ATTACKS[name] = run
    return do


def say(text: str) -> None:
    print(text, flush=True)


def breach(text: str) -> None:
    """Something that no agent may be able to do was done."""
    say(f"BREACH {text}")


@contextmanager
def refused(what: str) -> Any:
    """The block must end with an error; if it does not, that is a breach."""
    try:
        yield
    except (OSError, ValueError) as error:
        say(f"REFUSED {what}: {error}")
    else:
        breach(what)


def finding(**changes: Any) -> dict[str, Any]:
    made = {"producer": "p", "file": "src/app.py", "start_line": 2, "end_line": 2, "message": "Division by zero."}
    return made | changes


def review(*findings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A valid document, with top-level values changed."""
    identity = json.loads((PR / "pr.json").read_text())
    pr = {key: identity[key] for key in ("repo", "pr_number", "base", "head")}
    return {"pr": pr, "agent": os.environ["RB_AGENT"], "findings": list(findings)} | changes


def write(document: Any) -> None:
    """Write the findings file."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    FINDINGS.write_bytes(data)


def write_review(*findings: dict[str, Any]) -> None:
    """What a well-behaved agent writes."""
    write(review(*(findings or (finding(),))))


def children(count: int, do: Callable[[], None]) -> list[int]:
    """Forks; each child does ``do`` and ends."""
    made = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                do()
            finally:
                os._exit(0)
        made.append(pid)
    return made


def daemon(do: Callable[[], None]) -> None:
    """A child of nobody in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                do()
            finally:
                os._exit(0)
        os._exit(0)


def fail(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)
