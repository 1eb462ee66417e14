"""Duplicates among goldens: connected components, who survives, what is audited (rule 23)."""

from __future__ import annotations

from typing import Any

from crb_core.duplicates import components, resolve_duplicates
from crb_core.finding import GoldenFinding


def golden(message: str, producer: str, provenance: str | None, **axes: Any) -> GoldenFinding:
    label = {"tp_fp": "tp", **axes, "provenance": {"tp_fp": provenance} if provenance else {}}
    return GoldenFinding.model_validate(
        {"file": "a.py", "start_line": 1, "end_line": 1, "message": message, "producer": producer, "label": label}
    )


def test_components_join_chains() -> None:
    """A chain of links is one group, whatever their order and direction; the rest stay alone."""
    assert components(6, [(4, 2), (0, 4), (5, 3)]) == ((0, 2, 4), (1,), (3, 5))
    assert components(2, []) == ((0,), (1,))


def test_the_earliest_human_reviewed_one_stays() -> None:
    """A later finding that people reviewed stands before an earlier one that only a classifier labelled."""
    goldens = [
        golden("one", "tool", "j-000000000001"),
        golden("two", "people", "human-corrected"),
        golden("three", "people", "human"),
    ]
    (group,) = resolve_duplicates("pr", goldens, [(2, 1, 0)])
    assert (group.survivor, group.dropped, group.producers) == (1, (0, 2), ("tool", "people"))
    (group,) = resolve_duplicates("pr", [goldens[0], golden("four", "tool", None)], [(0, 1)])
    assert group.survivor == 0


def test_different_labels_go_to_audit() -> None:
    """Every axis on which the group disagrees is named with who says what; equal and absent ones are not."""
    goldens = [
        golden("one", "a", "human", severity="high", category="security"),
        golden("two", "b", "human", tp_fp="fp", severity="high"),
    ]
    (group,) = resolve_duplicates("pr", goldens, [(0, 1)])
    assert [(each.axis, list(each.answers.values())) for each in group.conflicts] == [("tp_fp", ["tp", "fp"])]
