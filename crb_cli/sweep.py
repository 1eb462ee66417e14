"""``crb sweep``: start, follow and steer sweeps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli.dedup import Dedup
from crb_cli.extraction import Extract
from crb_cli.model_calls import FakeModel, MaxCost, finite_cost
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.running import SOME_TRIALS_FAILED, run_or_leave_to_the_farm
from crb_cli.steering import add_to
from crb_core.errors import InputError, UsageError
from crb_core.runners import RUNNERS
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.store import Store
    from crb_scheduler.plan import PlannedSweep

__all__ = ["app", "load_named_corpus", "run_or_leave_to_the_farm", "start_sweep"]

#: How many of the last operations ``show`` tells.
SHOWN_OPERATIONS = 10

app = typer.Typer(no_args_is_help=True, help="Start, list, show, watch, pause, resume and cancel sweeps.")

SweepName = Annotated[str, typer.Argument(help="Name or id of the sweep.")]


@app.command()
def start(
    corpus: Annotated[str, typer.Option(help="Corpus by name (stored or bundled) or folder.")] = "showcase",
    agent: Annotated[
        list[str] | None, typer.Option(help="Bundled agent, folder with agent.toml, or manifest (repeatable).")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the sweep; the corpus's name by default.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Independent rounds; 3 for a leaderboard.")] = 3,
    pr: Annotated[list[str] | None, typer.Option("--pr", help="Pull-request key (repeatable).")] = None,
    subset: Annotated[str | None, typer.Option(help="Named subset of the corpus, for example smoke.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N pull requests.")] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Judge (repeatable).")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first; 0 by default.")] = None,
    weight: Annotated[
        float | None, typer.Option(help="Share against other sweeps of its priority; 1 by default.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Reviews of this sweep at once.")] = None,
    agent_concurrency: Annotated[
        list[str] | None,
        typer.Option(metavar="AGENT=N", help="Reviews of an agent at once, over all sweeps (repeatable)."),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, callback=finite_cost, help="List price in USD that the judges' calls may reach."),
    ] = None,
    runner: Annotated[str | None, typer.Option(help="auto, docker or process.")] = None,
    force: Annotated[bool, typer.Option("--force", help="A new sweep even if one of that name exists.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run agents over a corpus. Without a broker setting it runs here until it ends; else the farm's workers do it.

    A second start of the same sweep adds what is missing and repeats nothing.
    """
    if not agent:
        raise UsageError("No agent is named", remedy="Give --agent; `crb agent list` shows the bundled ones")
    from crb_cli.home import require_a_place_to_run

    settings = load_settings(runner=runner)
    require_a_place_to_run(settings)
    planned = start_sweep(
        settings,
        corpus=load_named_corpus(settings, corpus),
        agents=agent,
        judges=judge or ["offline"],
        name=name,
        rounds=rounds,
        keys=pr or (),
        subset=subset,
        limit=limit,
        priority=priority,
        weight=weight,
        concurrency=concurrency,
        agent_concurrency=_by_agent(agent_concurrency or ()),
        max_cost=max_cost,
        force=force,
        quiet=as_json,
    )
    if as_json:
        print_json({"sweep": planned.name, "sweep_id": planned.sweep_id, "new_trials": planned.new_trials})
    else:
        console.print(plain(f"sweep {planned.name} ({planned.sweep_id}): {planned.new_trials} new trials"))
    run_or_leave_to_the_farm(settings, [planned.name], quiet=as_json)


