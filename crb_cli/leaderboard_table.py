"""The leaderboard as a table for a terminal of 80 columns.

A row takes three lines: macro mean ± sample standard deviation of the rounds, its 95% interval, and micro. A fourth
says where a macro mean stands on fewer pull requests than were scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from crb_cli.output import console, plain
from crb_cli.row_names import row_names
from crb_core.calibration_words import trust_words
from crb_core.dimensions import EVERY_PULL_REQUEST, KnownDimensions, PullRequestFilter
from crb_core.runners import NOT_ISOLATED
from crb_core.unlabelled import why_unlabelled

if TYPE_CHECKING:
    from crb_core.ablation import Exclusion
    from crb_core.distribution import AcrossRounds
    from crb_core.leaderboard import Leaderboard
    from crb_core.rows import Row
    from crb_core.store.measured import StoredSweep
    from crb_core.store.results import SweepResults

__all__ = ["dimension_words", "print_leaderboard"]

#: Metrics that the terminal shows, by protocol, with their titles; F's title gets the beta.
_SHOWN = {
    "reviewbench": {
        "grounded_precision": "prec.",
        "grounded_recall": "recall",
        "grounded_f": "F",
        "augmented_precision": "aug.prec",
        "augmented_recall": "aug.rec",
    },
    "answer-key": {"precision": "prec.", "recall": "recall", "f": "F"},
}
_MEANINGS = {
    "recorded": "replays scripted reviews, no real reviewer",
    "not isolated": NOT_ISOLATED,
    "imported": "ran elsewhere; whether the answer key is older than the trials is not recorded",
}


def print_leaderboard(
    board: Leaderboard,
    about: StoredSweep | SweepResults,
    excluded: Exclusion | None = None,
    inside: PullRequestFilter = EVERY_PULL_REQUEST,
    known: KnownDimensions | None = None,
) -> None:
    """Print a leaderboard with notes on what its figures mean."""
    console.print()
    console.print(
        Text.assemble(
            ("Leaderboard ", "bold"),
            plain(
                f"of sweep {about.sweep_name}, corpus {about.corpus}, protocol {about.protocol}, "
                f"judge {about.judge.name} ({about.judge.judge_id}, "
                f"{trust_words(about.judge.calibration, about.judge.stale)})"
            ),
        )
    )
    if board.subset.restricted:
        chosen = "; ".join(f"{axis} {', '.join(values)}" for axis, values in board.subset.to_json().items())
        console.print(plain(f"only findings of {chosen}"))
    if inside.dimensions:
        console.print(plain(f"only pull requests of {dimension_words(inside, known)}"))
    if excluded is not None:
        console.print(
            plain(
                f"without {excluded.excluded} golden findings of {', '.join(excluded.by_producer)}; "
                f"{excluded.left} are left, {len(excluded.emptied)} pull requests have none any more"
            )
        )
    for warning in board.warnings:
        console.print(Text(warning, style="yellow"))
    shown = _SHOWN[board.protocol]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("agent", overflow="fold")
    table.add_column("", no_wrap=True)
    for title in shown.values():
        table.add_column(f"F{board.beta:g}" if title == "F" else title, justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("", overflow="fold", max_width=3)
    names = row_names((row.build.agent, row.build.build_id) for row in board.rows)
    for row in board.rows:
        for line in _lines(row, names[row.build.build_id], tuple(shown)):
            table.add_row(*line)
    console.print(table)
    for note in _notes(board, about):
        console.print(note)


def dimension_words(inside: PullRequestFilter, known: KnownDimensions | None = None) -> str:
    """``language Go, Python (computed from the diffs of 4); change_type fix``."""
    computed = {} if known is None else known.computed_counts()
    return "; ".join(
        f"{name} {', '.join(values)}" + (f" (computed from the diffs of {computed[name]})" if name in computed else "")
        for name, values in inside.to_json().items()
    )


def _lines(row: Row, name: str, shown: tuple[str, ...]) -> list[tuple[Text | str, ...]]:
    headline = row.macro[row.headline]
    spent = "" if row.duration.mean_ms is None else f"{row.duration.mean_ms / 1000:.2f}"
    deviation = "" if row.duration.std_ms is None else f"±{row.duration.std_ms / 1000:.2f}"
    intervals = {} if row.intervals is None else row.intervals["macro"]
    lines: list[tuple[Text | str, ...]] = [
        (
            "-" if row.rank is None else str(row.rank),
            plain(name),
            "macro",
            *(_value(row.macro[name]) for name in shown),
            spent,
            row.letters or "",
        ),
        (
            "",
            Text(f"{headline.scored}/{headline.planned} trials", style="dim"),
            Text("95%", style="dim"),
            *(
                Text(_interval(intervals[name].low, intervals[name].high) if name in intervals else "", style="dim")
                for name in shown
            ),
            Text(deviation, style="dim"),
            "",
        ),
        ("", "", "micro", *(_value(row.micro[name]) for name in shown), "", ""),
    ]
    if any(row.n[name] != headline.scored for name in shown if row.macro[name].mean is not None):
        numbers = ["" if row.macro[name].mean is None else f"{row.n[name]}/{headline.scored}" for name in shown]
        lines.append(("", "", Text("n", style="dim"), *(Text(each, style="dim") for each in numbers), "", ""))
    return lines


def _value(value: AcrossRounds) -> Text:
    if value.mean is None:
        return Text("–", style="dim")
    deviation = "" if value.std is None else f"±{value.std:.2f}".replace("±0.", "±.")
    return Text.assemble(f"{value.mean:.2f}", (deviation, "dim"))


def _interval(low: float | None, high: float | None) -> str:
    """``.42–.71``; empty where there is no interval."""
    if low is None or high is None:
        return ""
    return "–".join(_short(bound) for bound in (low, high))


def _short(value: float) -> str:
    text = f"{value:.2f}".replace("-0.00", "0.00")
    return "1.0" if text == "1.00" else text.replace("0.", ".", 1)


def _notes(board: Leaderboard, about: StoredSweep | SweepResults) -> list[Text]:
    used = sorted({number for row in board.rows for number in row.used})
    ranked = f"Ranked by macro {board.sort}." if not board.warnings else f"Sorted by macro {board.sort}, not ranked."
    notes = [
        Text(
            f"Mean of {len(used)} round{'s' if len(used) != 1 else ''} ± sample standard deviation; "
            f"s: seconds a review. {ranked}",
            style="dim",
        )
    ]
    if board.bootstrap is not None:
        from crb_core.bootstrap import caution

        notes.append(
            Text(
                f"95%: bootstrap over pull requests ({board.bootstrap.resamples} resamples, seed "
                f"{board.bootstrap.seed}). Rows that share a letter cannot be told apart.",
                style="dim",
            )
        )
        warning = caution(board.pull_requests)
        if warning is not None:
            notes.append(Text(f"{warning}.", style="yellow"))
    if any(
        row.n[name] != row.macro[name].scored
        for row in board.rows
        for name in _SHOWN[board.protocol]
        if row.macro[name].mean is not None
    ):
        notes.append(Text("n: trials behind a macro mean; the metric is undefined in the others.", style="dim"))
    marks: dict[str, list[str]] = {}
    for row in board.rows:
        for mark in row.marks:
            marks.setdefault(mark, []).append(row.build.agent)
    for mark, agents in marks.items():
        meaning = f" ({_MEANINGS[mark]})" if mark in _MEANINGS else ""
        notes.append(Text.assemble((f"{mark}", "yellow"), f"{meaning}: ", plain(", ".join(agents))))
    unclassified = sum(row.counts.get("unclassified_count", 0) for row in board.rows)
    if unclassified:
        why = why_unlabelled(classifies=about.judge.classifies, is_council=bool(about.judge.council))
        notes.append(
            Text(
                f"–: undefined. Judge {about.judge.name} {why} {unclassified} unmatched findings, so the metrics that "
                "need their labels are undefined, not 0.",
                style="dim",
            )
        )
    return notes
