"""Where steps are worked on: by a farm's workers, by another run of this home, or here until they end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import typer

from crb_cli.home import holder_of, open_home, require_a_place_to_run, require_own_store
from crb_cli.output import console, plain
from crb_core.errors import UnavailableError
from crb_core.settings import Settings
from crb_core.store import Store

__all__ = ["SOME_TRIALS_FAILED", "Place", "find_a_place", "go_on", "run_or_leave_to_the_farm"]

#: Exit code of a sweep that finished with failed trials.
SOME_TRIALS_FAILED = 3

#: How often a local run looks whether its sweep rests.
REST_LOOK_SECONDS = 2.0


class Place(Enum):
    """Who works on what is ready."""

    FARM = "farm"
    OTHER_RUN = "other run"
    HERE = "here"


@dataclass(frozen=True)
class FoundPlace:
    """A place, and for another run its process number where it is known."""

    place: Place
    process: str | None = None


def find_a_place(settings: Settings) -> FoundPlace:
    """Check, before rows are changed, that steps can be worked on, and by whom. CrbError where they cannot."""
    if settings.broker_url is None:
        require_own_store(settings)
        holder = holder_of(open_home(settings))
        if holder is not None:
            return FoundPlace(Place.OTHER_RUN, holder or None)
    require_a_place_to_run(settings)
    return FoundPlace(Place.FARM if settings.broker_url is not None else Place.HERE)


def go_on(settings: Settings, found: FoundPlace, sweeps: Sequence[str], *, quiet: bool) -> None:
    """Let what is ready again be worked on, at the place that was found before the rows were changed."""
    if found.place is not Place.OTHER_RUN:
        run_or_leave_to_the_farm(settings, sweeps, quiet=quiet)
    elif not quiet:
        process = f" (process {found.process})" if found.process else ""
        console.print(plain(f"The crb run that uses this home{process} takes them up."), soft_wrap=True)


def run_or_leave_to_the_farm(settings: Settings, sweeps: Sequence[str], *, quiet: bool) -> None:
    """Run sweeps here until they end, or, where a broker is set, leave them to its scheduler and workers.

    Exits with 3 when they ended and some trials failed. UnavailableError when one of them rests: it is paused, and
    nothing of it would ever go on.
    """
    from crb_cli.farm import LocalFarm, stop_on_signals
    from crb_cli.watch import follow, print_failures
    from crb_core.store.sweeps import find_sweep
    from crb_worker.app import BrokerClient

    if settings.broker_url is not None:
        client = BrokerClient(settings.broker_url)
        client.nudge()
        client.close()
        if not quiet:
            for name in sweeps:
                console.print(plain(f"`crb sweep watch {name}` follows it; scheduler and workers do the rest."))
        return
    failures = False
    resting: list[_RestsError] = []
    with stop_on_signals():
        try:
            with LocalFarm(settings) as farm:
                for name in sweeps:
                    with farm.store.read() as connection:
                        sweep_id = find_sweep(connection, name).id
                    try:
                        progress = follow(
                            farm.store, sweep_id, check=_check(farm.check, farm.store, sweep_id, name), quiet=quiet
                        )
                    except _RestsError as error:
                        resting.append(error)
                        continue
                    failures = failures or bool(progress.failures)
                    if not quiet:
                        print_failures(progress)
        except KeyboardInterrupt:
            resume = " and ".join(f"`crb sweep resume {name}`" for name in sweeps)
            console.print(plain(f"Interrupted; what is done is kept. {resume} goes on."), soft_wrap=True)
            raise typer.Exit(1) from None
    if resting:
        raise resting[0]
    if failures:
        raise typer.Exit(SOME_TRIALS_FAILED)


class _RestsError(UnavailableError):
    """A sweep of a local run is paused, so it would never end."""


def _check(check: Callable[[], None], store: Store, sweep_id: str, name: str) -> Callable[[], None]:
    """What a local run looks at while it follows a sweep: its own parts, and whether the sweep rests."""
    from crb_core.store.sweep_limits import why_it_rests, why_no_reviews

    looked = float("-inf")
    is_told = False

    def look() -> None:
        nonlocal looked, is_told
        check()
        if time.monotonic() - looked < REST_LOOK_SECONDS:
            return
        looked = time.monotonic()
        with store.read() as connection:
            reason = why_it_rests(connection, sweep_id)
            pause = why_no_reviews(connection)
        if pause is not None and not is_told:
            # To standard error: also a run that prints JSON would else stand still without a word.
            print(f"crb: Reviews pause: {plain(pause).plain}.", file=sys.stderr)
        is_told = pause is not None
        if reason is not None:
            raise _RestsError(
                f"The sweep {name} is not over, but nothing of it goes on: {reason}",
                remedy=f"`crb sweep resume {name}` goes on, with --agent for one agent",
            )

    return look
