"""A leaderboard row by severity, category and other axes, across the rounds that it uses (seed A 7.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from crb_core.distribution import AcrossRounds, RoundValue, across_rounds

if TYPE_CHECKING:
    from crb_core.rows import Row, RowRound

__all__ = ["row_strata", "strata_json"]


def row_strata(
    row: Row, level: Literal["macro", "micro"], metrics: Sequence[str]
) -> dict[tuple[str, str], dict[str, AcrossRounds]]:
    """By axis and value, of the strata that a used round has, each metric across the used rounds.

    A stratum that one of them lacks has no mean there, as any metric that is undefined in a round.
    """
    used = _used(row)
    return {
        name: {
            metric: across_rounds(
                [
                    RoundValue(
                        number=each.number,
                        value=each.value(level, metric, place),
                        scored=each.scored,
                        planned=each.planned,
                    )
                    for each in used
                ],
                allow_partial=True,
            )
            for metric in metrics
        }
        for name, place in _places(row).items()
    }


def strata_json(row: Row) -> list[dict[str, Any]]:
    """Every stratum with all metrics, macro and micro, and its counts over the used rounds."""
    metrics, places, used = tuple(row.macro), _places(row), _used(row)
    macro, micro = (row_strata(row, level, metrics) for level in ("macro", "micro"))
    groups = list(row.used_groups.values())
    return [
        {
            "axis": name[0],
            "value": name[1],
            "macro": {
                metric: value.to_json() | {"n": sum(each.n(metric, places[name]) for each in used)}
                for metric, value in macro[name].items()
            },
            "micro": {metric: value.to_json() for metric, value in micro[name].items()},
            "counts": {
                count: int(total[places[name], groups].sum()) for count, total in row.rounds[0].scores.total.items()
            },
        }
        for name in sorted(macro)
    ]


def _used(row: Row) -> list[RowRound]:
    return [each for each in row.rounds if each.number in row.used]


def _places(row: Row) -> dict[tuple[str, str], int]:
    """By axis and value the place in the scores, of the strata that some used round has."""
    groups = list(row.used_groups.values())
    if not groups:
        return {}
    counted = row.rounds[0].scores.counted
    return {name: place for place, name in enumerate(counted.levels, start=1) if counted.exists[place, groups].any()}
