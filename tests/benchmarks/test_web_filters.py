"""The benchmark of filters: a real server, and no filter twice."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.web import filled_home
from benchmarks.web_filters import measured, new_filters


@pytest.mark.thorough
def test_figures_of_every_kind_of_request(tmp_path: Path) -> None:
    """Page, API document and page after a commit have wall and CPU time of their own."""
    figures = {
        figure.name: figure.value for figure in measured(filled_home(tmp_path, builds=2, pull_requests=3), requests=2)
    }
    for kind in ("page", "API", "page after a commit"):
        assert figures[f"{kind}, p95"] > 0
        assert figures[f"{kind}, p95 of the server's CPU time"] > 0


def test_no_filter_comes_twice() -> None:
    """Otherwise a remembered document would be measured."""
    drawn = list(islice(new_filters(random.Random(1)), 500))
    assert len(set(drawn)) == 500
