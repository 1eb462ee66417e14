"""The picture of a running sweep in the terminal: 80 columns, colour never the only signal, ASCII where that is all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crb_cli.output import plain, wrapped
from crb_core.time_words import time_text
from crb_scheduler.progress import SweepCounts, SweepProgress, TrialState
from crb_scheduler.progress_parts import STATE_GLYPHS, HeatMapRow, RunningTrial, WorkerState

__all__ = ["Canvas", "counts_table", "failure_lines", "one_line", "picture"]

#: Colour of each state; the letters and shades say the same without it.
_STYLES = {
    TrialState.WAITING: "dim",
    TrialState.REVIEWING: "cyan",
    TrialState.JUDGING: "blue",
    TrialState.SCORED: "green",
    TrialState.FAILED: "bold red",
    TrialState.JUDGE_FAILED: "bold magenta",
    TrialState.CANCELLED: "yellow",
}
_ALWAYS_SHOWN = {TrialState.WAITING, TrialState.REVIEWING, TrialState.JUDGING, TrialState.SCORED}
_ENDED = {TrialState.SCORED, TrialState.FAILED, TrialState.JUDGE_FAILED, TrialState.CANCELLED}
_ASCII_GLYPHS = STATE_GLYPHS | {TrialState.WAITING: ".", TrialState.SCORED: "#"}
#: A cell of several trials, by the share of them that has ended: under a third, under two thirds, under all.
_SHADES, _ASCII_SHADES = "░▒▓", "-=+"
#: Lines that the picture takes beside the heat map, the running trials, failures and workers.
_FIXED_LINES = 9
_LONGEST_NAME = 18
_LOW_TERMINAL = 40


@dataclass(frozen=True, kw_only=True)
class Canvas:
    """Where the picture goes. ``height`` None: as many lines as it takes."""

    width: int = 80
    height: int | None = None
    ascii: bool = False

    def text(self, value: str, style: str = "") -> Text:
        """Text from outside: no control characters, and none that this terminal cannot show."""
        safe = plain(value).plain
        return Text(safe.encode("ascii", "replace").decode() if self.ascii else safe, style=style)

    def glyph(self, state: TrialState) -> str:
        return (_ASCII_GLYPHS if self.ascii else STATE_GLYPHS)[state]


def picture(progress: SweepProgress, canvas: Canvas, *, note: str | None = None) -> RenderableType:
    """The whole picture. ``note`` is a line about the reading itself, for example a store that does not answer."""
    # A low terminal keeps its lines for the heat map.
    is_low = canvas.height is not None and canvas.height < _LOW_TERMINAL
    running = _running_lines(progress.running, canvas, limit=2 if is_low else 5)
    failed = _failure_group_lines(progress, canvas, limit=2 if is_low else 6)
    workers = _worker_lines(progress, canvas, limit=None if canvas.height is None else 2 if is_low else 8)
    room = None
    if canvas.height is not None:
        room = max(3, canvas.height - _FIXED_LINES - sum(len(part) for part in (running, failed, workers)))
    parts: list[RenderableType] = [
        Text.assemble(("sweep ", "bold"), canvas.text(progress.name), f"  {progress.ended}/{progress.trials} trials"),
        _bar(progress.ended, progress.trials, canvas),
        canvas.text(_pace(progress)),
        *([] if progress.finished else [canvas.text(f"  {progress.estimate.how}", "dim")]),
        *(canvas.text(f"paused: {agent}: {reason}", "yellow") for agent, reason in progress.paused_agents.items()),
        *_heat_map_lines(progress, canvas, room),
        *running,
        *failed,
        *workers,
    ]
    if note is not None:
        parts.append(canvas.text(note, "yellow"))
    for part in parts:
        if isinstance(part, Text):
            part.truncate(canvas.width, overflow="crop" if canvas.ascii else "ellipsis")
    return Group(*parts)


def counts_table(progress: SweepCounts) -> RenderableType:
    """Trials by agent and state: what ``crb sweep show`` prints."""
    table = Table(box=None, pad_edge=False, expand=False)
    table.add_column("agent", overflow="fold")
    shown = [state for state in TrialState if progress.by_state.get(state.value) or state in _ALWAYS_SHOWN]
    for state in shown:
        table.add_column(state.value, justify="right", overflow="fold", style=_STYLES[state])
    for agent, states in progress.by_agent.items():
        table.add_row(plain(agent), *(str(states.get(state.value, 0) or "·") for state in shown))
    return Group(
        Text.assemble(("sweep ", "bold"), plain(progress.name), f"  {progress.ended}/{progress.trials} trials ended"),
        table,
    )


def failure_lines(progress: SweepCounts, limit: int) -> list[Text]:
    """What failed and why, one line a failure."""
    lines = []
    for failure in progress.failures[:limit]:
        what = f"trial {failure.trial_id} {failure.agent} {failure.pull_request} round {failure.round}"
        lines.append(
            Text.assemble(("failed ", "red"), plain(what), plain(f" {failure.stage}: "), plain(failure.reason))
        )
    if len(progress.failures) > limit:
        lines.append(Text(f"... and {len(progress.failures) - limit} more", style="red"))
    return lines


def one_line(progress: SweepProgress) -> str:
    """The state of a sweep where there is no terminal to draw on."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(progress.by_state.items()))
    said = f"{progress.name}: {progress.ended}/{progress.trials} trials ended ({states})"
    return plain(said if progress.finished else f"{said}; {_pace(progress)}").plain