@app.command("import")
def import_(
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="reviewbench, golden-comments, sarif, rdjson, github-review-comments or gitlab-code-quality.",
        ),
    ],
    path: Annotated[Path, typer.Argument(help="File or folder of reviews.")],
    corpus: Annotated[str, typer.Option(help="Corpus by name (stored or bundled) or folder.")],
    name: Annotated[str, typer.Option(help="Name of the sweep; an existing one is extended.")],
    agent: Annotated[str | None, typer.Option(help="Agent that reviewed, or the only one to take.")] = None,
    pr: Annotated[str | None, typer.Option("--pr", help="Pull request that a single file reviews.")] = None,
    judge: Annotated[str | None, typer.Option(help="reviewbench: name of the judge of a details file.")] = None,
    round: Annotated[int, typer.Option(min=1, max=100, help="Round that the reviews belong to.")] = 1,
    root: Annotated[str | None, typer.Option(help="Folder that paths in the files begin with.")] = None,
    login: Annotated[str | None, typer.Option(help="github-review-comments: the agent's account.")] = None,
    extract: Extract = None,
    dedup: Dedup = None,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Store reviews and judgments made elsewhere; the same import again changes nothing.

    Comments at lines are findings as they are; --extract takes general comments apart into findings.
    --dedup groups findings of a review that say the same, so that a repetition is no second false positive.
    """
    from crb_cli.imports import import_sweep

    import_sweep(
        format,
        path,
        corpus_name=corpus,
        name=name,
        agent=agent,
        pull_request=pr,
        judge=judge,
        round_number=round,
        root=root,
        login=login,
        extract=extract,
        dedup=dedup,
        max_cost=max_cost,
        fake_model=fake_model,
        as_json=as_json,
    )


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """List the stored sweeps with their progress."""
    from sqlalchemy import select

    from crb_cli.steering import limit_lines
    from crb_core.store import open_store
    from crb_core.store.sweep_limits import read_limits
    from crb_core.store.tables import SweepRow, core
    from crb_scheduler.progress import read_progress

    sweeps = core(SweepRow)
    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        ids = connection.execute(select(sweeps.c.id).order_by(sweeps.c.created_at, sweeps.c.id)).scalars().all()
        records = [read_progress(connection, sweep_id, failures=0) for sweep_id in ids]
        limits = {sweep_id: read_limits(connection, sweep_id) for sweep_id in ids}
    if as_json:
        print_json({"sweeps": [record.to_json() | {"limits": limits[record.sweep_id].to_json()} for record in records]})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("sweep", "id", "state", "trials", "ended", "scored", "failed"):
        table.add_column(title, justify="left" if title in {"sweep", "id", "state"} else "right", overflow="fold")
    for record in records:
        failed = record.by_state.get("failed", 0) + record.by_state.get("judge failed", 0)
        state = "finished" if record.finished and record.state == "active" else record.state
        counts = (record.trials, record.ended, record.by_state.get("scored", 0), failed)
        table.add_row(plain(record.name), record.sweep_id, state, *map(str, counts))
    console.print(table)
    for record in records:
        for line in limit_lines(limits[record.sweep_id]):
            console.print(plain(f"{record.name}: {line}"), soft_wrap=True)


@app.command()
def show(sweep: SweepName, as_json: JsonFlag = False) -> None:
    """Show a sweep: trials by state and agent, limits and pauses, what failed and why, what people did to it."""
    from crb_cli.steering import limit_lines, operation_line
    from crb_cli.watch import broker_watch, counts_table, print_failures, say_silent_broker
    from crb_core.store.operations import list_operations
    from crb_core.store.sweep_limits import read_limits

    store, progress = _progress(sweep)
    with store.read() as connection:
        limits = read_limits(connection, progress.sweep_id)
        operations = list_operations(connection, sweep_id=progress.sweep_id, limit=SHOWN_OPERATIONS)
    store.close()
    say_silent_broker(broker_watch(load_settings()), progress)
    if as_json:
        more = {"limits": limits.to_json(), "operations": [operation.to_json() for operation in operations]}
        print_json(progress.to_json() | more)
        return
    console.print(counts_table(progress))
    for line in limit_lines(limits):
        console.print(plain(line), soft_wrap=True)
    print_failures(progress)
    for operation in reversed(operations):
        console.print(plain(operation_line(operation)), soft_wrap=True, style="dim")


@app.command()
def watch(
    sweep: SweepName,
    once: Annotated[bool, typer.Option("--once", help="Print the picture once, as it is now.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two readings, at least.")] = 1.0,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, a reading a line.")] = False,
) -> None:
    """Follow a sweep until nothing of it waits or runs. Ctrl-C ends the watching, not the sweep.

    It works on every machine that reaches the store. Where CRB_BROKER_URL is set, it says while the broker is silent.
    """
    from crb_cli.watch import watch_sweep

    progress = watch_sweep(sweep, once=once, every=every, ascii_only=ascii_only, as_json=as_json)
    if progress is not None and progress.finished and progress.failures:
        raise typer.Exit(SOME_TRIALS_FAILED)


@app.command()
def latency(
    sweep: SweepName,
    agent: Annotated[str | None, typer.Option(help="Only this agent's builds.")] = None,
    all_attempts: Annotated[
        bool, typer.Option("--all-attempts", help="Count attempts that did not succeed too.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print where the time went: queue, preparation, pull, slot, review, collecting, teardown, and the judges' stages.

    Percentiles are of Type 7 (linear), in milliseconds, over all pull requests and rounds. A part that was not measured
    is absent.
    """
    from crb_cli.latency import latency_command

    latency_command(sweep, agent=agent, all_attempts=all_attempts, as_json=as_json)


add_to(app)


