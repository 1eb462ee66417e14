"""``crb leaderboard --side-by-side``: precision, recall and F of every agent under several judges, in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from crb_cli.judge_calibrate import figure
from crb_cli.output import console, plain, print_json
from crb_cli.row_names import row_names
from crb_core.calibration_words import calibration_words

if TYPE_CHECKING:
    from crb_core.leaderboard import Leaderboard
    from crb_core.store.results import StoredJudge

__all__ = ["FORMAT", "board_rows", "comment_rows", "side_by_side"]

FORMAT = "crb.side-by-side/1"
_RATIOS = ("precision", "recall", "f")
#: Judges in one table of 80 columns.
_BESIDE = 3


def board_rows(board: Leaderboard) -> list[dict[str, Any]]:
    """One record a build: rank and the headline ratios, macro, as the leaderboard has them."""
    from crb_core.rows import RANKINGS

    ranking = RANKINGS[board.protocol]
    names = {"precision": ranking.precision, "recall": ranking.recall, "f": ranking.headline}
    return [
        {
            "agent": row.build.agent,
            "build": row.build.build_id,
            "rank": row.rank,
            **{name: row.macro[metric].mean for name, metric in names.items()},
        }
        for row in board.rows
    ]


def comment_rows(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The same of golden-comments: micro, as the benchmark counts."""
    return [
        {
            "agent": row.build.agent,
            "build": row.build.build_id,
            "rank": row.rank,
            **{name: row.figures[name] for name in _RATIOS},
        }
        for row in rows
    ]


def side_by_side(
    sweep_id: str,
    protocol: str,
    judged: Sequence[tuple[StoredJudge, Sequence[Mapping[str, Any]]]],
    *,
    beta: float,
    filters: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Print the rows of every judge beside each other, or as ``crb.side-by-side/1``."""
    lines = _lines(judged)
    if as_json:
        print_json(
            {
                "format": FORMAT,
                "sweep_id": sweep_id,
                "protocol": protocol,
                "beta": beta,
                "filters": dict(filters),
                "judges": [
                    {
                        "name": judge.name,
                        "fingerprint": judge.judge_id,
                        "classifies": judge.classifies,
                        "calibration": judge.calibration,
                    }
                    for judge, _ in judged
                ],
                "rows": lines,
            }
        )
        return
    for start in range(0, len(judged), _BESIDE):
        _print(lines, [judge for judge, _ in judged[start : start + _BESIDE]])
    console.print(
        Text(f"Precision, recall, F{beta:g} and rank under each judge; –: undefined or no score.", style="dim")
    )
    for judge, _ in judged:
        console.print(plain(f"{judge.name} ({judge.judge_id}): {calibration_words(judge.calibration)}"), style="dim")


def _lines(judged: Sequence[tuple[StoredJudge, Sequence[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """A line a build; a line an agent where no judge has two builds of one, as with imported judges."""
    by_agent = all(len({row["agent"] for row in rows}) == len(rows) for _, rows in judged)
    lines: dict[str, dict[str, Any]] = {}
    for judge, rows in judged:
        for row in rows:
            line = lines.setdefault(
                row["agent"] if by_agent else row["build"], {"agent": row["agent"], "builds": [], "by_judge": {}}
            )
            if row["build"] not in line["builds"]:
                line["builds"].append(row["build"])
            line["by_judge"][judge.judge_id] = {name: row[name] for name in ("rank", *_RATIOS)}
    return list(lines.values())


def _print(lines: Sequence[Mapping[str, Any]], judges: Sequence[StoredJudge]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("agent", overflow="fold", max_width=16)
    for place, judge in enumerate(judges):
        # The name stands over four narrow columns.
        table.add_column(
            Text.assemble(plain(judge.name), "\n  P    R    F    #"),
            justify="left",
            overflow="fold",
            header_style="" if place else "bold",
            max_width=20,
        )
    names = row_names((line["agent"], " ".join(line["builds"])) for line in lines)
    for line in lines:
        name = names[" ".join(line["builds"])]
        table.add_row(plain(name), *(_cell(line["by_judge"].get(judge.judge_id)) for judge in judges))
    console.print(table)
    console.print()


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    rank = "–" if row["rank"] is None else str(row["rank"])
    return " ".join([*(f"{figure(row[name]):>4}" for name in _RATIOS), f"{rank:>2}"])
