"""``crb sweep pause|resume|cancel|set``: what people do to a sweep while it runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import UsageError
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from crb_core.store.operations import Keep, Operation
    from crb_core.store.sweep_limits import SweepLimits

__all__ = ["add_to", "concurrency_value", "limit_lines", "operation_line"]

SweepName = Annotated[str, typer.Argument(help="Name or id of the sweep.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only this agent's builds.")]
Reason = Annotated[str | None, typer.Option(help="Why, for those who see it.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file to ``crb sweep``."""
    app.command()(pause)
    app.command()(resume)
    app.command()(cancel)
    app.command("set")(set_)


def pause(sweep: SweepName, agent: OneAgent = None, reason: Reason = None, as_json: JsonFlag = False) -> None:
    """Take no more steps of a sweep, or no more reviews of one agent in it; what runs may end.

    What a paused agent has found already is judged; of a paused sweep nothing is.
    """
    from crb_core.store.operations import COMMAND_LINE, pause_sweep

    done = _do(lambda connection: pause_sweep(connection, sweep, actor=COMMAND_LINE, agent=agent, reason=reason))
    rest = "" if agent is None else ", and what it has found is judged"
    _say(done, f"{_what(done)} is paused; what runs may end{rest}", as_json=as_json)


def resume(sweep: SweepName, agent: OneAgent = None, as_json: JsonFlag = False) -> None:
    """Go on with a paused, cancelled or interrupted sweep, or with one agent in it; what is done is kept."""
    from crb_cli.running import find_a_place, go_on
    from crb_core.store.operations import COMMAND_LINE, resume_sweep

    settings = load_settings()
    place = find_a_place(settings)
    done = _do(lambda connection: resume_sweep(connection, sweep, actor=COMMAND_LINE, agent=agent))
    again = f"; {done.steps} cancelled steps wait again" if done.steps else ""
    _say(done, f"{_what(done)} is active{again}", as_json=as_json)
    go_on(settings, place, [str(done.sweep)], quiet=as_json)


def cancel(sweep: SweepName, agent: OneAgent = None, reason: Reason = None, as_json: JsonFlag = False) -> None:
    """End a sweep, or one agent's trials in it: nothing more is started, running containers are stopped in seconds."""
    from crb_core.store.operations import COMMAND_LINE, cancel_sweep

    done = _do(lambda connection: cancel_sweep(connection, sweep, actor=COMMAND_LINE, agent=agent, reason=reason))
    more = "" if agent is None else f" --agent {agent}"
    _say(
        done,
        f"{_what(done)} is cancelled: {done.steps} waiting steps ended, {done.running} running ones are being stopped; "
        f"`crb sweep resume {done.sweep}{more}` goes on with it",
        as_json=as_json,
    )


def set_(
    sweep: SweepName,
    agent: OneAgent = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first.")] = None,
    weight: Annotated[float | None, typer.Option(help="Share against other sweeps of its priority.")] = None,
    concurrency: Annotated[
        str | None, typer.Option(metavar="N|none", help="Reviews at once; with --agent over all sweeps.")
    ] = None,
    max_cost: Annotated[
        str | None,
        typer.Option(metavar="USD|none", help="List price that the judges' calls may reach; none takes it away."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Change a sweep's priority, weight, concurrency or limit of cost, or one agent's concurrency; also while it runs.

    What a limit of cost has stopped goes on with `crb trial retry --sweep SWEEP --failed`.
    """
    from crb_core.store.operations import COMMAND_LINE, KEEP, set_limits

    done = _do(
        lambda connection: set_limits(
            connection,
            sweep,
            actor=COMMAND_LINE,
            agent=agent,
            priority=KEEP if priority is None else priority,
            weight=KEEP if weight is None else weight,
            concurrency=KEEP if concurrency is None else concurrency_value(concurrency),
            max_cost_usd=KEEP if max_cost is None else _cost_value(max_cost),
        )
    )
    changes = _changes(done)
    _say(done, f"{_what(done)}: {changes or 'nothing changed'}", as_json=as_json)


def concurrency_value(text: str) -> int | Keep | None:
    """``none`` or a whole number, as it is given on the command line."""
    if text.strip().lower() == "none":
        return None
    if not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        raise UsageError(f"The concurrency {text!r} is neither a whole number nor none")
    return int(text)


def _cost_value(text: str) -> float | None:
    if text.strip().lower() == "none":
        return None
    if not re.fullmatch(r"\s*[0-9]{1,12}(\.[0-9]{1,9})?\s*", text):
        raise UsageError(f"The limit of cost {text!r} is neither an amount in USD nor none")
    return float(text)


def operation_line(operation: Operation) -> str:
    """One line about an operation that was done, for ``crb sweep show``."""
    what = [operation.action]
    if operation.agent is not None:
        what.append(f"agent {operation.agent}")
    if operation.trials:
        shown = ", ".join(str(number) for number in operation.trials[:5])
        more = f" and {len(operation.trials) - 5} more" if len(operation.trials) > 5 else ""
        what.append(f"trial{'s' if len(operation.trials) > 1 else ''} {shown}{more}")
    if operation.action == "set limits":
        what.append(_changes(operation))
    counts = [f"{operation.steps} steps"] if operation.steps else []
    counts += [f"{operation.running} running"] if operation.running else []
    said = " ".join(what) + (f" ({', '.join(counts)})" if counts else "")
    because = f": {operation.reason}" if operation.reason else ""
    return f"{operation.at[:19].replace('T', ' ')} {operation.actor}: {said}{because}"


def limit_lines(limits: SweepLimits) -> list[str]:
    """A sweep's limits and pauses in lines; what is as by default is left out."""
    lines = []
    if limits.state != "active":
        lines.append(limits.state + (f": {limits.paused_reason}" if limits.paused_reason else ""))
    values = []
    if limits.priority:
        values.append(f"priority {limits.priority}")
    if limits.weight != 1:
        values.append(f"weight {limits.weight:g}")
    if limits.concurrency is not None:
        values.append(_at_once(limits.concurrency))
    if values:
        lines.append(", ".join(values))
    if limits.max_cost_usd is not None:
        lines.append(
            f"judges' calls: ${limits.spent_usd:.4f} of at most ${limits.max_cost_usd:.2f} used, by list price"
        )
    for build in limits.builds:
        said = []
        if build.paused:
            said.append("paused" + (f" ({build.paused_reason})" if build.paused_reason else ""))
        if build.concurrency is not None:
            said.append(f"{_at_once(build.concurrency)} over all sweeps")
        if said:
            lines.append(f"agent {build.agent}: {', '.join(said)}")
    return lines


def _changes(operation: Operation) -> str:
    return ", ".join(
        f"{name} {_limit(operation.before.get(name))} -> {_limit(value)}"
        for name, value in operation.after.items()
        if operation.before.get(name) != value
    )


def _at_once(count: int) -> str:
    return f"at most {count} review{'' if count == 1 else 's'} at once"


def _do(change: Callable[[Any], Operation]) -> Operation:
    from crb_core.store import open_store

    store = open_store(load_settings().resolved_store_url)
    try:
        with store.write() as connection:
            return change(connection)
    finally:
        store.close()


def _say(done: Operation, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(done.to_json())
    else:
        console.print(plain(sentence), soft_wrap=True)


def _what(done: Operation) -> str:
    return f"sweep {done.sweep}" if done.agent is None else f"agent {done.agent} of sweep {done.sweep}"


def _limit(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
