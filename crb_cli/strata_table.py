"""The leaderboard by severity, category and the protocol's other axes, as a table for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from crb_cli.output import console, plain

if TYPE_CHECKING:
    from crb_core.distribution import AcrossRounds
    from crb_core.leaderboard import Leaderboard

__all__ = ["print_strata"]

#: Agents side by side.
_ABREAST = 5


def print_strata(board: Leaderboard) -> None:
    """Precision, recall and F of every stratum by agent, macro, mean of the rounds; nothing where there is none."""
    from crb_core.protocols import protocol_named
    from crb_core.row_strata import row_strata
    from crb_core.rows import RANKINGS

    ranking, protocol = RANKINGS[board.protocol], protocol_named(board.protocol)
    metrics = (ranking.precision, ranking.recall, ranking.headline)
    order = {(axis, value): place for axis, value, place in _places(protocol.severities, protocol.categories)}
    found = [(row, row_strata(row, "macro", metrics)) for row in board.rows]
    found = [(row, strata) for row, strata in found if strata]
    names = sorted(
        {name for _, strata in found for name in strata},
        key=lambda name: (protocol.axes.index(name[0]), order.get(name, len(order)), name),
    )
    for start in range(0, len(found), _ABREAST):
        abreast = found[start : start + _ABREAST]
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("", no_wrap=True)
        for row, _ in abreast:
            table.add_column(plain(row.build.agent), justify="right", overflow="fold", max_width=12)
        axis = None
        for name in names:
            if name[0] != axis:
                axis = name[0]
                table.add_row(Text(axis.replace("_", " "), style="dim"))
            cells = [
                "" if name not in strata else "/".join(map(_short, strata[name].values())) for _, strata in abreast
            ]
            table.add_row(plain(f"  {name[1][:20]}"), *cells)
        console.print()
        console.print(table)
    if names:
        console.print(
            Text(
                f"Macro precision/recall/F{board.beta:g} of one stratum's findings, mean of the rounds; –: undefined.",
                style="dim",
            )
        )


def _places(severities: tuple[str, ...], categories: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    for axis, values in (("severity", severities), ("category", categories)):
        for place, value in enumerate(values):
            yield axis, value, place


def _short(value: AcrossRounds) -> str:
    """``.42``, ``1.0`` or a dash."""
    if value.mean is None:
        return "–"
    text = f"{value.mean:.2f}"
    return "1.0" if text == "1.00" else text.removeprefix("0")
