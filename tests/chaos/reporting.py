"""The table of recoveries and the seeds of random tests at the end of a run. tests/conftest.py takes these hooks in."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = [
    "PROPERTY",
    "SEED",
    "pytest_runtest_logreport",
    "pytest_terminal_summary",
    "table",
]

#: Name of the property in which a test hands on (fault, seconds).
PROPERTY = "recovered"

#: Name of the property in which a test hands on the seed of its chance.
SEED = "seed"

_recoveries: list[tuple[str, float]] = []
_seeds: list[tuple[str, int]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests measured, also those that another process ran."""
    if report.when == "teardown":
        _recoveries.extend((value[0], value[1]) for name, value in report.user_properties if name == PROPERTY)
        _seeds.extend((report.nodeid, value) for name, value in report.user_properties if name == SEED)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of recoveries."""
    if _recoveries:
        terminalreporter.section("recovery from faults")
        for line in table(_recoveries):
            terminalreporter.write_line(line)
    for test, seed in _seeds:
        terminalreporter.write_line(f"CRB_CHAOS_SEED={seed} repeats {test}")


def table(recoveries: Iterable[tuple[str, float]]) -> list[str]:
    """Lines of fault, times injected and recovered, and the seconds that recovering took."""
    by_fault: dict[str, list[float]] = {}
    for fault, seconds in recoveries:
        by_fault.setdefault(fault, []).append(seconds)
    lines = [f"{'fault':<46} {'times':>5} {'recovered':>9} {'median s':>8} {'max s':>6}"]
    for fault, seconds in by_fault.items():
        recovered = [value for value in seconds if value != float("inf")]
        median = f"{statistics.median(recovered):8.1f}" if recovered else f"{'–':>8}"
        longest = f"{max(recovered):6.1f}" if recovered else f"{'–':>6}"
        lines.append(f"{fault:<46} {len(seconds):>5} {len(recovered):>9} {median} {longest}")
    return lines
