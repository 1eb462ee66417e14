"""Names of rows in tables."""

from __future__ import annotations

from crb_cli.row_names import row_names


def test_builds_of_one_agent_are_told_apart() -> None:
    """Two builds of an agent carry their ids, an agent with one build its name alone; a row may come twice."""
    rows = [("a", "b-1"), ("a", "b-2"), ("c", "b-3"), ("c", "b-3")]
    assert row_names(rows) == {"b-1": "a\nb-1", "b-2": "a\nb-2", "b-3": "c"}