def load_named_corpus(settings: Settings, reference: str) -> Corpus:
    """A corpus by folder, by the name of a stored one, or by the name of a bundled one."""
    from crb_cli.corpus import read_corpus
    from crb_core.bundled import bundled
    from crb_core.store import open_store
    from crb_core.store.corpora import find_corpus, load_corpus

    folder = Path(reference)
    if "/" in reference or (reference and folder.is_dir()):
        if not folder.is_dir():
            raise InputError(f"There is no corpus folder {reference}", remedy="Check the path")
        return read_corpus(folder)
    bundled_folder = bundled("corpus") / reference
    if reference and bundled_folder.is_dir():
        return read_corpus(bundled_folder)
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            return load_corpus(connection, find_corpus(connection, reference))
    finally:
        store.close()


def start_sweep(
    settings: Settings,
    *,
    corpus: Corpus,
    agents: Sequence[str],
    judges: Sequence[str],
    name: str | None = None,
    rounds: int = 3,
    keys: Sequence[str] = (),
    subset: str | None = None,
    limit: int | None = None,
    priority: int | None = None,
    weight: float | None = None,
    concurrency: int | None = None,
    agent_concurrency: Mapping[str, int] | None = None,
    max_cost: float | None = None,
    force: bool = False,
    renew: bool = False,
    quiet: bool = False,
) -> PlannedSweep:
    """Resolve agents and judges and write the sweep's rows (see SweepRequest for ``force`` and ``renew``)."""
    from crb_cli.builds import resolve_builds, source_reference
    from crb_cli.judge_plans import judge_plan, open_judges
    from crb_core.agent_source import load_agent
    from crb_core.store import open_store
    from crb_scheduler.plan import SweepRequest, choose_pull_requests, plan

    chosen = choose_pull_requests(corpus, keys=keys, subset=subset, limit=limit)
    sources = [load_agent(agent) for agent in agents]
    names = [source.manifest.name for source in sources]
    for agent_name in agent_concurrency or {}:
        if agent_name not in names:
            raise UsageError(f"The agent {agent_name} has a concurrency, but is not in the sweep")
    for agent_name in names:
        if names.count(agent_name) > 1:
            raise UsageError(f"The agent {agent_name} is named twice", remedy="Name each agent once")
    if corpus.source == "none" or corpus.source_template is None:
        raise InputError(
            f"The corpus {corpus.name} does not say where its repositories are",
            remedy="Import it again with --mirror or --url",
        )
    opened = open_judges(corpus, judges, work_here=settings.broker_url is None, max_cost=max_cost)
    if quiet or not console.is_terminal:
        resolved = resolve_builds(sources, settings)
    else:
        with console.status("Preparing agents") as status:
            resolved = resolve_builds(
                sources, settings, say=lambda line: status.update(plain(f"Preparing agents: {line}"[:76]))
            )
    if resolved.reason is not None and not quiet:
        console.print(
            plain(
                f"Not isolated: agents run as processes of this machine, because {resolved.reason}."
                f" {' '.join(RUNNERS['process'].openings)}"
            ),
            style="yellow",
            soft_wrap=True,
        )
    store = open_store(settings.resolved_store_url)
    try:
        with store.write() as connection:
            return plan(
                connection,
                SweepRequest(
                    name=corpus.name if name is None else name,
                    corpus=corpus,
                    builds=resolved.builds,
                    judges=[judge_plan(*each, resolved.builds) for each in zip(judges, opened, strict=True)],
                    rounds=rounds,
                    snapshot_source={"kind": corpus.source, "template": corpus.source_template},
                    pull_requests=chosen,
                    agent_sources={
                        source.manifest.name: source_reference(agent, source)
                        for agent, source in zip(agents, sources, strict=True)
                    },
                    priority=priority,
                    weight=weight,
                    concurrency=concurrency,
                    agent_concurrency=dict(agent_concurrency or {}),
                    max_cost_usd=max_cost,
                    force=force,
                    renew=renew,
                ),
            )
    finally:
        store.close()


def _by_agent(given: Sequence[str]) -> dict[str, int]:
    """``AGENT=N`` as it is given on the command line."""
    found = {}
    for text in given:
        agent, is_there, number = text.partition("=")
        if not agent or not is_there or not re.fullmatch(r"[0-9]{1,9}", number):
            raise UsageError(f"{text!r} does not say how many reviews of which agent", remedy="Give AGENT=N")
        found[agent] = int(number)
    return found


def _progress(reference: str) -> tuple[Store, Any]:
    from crb_core.store import open_store
    from crb_core.store.sweeps import find_sweep
    from crb_scheduler.progress import read_progress

    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        return store, read_progress(connection, find_sweep(connection, reference).id)
