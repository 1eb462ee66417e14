"""The container contract, as an agent sees it: variables in, one findings file out.

Every path comes from a variable, so that the same agent runs in a container and without one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["CONTRACT_BROKEN", "Finding", "Job", "fail", "is_reportable", "note"]

#: Exit status when the container was started in a way that the contract does not allow.
CONTRACT_BROKEN = 2


@dataclass(frozen=True, order=True)
class Finding:
    """A remark on lines of a file: its path in the repository, first and last line (from 1, inclusive)."""

    file: str
    start_line: int
    end_line: int
    message: str


def note(message: str) -> None:
    """Say something in the agent's log."""
    print(message, file=sys.stderr, flush=True)


def fail(status: int, message: str) -> NoReturn:
    """End without a findings file, saying why: a failure must never look like a review that found nothing."""
    note(message)
    sys.exit(status)


def is_reportable(path: str) -> bool:
    """Whether the contract can carry the path: UTF-8, relative, no backslash, colon or empty, ``.``, ``..`` part."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    has_odd_character = any(character in "\\:" or ord(character) < 32 or ord(character) == 127 for character in path)
    return not has_odd_character and all(part not in {"", ".", ".."} for part in path.split("/"))


@dataclass(frozen=True)
class Job:
    """What one container is asked to review. ``diff`` is the three-dot diff's file."""

    agent: str
    nwo: str
    number: int
    base: str
    head: str
    repo: Path
    diff: Path
    pr_json: Path
    out: Path

    @classmethod
    def from_environment(cls) -> Job:
        """Read the contract's variables; a missing or impossible one ends the agent with status 2."""
        values = {}
        for name in ("AGENT", "NWO", "PR_NUMBER", "BASE", "HEAD", "REPO", "DIFF", "PR_JSON", "OUT"):
            values[name] = os.environ.get(f"RB_{name}", "")
            if not values[name]:
                fail(
                    CONTRACT_BROKEN,
                    f"RB_{name} is not set: this agent is started by a runner of the container contract",
                )
        number = values["PR_NUMBER"]
        if not (number.isascii() and number.isdigit() and len(number) < 11 and int(number) > 0):
            fail(CONTRACT_BROKEN, f"RB_PR_NUMBER is {number!r}, not a positive number")
        if not Path(values["REPO"]).is_dir():
            fail(CONTRACT_BROKEN, f"RB_REPO names {values['REPO']!r}, which is not a folder")
        for name in ("DIFF", "PR_JSON"):
            if not Path(values[name]).is_file():
                fail(CONTRACT_BROKEN, f"RB_{name} names {values[name]!r}, which is not a file")
        return cls(
            agent=values["AGENT"],
            nwo=values["NWO"],
            number=int(number),
            base=values["BASE"],
            head=values["HEAD"],
            repo=Path(values["REPO"]),
            diff=Path(values["DIFF"]),
            pr_json=Path(values["PR_JSON"]),
            out=Path(values["OUT"]),
        )

    @property
    def owner(self) -> str:
        return self.nwo.partition("/")[0]

    @property
    def name(self) -> str:
        return self.nwo.partition("/")[2]

    def setting(self, key: str, default: str) -> str:
        """A value of the manifest's configuration (``RB_CONFIG_<KEY>``), or ``default`` where it gives none."""
        return os.environ.get(f"RB_CONFIG_{key}") or default

    def number_setting(self, key: str, default: int, *, low: int, high: int) -> int:
        """A whole number of the configuration; anything else ends the agent with status 2."""
        text = self.setting(key, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            fail(CONTRACT_BROKEN, f"RB_CONFIG_{key} is {text!r}, not a whole number from {low} to {high}")
        return int(text)

    def write(self, findings: list[Finding], usage: dict[str, Any] | None = None) -> None:
        """Write the findings file under a temporary name and rename it, so that no half of it is ever read."""
        document: dict[str, Any] = {
            **self._about(),
            "findings": [
                {
                    "producer": self.agent,
                    "file": finding.file,
                    "start_line": finding.start_line,
                    "end_line": finding.end_line,
                    "message": finding.message,
                }
                for finding in findings
            ],
        }
        if usage is not None:
            document["usage"] = usage
        self._put(document)

    def write_usage(self, usage: dict[str, Any]) -> None:
        """Leave what was used so far, for the case that time runs out; without findings it is no review."""
        self._put({**self._about(), "usage": usage})

    def _about(self) -> dict[str, Any]:
        return {
            "pr": {
                "repo": f"https://github.com/{self.nwo}",
                "pr_number": self.number,
                "base": self.base,
                "head": self.head,
            },
            "agent": self.agent,
        }

    def _put(self, document: dict[str, Any]) -> None:
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        # A tool's message may quote bytes of a source file that are no text.
        data = text.encode("utf-8", "replace")
        try:
            self._replace_out(data)
        except OSError as error:
            fail(1, f"the findings file {self.out} cannot be written: {error.strerror}")

    def _replace_out(self, data: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.out.parent, prefix=f".{self.out.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes it private, but the runner may be another user.
            Path(temporary).chmod(0o644)
            Path(temporary).replace(self.out)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
