"""The table of a run: name, outcome, whether it was contained, seconds, and the next trial's time over the usual one.

``python -m tests.hostile.report [pytest arguments]`` runs the attacks and prints it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["REPORT_VARIABLE", "Record", "table"]

#: Names the file that a run writes its table to.
REPORT_VARIABLE = "CRB_HOSTILE_REPORT"


@dataclass(frozen=True)
class Record:
    """One attack as it went. ``next_ratio`` is the next trial's review time over the median of the last five."""

    name: str
    outcome: str
    contained: bool
    seconds: float | None
    next_ratio: float | None


def table(records: Iterable[Record]) -> str:
    """Fixed columns, at most 80 wide."""
    lines = [f"{'attack':<30} {'outcome':<18} {'contained':<9} {'seconds':>7} {'next':>6}"]
    lines += [
        f"{each.name:<30} {each.outcome:<18} {'yes' if each.contained else 'NO':<9} {_figure(each.seconds):>7}"
        f" {_figure(each.next_ratio):>6}"
        for each in records
    ]
    return "\n".join(lines) + "\n"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main(arguments: list[str]) -> int:
    """Run the attacks; the exit status is pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.txt"
        os.environ[REPORT_VARIABLE] = str(path)
        status = pytest.main(["-q", "-m", "thorough or not thorough", str(Path(__file__).parent), *arguments])
        if path.exists():
            print(path.read_text(), end="")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