def _pace(progress: SweepProgress) -> str:
    parts = []
    if progress.rate is not None and not progress.finished:
        parts.append(f"{progress.rate.trials_per_minute:.1f} trials/min")
    if progress.steps_lost:
        parts.append(f"{progress.steps_lost} steps lost")
    if progress.estimate.seconds is not None:
        finish = "" if progress.finish_at is None else f", done {_clock(progress.finish_at, progress.at)}"
        parts.append(f"about {time_text(progress.estimate.seconds)} left{finish}")
    elif not progress.finished:
        parts.append("no estimate yet")
    return ", ".join(parts) if parts else "nothing waits or runs"


def _clock(finish_at: str, now: str) -> str:
    finish, today = (datetime.fromisoformat(each).astimezone() for each in (finish_at, now))
    return finish.strftime("%H:%M" if finish.date() == today.date() else "%Y-%m-%d %H:%M")


def _bar(done: int, total: int, canvas: Canvas) -> Text:
    width = max(0, min(60, canvas.width - 6))
    full = width * done // total if total else 0
    filled, empty = ("#", "-") if canvas.ascii else ("━", "╌")
    share = f" {100 * done // total:>3}%" if total else ""
    return Text.assemble((filled * full, "green"), (empty * (width - full), "dim"), share)


