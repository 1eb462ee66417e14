"""Following a sweep: a live picture in a terminal, lines or JSON elsewhere.

What it shows is read from the store; where a broker is set, it says while that does not answer.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live

from crb_cli.output import console, printable_json, wrapped
from crb_cli.watch_view import Canvas, counts_table, failure_lines, one_line, picture
from crb_core.errors import StoreError
from crb_core.outages import REMIND_SECONDS
from crb_core.settings import Settings, load_settings
from crb_core.store import Store, open_store
from crb_core.store.sweeps import find_sweep
from crb_scheduler.beats import BeatWatch
from crb_scheduler.broker_watch import BrokerWatch
from crb_scheduler.progress import SweepCounts, SweepProgress, sweep_progress

__all__ = ["broker_watch", "counts_table", "follow", "print_failures", "say_silent_broker", "watch_sweep"]

#: Seconds between two readings; a big sweep is read less often, so that watching costs a fraction of a core.
REFRESH_SECONDS = 0.5
#: A reading is followed by at least so many times its own duration.
REST_FACTOR = 4.0
#: Seconds between two lines where there is no terminal.
LINE_SECONDS = 5.0
#: Columns of such a line at most; what is longer goes on below it.
_COLUMNS = 80


class Reader:
    """Reads one sweep again and again; remembers the workers' beats in between.

    ``broker`` is asked beside the store, where there is one: without it nothing goes on, and the store does not know.
    """

    def __init__(
        self,
        store: Store,
        sweep_id: str,
        lease_seconds: float,
        every: float = REFRESH_SECONDS,
        broker: BrokerWatch | None = None,
    ) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self.broker = broker
        self._beats = BeatWatch(lease_seconds)
        self._every = every
        self._took = 0.0

    def read(self) -> SweepProgress:
        """The sweep now. StoreError where the store does not answer."""
        began = time.monotonic()
        with self._store.read() as connection:
            progress = sweep_progress(connection, self._sweep_id, beats=self._beats)
        self._took = time.monotonic() - began
        return progress

    @property
    def broker_problem(self) -> str | None:
        """A sentence while the broker does not answer."""
        return None if self.broker is None else self.broker.problem

    def wait(self) -> None:
        """Until it is time to read again."""
        time.sleep(max(self._every, REST_FACTOR * self._took))


def watch_sweep(reference: str, *, once: bool, every: float, ascii_only: bool, as_json: bool) -> SweepProgress | None:
    """``crb sweep watch``: the sweep as it was read last, or None where the watcher was ended by Ctrl-C."""
    settings = load_settings()
    store = open_store(settings.resolved_store_url)
    with store.read() as connection:
        sweep_id = find_sweep(connection, reference).id
    reader = Reader(store, sweep_id, settings.lease_seconds, every, broker_watch(settings))
    try:
        if as_json:
            return _follow_as_json(reader, once=once)
        if once:
            return _print_picture(_read_once(reader), ascii_only)
        progress = _follow(reader, lambda: None, quiet=False, ascii_only=ascii_only)
    except KeyboardInterrupt:
        print("The sweep goes on.", file=sys.stderr)
        return None
    finally:
        store.close()
    if console.is_terminal:
        _print_picture(progress, ascii_only)
    print_failures(progress)
    return progress


def follow(
    store: Store, sweep_id: str, *, check: Callable[[], None] = lambda: None, quiet: bool = False
) -> SweepProgress:
    """Draw a sweep's progress until nothing of it waits or runs. ``check`` may raise to end it early.

    Without a terminal one line is printed every few seconds instead, and nothing when ``quiet``. A store that does not
    answer is asked again; the picture says so meanwhile.
    """
    return _follow(Reader(store, sweep_id, load_settings().lease_seconds), check, quiet=quiet, ascii_only=False)


def _follow(reader: Reader, check: Callable[[], None], *, quiet: bool, ascii_only: bool) -> SweepProgress:
    progress = reader.read()
    # A dumb terminal cannot draw over what it shows.
    if quiet or not console.is_terminal or console.is_dumb_terminal:
        return _follow_in_lines(reader, progress, check, quiet=quiet)
    size = console.size
    with Live(_Drawn(progress, ascii_only), console=console, refresh_per_second=4, transient=True) as live:
        while not progress.finished:
            reader.wait()
            check()
            try:
                progress = reader.read()
                note = reader.broker_problem
            except StoreError as error:
                # The line may be cut at its end.
                note = f"The store does not answer; it is asked again. {error.problem}"
            if console.size != size:
                # What was drawn in another width lies about in lines that nobody counted.
                console.clear()
                size = console.size
            live.update(_Drawn(progress, ascii_only, note))
    return progress


def _follow_as_json(reader: Reader, *, once: bool) -> SweepProgress:
    outages = _Outages()
    while True:
        try:
            progress = _read_once(reader) if once else reader.read()
        except StoreError as error:
            if once:
                raise
            outages.note("store", str(error))
        else:
            outages.note("store", None)
            print(printable_json(progress.to_json()), flush=True)
            if once or progress.finished:
                return progress
            outages.note("broker", reader.broker_problem)
        reader.wait()


def _read_once(reader: Reader) -> SweepProgress:
    progress = reader.read()
    say_silent_broker(reader.broker, progress)
    return progress


def broker_watch(settings: Settings) -> BrokerWatch | None:
    """Of the farm's broker; a local run looks after its own."""
    return None if settings.broker_url is None else BrokerWatch(settings.broker_url)


