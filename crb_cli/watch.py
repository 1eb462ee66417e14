"""Live progress of a sweep in the terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crb_cli.output import console, plain
from crb_core.store import Store
from crb_scheduler.progress import SweepProgress, TrialState, read_progress

__all__ = ["follow", "print_failures", "progress_view"]

REFRESH_SECONDS = 0.5
#: The rate is that of the last minute: a sweep's beginning says little about its end.
RATE_WINDOW_SECONDS = 60.0
SHOWN_FAILURES = 5

_COLUMNS = (
    (TrialState.WAITING, "waiting", "dim"),
    (TrialState.REVIEWING, "reviewing", "cyan"),
    (TrialState.JUDGING, "judging", "blue"),
    (TrialState.SCORED, "scored", "green"),
    (TrialState.FAILED, "failed", "red"),
    (TrialState.JUDGE_FAILED, "judge failed", "red"),
    (TrialState.CANCELLED, "cancelled", "yellow"),
)


class Rate:
    """Trials ended a second over the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, ended: int) -> None:
        now = self._clock()
        self._seen.append((now, ended))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def per_second(self) -> float | None:
        """None until two readings differ in time and something has ended between them."""
        if len(self._seen) < 2:
            return None
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if end > start and after > before else None


def progress_view(
    progress: SweepProgress, rate: Rate, elapsed: float, *, failures: int = SHOWN_FAILURES
) -> RenderableType:
    """The picture that is drawn anew at each refresh; fits 80 columns. It describes so many ``failures``."""
    table = Table(box=None, pad_edge=False, expand=False)
    table.add_column("agent")
    shown = [column for column in _COLUMNS if progress.by_state.get(column[0].value) or column[0] in _COLUMNS_ALWAYS]
    for _, title, style in shown:
        table.add_column(title, justify="right", style=style)
    for agent, states in progress.by_agent.items():
        table.add_row(plain(agent), *(str(states.get(state.value, 0) or "·") for state, _, _ in shown))
    done, total = progress.ended, progress.trials
    per_second = rate.per_second
    left = "" if per_second is None else f"  about {_time((total - done) / per_second)} left"
    speed = "" if per_second is None else f"  {per_second * 60:.0f} trials/min"
    line = Text.assemble((f"{done}/{total}", "bold"), f" trials  {_time(elapsed)}{speed}{left if done < total else ''}")
    parts: list[RenderableType] = [
        Text.assemble(("sweep ", "bold"), progress.name),
        # A bar ends no line by itself.
        Columns([ProgressBar(total=max(total, 1), completed=done, width=60)]),
        line,
        table,
    ]
    parts.extend(_failure_lines(progress, failures) if failures else ())
    return Group(*parts)


_COLUMNS_ALWAYS = {TrialState.WAITING, TrialState.REVIEWING, TrialState.JUDGING, TrialState.SCORED}


def follow(
    store: Store, sweep_id: str, *, check: Callable[[], None] = lambda: None, quiet: bool = False
) -> SweepProgress:
    """Draw a sweep's progress until nothing of it waits or runs. ``check`` may raise to end it early.

    Without a terminal one line is printed every few seconds instead, and nothing when ``quiet``.
    """
    rate, started = Rate(), time.monotonic()
    with store.read() as connection:
        progress = read_progress(connection, sweep_id)
    rate.add(progress.ended)
    if quiet or not console.is_terminal:
        return _follow_in_lines(store, sweep_id, progress, check, quiet=quiet)
    with Live(progress_view(progress, rate, 0.0), console=console, refresh_per_second=4, transient=True) as live:
        while not progress.finished:
            time.sleep(REFRESH_SECONDS)
            check()
            with store.read() as connection:
                progress = read_progress(connection, sweep_id)
            rate.add(progress.ended)
            live.update(progress_view(progress, rate, time.monotonic() - started))
    return progress


def _follow_in_lines(
    store: Store, sweep_id: str, progress: SweepProgress, check: Callable[[], None], *, quiet: bool
) -> SweepProgress:
    printed = float("-inf")
    while True:
        now = time.monotonic()
        if not quiet and (progress.finished or now - printed >= 5):
            states = ", ".join(f"{count} {state}" for state, count in sorted(progress.by_state.items()))
            print(f"{progress.name}: {progress.ended}/{progress.trials} trials ended ({states})", flush=True)
            printed = now
        if progress.finished:
            return progress
        time.sleep(REFRESH_SECONDS)
        check()
        with store.read() as connection:
            progress = read_progress(connection, sweep_id)


def print_failures(progress: SweepProgress) -> None:
    """What failed and why, and how to go on; nothing when nothing failed."""
    for line in _failure_lines(progress, limit=20):
        console.print(line, soft_wrap=True)
    if progress.failures:
        console.print(
            f"`crb trial retry --sweep {progress.name} --failed` tries them again; "
            f"`crb trial logs TRIAL` shows what an agent printed.",
            markup=False,
            soft_wrap=True,
        )


def _failure_lines(progress: SweepProgress, limit: int = SHOWN_FAILURES) -> list[Text]:
    lines = []
    for failure in progress.failures[:limit]:
        what = f"trial {failure.trial_id} {failure.agent} {failure.pull_request} round {failure.round}"
        lines.append(Text.assemble(("failed ", "red"), f"{what} {failure.stage}: ", plain(failure.reason)))
    if len(progress.failures) > limit:
        lines.append(Text(f"... and {len(progress.failures) - limit} more", style="red"))
    return lines


def _time(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
