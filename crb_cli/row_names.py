"""What a table calls its rows: the agent, and its build where several builds of one agent stand in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

__all__ = ["row_names"]


def row_names(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By build id the name of its row; ``rows`` are (agent, build id). A build is named under its agent."""
    rows = list(dict.fromkeys(rows))
    builds = Counter(agent for agent, _ in rows)
    return {build: agent if builds[agent] == 1 else f"{agent}\n{build}" for agent, build in rows}