def _heat_map_lines(progress: SweepProgress, canvas: Canvas, room: int | None) -> list[Text]:
    rows: Sequence[HeatMapRow] = progress.heat_map.rows
    states = {code: TrialState(state) for code, state in progress.heat_map.codes.items()}
    folds_rounds = room is not None and len(rows) > room and progress.rounds > 1
    grouped: dict[tuple[str, str], list[str]] = {}
    twice = _names_used_twice(rows)
    for row in rows:
        name = canvas.text(f"{row.agent} {row.build_id[-4:]}" if row.agent in twice else row.agent).plain
        key = (name, "" if folds_rounds else str(row.round))
        grouped.setdefault(key, []).append(row.cells)
    longest_name = min(_LONGEST_NAME, max(4, canvas.width // 4))
    name_width = min(longest_name, max((cell_len(key[0]) for key in grouped), default=0))
    round_width = max((len(key[1]) + 1 for key in grouped if key[1]), default=0)
    total_width = 2 + 2 * len(str(len(progress.heat_map.pull_requests) * (progress.rounds if folds_rounds else 1)))
    columns = len(progress.heat_map.pull_requests)
    cell_room = max(8, canvas.width - name_width - round_width - total_width - 3)
    per_cell = max(1, math.ceil(columns / cell_room))
    lines = [canvas.text(_heat_map_title(columns, per_cell, progress.rounds if folds_rounds else 1), "bold")]
    chosen = list(grouped)
    left_out: list[tuple[str, str]] = []
    if room is not None and len(chosen) > room:
        # Where something happens first, then in order.
        busy = sorted(chosen, key=lambda key: (not _is_busy("".join(grouped[key]), states), chosen.index(key)))
        kept = set(busy[:room])
        left_out = [key for key in chosen if key not in kept]
        chosen = [key for key in chosen if key in kept]
    for key in chosen:
        line = Text(_fitted(key[0], name_width, canvas))
        line.append(key[1].rjust(round_width))
        line.append(" ")
        cells = grouped[key]
        for start in range(0, columns, per_cell):
            found = [states[code] for each in cells for code in each[start : start + per_cell] if code in states]
            glyph, style = _cell(found, canvas)
            line.append(glyph, style=style)
        ended, trials = _ended(cells, states)
        line.append(f" {ended}/{trials}".rjust(total_width))
        lines.append(line)
    if left_out:
        sums = [_ended(grouped[key], states) for key in left_out]
        ended, trials = sum(each for each, _ in sums), sum(each for _, each in sums)
        lines.append(canvas.text(f"... and {len(left_out)} more rows: {ended}/{trials} trials ended", "dim"))
    lines.append(_legend(progress, canvas, shaded=per_cell > 1 or folds_rounds))
    return lines


def _heat_map_title(columns: int, per_cell: int, rounds: int) -> str:
    folded = []
    if per_cell > 1:
        folded.append(f"{per_cell} to a cell")
    if rounds > 1:
        folded.append(f"{rounds} rounds in a row")
    return f"{columns} pull requests" + (f", {', '.join(folded)}" if folded else "")


def _names_used_twice(rows: Iterable[HeatMapRow]) -> set[str]:
    builds: dict[str, set[str]] = {}
    for row in rows:
        builds.setdefault(row.agent, set()).add(row.build_id)
    return {agent for agent, ids in builds.items() if len(ids) > 1}


def _cell(states: Sequence[TrialState], canvas: Canvas) -> tuple[str, str]:
    """Glyph and style of the trials behind one cell: a failure shows, whatever else is there."""
    if not states:
        return " ", ""
    for state in (TrialState.FAILED, TrialState.JUDGE_FAILED):
        if state in states:
            return canvas.glyph(state), _STYLES[state]
    ended = sum(state in _ENDED for state in states)
    if len(set(states)) == 1 or not ended:
        first = min(states, key=[TrialState.REVIEWING, TrialState.JUDGING, *TrialState].index)
        return canvas.glyph(first), _STYLES[first]
    if ended == len(states):
        return canvas.glyph(TrialState.SCORED), _STYLES[TrialState.CANCELLED]
    shades = _ASCII_SHADES if canvas.ascii else _SHADES
    return shades[min(2, 3 * ended // len(states))], _STYLES[TrialState.SCORED]


def _is_busy(cells: str, states: dict[str, TrialState]) -> bool:
    return any(states.get(code) in {TrialState.REVIEWING, TrialState.JUDGING} for code in cells)


def _ended(cells: Iterable[str], states: dict[str, TrialState]) -> tuple[int, int]:
    found = [states[code] for each in cells for code in each if code in states]
    return sum(state in _ENDED for state in found), len(found)


def _legend(progress: SweepProgress, canvas: Canvas, *, shaded: bool) -> Text:
    line = Text()
    for state in TrialState:
        if count := progress.by_state.get(state.value, 0):
            line.append(canvas.glyph(state), style=_STYLES[state])
            line.append(f" {count} {state.value}  ", style="dim")
    if shaded:
        line.append(_ASCII_SHADES if canvas.ascii else _SHADES, style=_STYLES[TrialState.SCORED])
        line.append(" in part", style="dim")
    return line


def _running_lines(running: Sequence[RunningTrial], canvas: Canvas, *, limit: int) -> list[Text]:
    if not running:
        return []
    lines = [Text("longest running", style="bold")]
    for each in running[:limit]:
        took = "?" if each.seconds is None else time_text(each.seconds)
        attempt = f" attempt {each.attempt}" if each.attempt is not None and each.attempt > 1 else ""
        what = f"{each.agent} {each.pull_request} round {each.round}{attempt}"
        lines.append(canvas.text(f"  {took:>11}  trial {each.trial_id} {each.stage}: {what}"))
    return lines


def _failure_group_lines(progress: SweepProgress, canvas: Canvas, *, limit: int) -> list[Text]:
    groups = progress.failure_groups
    if not groups:
        return []
    lines = [Text("attempts that failed", style="bold")]
    for group in groups[:limit]:
        examples = ", ".join(map(str, group.examples))
        what = f"{group.attempts} {group.outcome} ({group.fault}) {group.agent}, trial {examples}"
        if group.failed_trials:
            what += f"; {group.failed_trials} failed for good"
        lines.append(canvas.text(f"  {what}: {group.example or 'no reason was recorded'}", "red"))
    if len(groups) > limit:
        rest = sum(group.attempts for group in groups[limit:])
        lines.append(canvas.text(f"  ... and {rest} more of {len(groups) - limit} kinds", "red"))
    return lines


def _worker_lines(progress: SweepProgress, canvas: Canvas, *, limit: int | None) -> list[Text]:
    workers = progress.workers
    if not workers:
        return [] if progress.finished else [Text("no worker has registered; nothing is taken", style="yellow")]
    lines = [Text("workers", style="bold")]
    shown = workers if limit is None or len(workers) <= limit else workers[: limit - 1]
    for worker in shown:
        silent = worker.alive is False
        held = _held(worker)
        load = f"not heard of for {time_text(worker.silent_seconds)}" if silent else _load(worker)
        name = _fitted(canvas.text(worker.name).plain, min(26, max(8, canvas.width // 3)), canvas)
        line = canvas.text(f"  {name} {held:<21} {load}", "red" if silent else "")
        lines.append(line)
        if not silent and (reason := (worker.status or {}).get("takes_no_reviews")) is not None:
            # Whole, over as many lines as it needs: it says what to do.
            lines += [
                canvas.text(f"    {part}", "yellow")
                for part in wrapped(canvas.text(f"takes no reviews: {reason}").plain, max(8, canvas.width - 6))
            ]
    if len(shown) < len(workers):
        rest = workers[len(shown) :]
        held_steps = sum(sum(worker.running.values()) for worker in rest)
        lines.append(canvas.text(f"  ... and {len(rest)} more workers with {held_steps} running steps"))
    return lines


def _held(worker: WorkerState) -> str:
    """Running steps of the slots. A worker holds a few reviews more than it runs: it prepares the next ones."""
    parts = []
    for name, queues in (("review", ["review"]), ("judge", [queue for queue in worker.slots if queue != "review"])):
        slots = sum(worker.slots.get(queue, 0) for queue in queues)
        if any(queue in worker.slots for queue in queues):
            parts.append(f"{name} {sum(worker.running.get(queue, 0) for queue in queues)}/{slots}")
    return " ".join(parts)


def _load(worker: WorkerState) -> str:
    status = worker.status or {}
    parts = []
    if (cpu := status.get("cpu_percent")) is not None:
        parts.append(f"cpu {cpu:.0f}%")
    if (memory := status.get("memory_percent")) is not None:
        parts.append(f"mem {memory:.0f}%")
    if (free := status.get("disk_free_bytes")) is not None:
        parts.append(f"disk {free / 1e9:.0f} GB")
    return " ".join(parts) if parts else "nothing said yet"


def _fitted(name: str, width: int, canvas: Canvas) -> str:
    """A name in exactly so many columns; a letter may take two of them, or none."""
    if cell_len(name) <= width:
        return set_cell_size(name, width)
    return set_cell_size(name, width - 1) + ("~" if canvas.ascii else "…")
