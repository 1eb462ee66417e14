"""Tests that take long: a plain run leaves them out and says so. tests/conftest.py registers the plugin."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["LeftOut"]

#: Marker: what it stands for, and the command that runs it.
MARKERS = {
    "chaos": ("a fault of full length", "make chaos"),
    "thorough": ("a long test whose subject a shorter one has too", "make test-all"),
}


class LeftOut:
    """A pytest plugin: a marker's tests run where ``-m`` names it."""

    def __init__(self, config: pytest.Config) -> None:
        asked_for = str(config.option.markexpr or "")
        self._left_out = [marker for marker in MARKERS if marker not in asked_for]
        for marker, (what, _) in MARKERS.items():
            config.addinivalue_line("markers", f"{marker}: {what}; left out unless -m names it")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept: list[pytest.Item] = []
        out: list[pytest.Item] = []
        for item in items:
            (out if any(map(item.get_closest_marker, self._left_out)) else kept).append(item)
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = kept

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for marker in self._left_out:
            what, command = MARKERS[marker]
            terminalreporter.write_line(f"Left out: tests marked {marker} ({what}); `{command}` runs them.")