def say_silent_broker(broker: BrokerWatch | None, progress: SweepCounts) -> None:
    """Say, beside what is printed, why nothing of a sweep goes on, where that is the broker."""
    if broker is not None and not progress.finished and (problem := broker.ask()) is not None:
        print(f"crb: {problem}", file=sys.stderr)


class _Outages:
    """Says on standard error which service does not answer: at first, once a minute, and when it does again."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def note(self, service: str, problem: str | None) -> None:
        """``problem`` is a sentence while the service does not answer, None when it does."""
        now = time.monotonic()
        if problem is None:
            if self._said.pop(service, None) is not None:
                print(f"crb: The {service} answers again", file=sys.stderr, flush=True)
        elif now - self._said.get(service, float("-inf")) >= REMIND_SECONDS:
            self._said[service] = now
            print(f"crb: {problem}", file=sys.stderr, flush=True)


def _print_picture(progress: SweepProgress, ascii_only: bool) -> SweepProgress:
    """The whole picture, however many lines it takes."""
    console.print(picture(progress, Canvas(width=_columns(), ascii=_use_ascii(ascii_only))))
    return progress


def print_failures(progress: SweepCounts) -> None:
    """What failed and why, and how to go on; nothing when nothing failed."""
    for line in failure_lines(progress, limit=20):
        console.print(line, soft_wrap=True)
    if progress.failures:
        console.print(
            f"`crb trial retry --sweep {progress.name} --failed` tries them again; "
            f"`crb trial logs TRIAL` shows what an agent printed.",
            markup=False,
            soft_wrap=True,
        )


def _columns() -> int:
    """Columns of what is printed and not drawn over, also on a dumb terminal, which Rich takes for one of 80."""
    return min(_COLUMNS, shutil.get_terminal_size((_COLUMNS, 24)).columns)


def _use_ascii(wanted: bool) -> bool:
    """Where it is asked for, and where the output can take nothing else."""
    return wanted or not (console.encoding or "").lower().startswith("utf")


class _Drawn:
    """The picture in the size that the terminal has when it is drawn."""

    def __init__(self, progress: SweepProgress, ascii_only: bool, note: str | None = None) -> None:
        self._progress = progress
        self._ascii = _use_ascii(ascii_only)
        self._note = note

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        canvas = Canvas(width=options.max_width, height=console.height, ascii=self._ascii)
        yield picture(self._progress, canvas, note=self._note)


def _follow_in_lines(
    reader: Reader, progress: SweepProgress, check: Callable[[], None], *, quiet: bool
) -> SweepProgress:
    printed = float("-inf")
    outages = _Outages()
    is_new = True
    while True:
        now = time.monotonic()
        if not quiet and is_new and (progress.finished or now - printed >= LINE_SECONDS):
            print("\n  ".join(wrapped(one_line(progress), _columns() - 2)), flush=True)
            printed = now
        if progress.finished:
            return progress
        if not quiet:
            outages.note("broker", reader.broker_problem)
        reader.wait()
        check()
        problem = None
        try:
            progress = reader.read()
        except StoreError as error:
            # A local run's own check ends it; a watcher elsewhere waits for the store.
            problem = str(error)
        is_new = problem is None
        if not quiet:
            outages.note("store", problem)
