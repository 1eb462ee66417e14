"""The readers of the web benchmark, shortly: a real server answers all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.web import filled_home, peak_memory, read_for, served


@pytest.mark.thorough
def test_no_reader_of_fifty_gets_an_error(tmp_path: Path) -> None:
    """Each page that the benchmark asks for exists, and answers under load."""
    size = {"builds": 3, "pull_requests": 6}
    with served(filled_home(tmp_path, **size)) as (host, pid):
        reading = read_for(host, readers=50, seconds=3, **size)
        assert peak_memory(pid) > 0
    assert reading.errors == []
    assert len(reading.milliseconds) >= 50
    assert reading.bytes > 0
