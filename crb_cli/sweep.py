"""``crb sweep``: start, follow and steer sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import InputError
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.store import Store
    from crb_core.store.sweeps import JudgePlan
    from crb_scheduler.plan import PlannedSweep

__all__ = ["app", "load_named_corpus", "plan_judges", "run_or_leave_to_the_farm", "start_sweep"]

#: Exit code of a sweep that finished with failed trials.
SOME_TRIALS_FAILED = 3

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
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="List price in USD that the judges' calls may reach.")
    ] = None,
    runner: Annotated[str | None, typer.Option(help="auto, docker or process.")] = None,
    force: Annotated[bool, typer.Option("--force", help="A new sweep even if one of that name exists.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run agents over a corpus. Without a broker setting it runs here until it ends; else the farm's workers do it.

    A second start of the same sweep adds what is missing and repeats nothing.
    """
    if not agent:
        raise InputError("No agent is named", remedy="Give --agent; `crb agent list` shows the bundled ones")
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
    as_json: JsonFlag = False,
) -> None:
    """Store reviews and judgments made elsewhere; the same import again changes nothing."""
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
        as_json=as_json,
    )


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """List the stored sweeps with their progress."""
    from sqlalchemy import select

    from crb_core.store import open_store
    from crb_core.store.tables import SweepRow, core
    from crb_scheduler.progress import read_progress

    sweeps = core(SweepRow)
    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        ids = connection.execute(select(sweeps.c.id).order_by(sweeps.c.created_at, sweeps.c.id)).scalars().all()
        records = [read_progress(connection, sweep_id, failures=0) for sweep_id in ids]
    if as_json:
        print_json({"sweeps": [record.to_json() for record in records]})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("sweep", "id", "state", "trials", "ended", "scored", "failed"):
        table.add_column(title, justify="left" if title in {"sweep", "id", "state"} else "right")
    for record in records:
        failed = record.by_state.get("failed", 0) + record.by_state.get("judge failed", 0)
        state = "finished" if record.finished and record.state == "active" else record.state
        counts = (record.trials, record.ended, record.by_state.get("scored", 0), failed)
        table.add_row(plain(record.name), record.sweep_id, state, *map(str, counts))
    console.print(table)


@app.command()
def show(sweep: SweepName, as_json: JsonFlag = False) -> None:
    """Show a sweep: trials by state and agent, and what failed and why."""
    from crb_cli.watch import Rate, print_failures, progress_view

    store, progress = _progress(sweep)
    store.close()
    if as_json:
        print_json(progress.to_json())
        return
    console.print(progress_view(progress, Rate(), 0.0, failures=0))
    print_failures(progress)


@app.command()
def watch(sweep: SweepName) -> None:
    """Follow a sweep until nothing of it waits or runs. Ctrl-C ends the watching, not the sweep."""
    from crb_cli.watch import follow, print_failures

    store, progress = _progress(sweep)
    try:
        progress = follow(store, progress.sweep_id)
    except KeyboardInterrupt:
        console.print("The sweep goes on.")
        return
    print_failures(progress)
    if progress.failures:
        raise typer.Exit(SOME_TRIALS_FAILED)


@app.command()
def pause(
    sweep: SweepName,
    agent: Annotated[str | None, typer.Option(help="Only this agent's builds.")] = None,
) -> None:
    """Take no more steps of a sweep, or of one agent in it; what runs may end."""
    _set_state(sweep, agent, paused=True)


@app.command()
def resume(
    sweep: SweepName,
    agent: Annotated[str | None, typer.Option(help="Only this agent's builds.")] = None,
) -> None:
    """Go on with a paused, cancelled or interrupted sweep; what is done is kept."""
    from crb_cli.home import require_a_place_to_run

    settings = load_settings()
    require_a_place_to_run(settings)
    _set_state(sweep, agent, paused=False)
    run_or_leave_to_the_farm(settings, [sweep], quiet=False)


@app.command()
def cancel(sweep: SweepName) -> None:
    """End a sweep: nothing more is started and running containers are stopped within seconds."""
    from crb_core.store import open_store
    from crb_core.store.sweeps import find_sweep, set_sweep_state
    from crb_core.store.tables import SweepState

    store = open_store(load_settings().resolved_store_url)
    with store.write() as connection:
        row = find_sweep(connection, sweep)
        set_sweep_state(connection, row.id, SweepState.CANCELLED)
    console.print(plain(f"sweep {row.name} is cancelled; `crb sweep resume {row.name}` goes on with it"))


def load_named_corpus(settings: Settings, reference: str) -> Corpus:
    """A corpus by folder, by the name of a stored one, or by the name of a bundled one."""
    from crb_cli.corpus import read_corpus
    from crb_core.bundled import bundled
    from crb_core.store import open_store
    from crb_core.store.corpora import find_corpus, load_corpus

    folder = Path(reference)
    if "/" in reference or folder.is_dir():
        if not folder.is_dir():
            raise InputError(f"There is no corpus folder {reference}", remedy="Check the path")
        return read_corpus(folder)
    bundled_folder = bundled("corpus") / reference
    if bundled_folder.is_dir():
        return read_corpus(bundled_folder)
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            return load_corpus(connection, find_corpus(connection, reference))
    finally:
        store.close()


def plan_judges(corpus: Corpus, specs: Sequence[str], builds: Sequence[Any]) -> list[JudgePlan]:
    """The judges of a sweep. ``reference`` judges only the recorded reviewers, whose findings people have judged."""
    from crb_core.bundled import bundled
    from crb_core.store.sweeps import JudgePlan
    from crb_worker.judge import load_judge

    plans = []
    for spec in specs:
        judge = load_judge(spec, corpus=corpus, reference_folder=bundled("corpus") / corpus.name / "reference")
        covered = frozenset(build.build_id for build in builds if build.kind == "replay")
        plans.append(
            JudgePlan(
                judge_id=judge.fingerprint,
                name=judge.name,
                classifies=judge.classifies,
                document={"spec": spec, "description": judge.describe()},
                builds=covered if judge.name == "reference" else None,
            )
        )
    return plans


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
    priority: int = 0,
    max_cost: float | None = None,
    force: bool = False,
    renew: bool = False,
    quiet: bool = False,
) -> PlannedSweep:
    """Resolve agents and judges and write the sweep's rows (see SweepRequest for ``force`` and ``renew``)."""
    from crb_cli.builds import resolve_builds
    from crb_core.agent_source import load_agent
    from crb_core.store import open_store
    from crb_scheduler.plan import SweepRequest, choose_pull_requests, plan

    chosen = choose_pull_requests(corpus, keys=keys, subset=subset, limit=limit)
    sources = [load_agent(agent) for agent in agents]
    names = [source.manifest.name for source in sources]
    for agent_name in names:
        if names.count(agent_name) > 1:
            raise InputError(f"The agent {agent_name} is named twice", remedy="Name each agent once")
    if corpus.source == "none" or corpus.source_template is None:
        raise InputError(
            f"The corpus {corpus.name} does not say where its repositories are",
            remedy="Import it again with --mirror or --url",
        )
    if quiet or not console.is_terminal:
        resolved = resolve_builds(sources, settings)
    else:
        with console.status("Preparing agents") as status:
            resolved = resolve_builds(
                sources, settings, say=lambda line: status.update(plain(f"Preparing agents: {line}"[:76]))
            )
    if resolved.reason is not None and not quiet:
        console.print(
            plain(f"Not isolated: agents run as processes of this machine, because {resolved.reason}."),
            style="yellow",
            soft_wrap=True,
        )
    store = open_store(settings.resolved_store_url)
    try:
        with store.write() as connection:
            return plan(
                connection,
                SweepRequest(
                    name=name or corpus.name,
                    corpus=corpus,
                    builds=resolved.builds,
                    judges=plan_judges(corpus, judges, resolved.builds),
                    rounds=rounds,
                    snapshot_source={"kind": corpus.source, "template": corpus.source_template},
                    pull_requests=chosen,
                    priority=priority,
                    max_cost_usd=max_cost,
                    force=force,
                    renew=renew,
                ),
            )
    finally:
        store.close()


def run_or_leave_to_the_farm(settings: Settings, sweeps: Sequence[str], *, quiet: bool) -> None:
    """Run sweeps here until they end, or, where a broker is set, leave them to its scheduler and workers.

    Exits with 3 when they ended and some trials failed.
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
    with stop_on_signals():
        try:
            with LocalFarm(settings) as farm:
                for name in sweeps:
                    with farm.store.read() as connection:
                        sweep_id = find_sweep(connection, name).id
                    progress = follow(farm.store, sweep_id, check=farm.check, quiet=quiet)
                    failures = failures or bool(progress.failures)
                    if not quiet:
                        print_failures(progress)
        except KeyboardInterrupt:
            resume = " and ".join(f"`crb sweep resume {name}`" for name in sweeps)
            console.print(plain(f"Interrupted; what is done is kept. {resume} goes on."), soft_wrap=True)
            raise typer.Exit(1) from None
    if failures:
        raise typer.Exit(SOME_TRIALS_FAILED)


def _progress(reference: str) -> tuple[Store, Any]:
    from crb_core.store import open_store
    from crb_core.store.sweeps import find_sweep
    from crb_scheduler.progress import read_progress

    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        return store, read_progress(connection, find_sweep(connection, reference).id)


def _set_state(reference: str, agent: str | None, *, paused: bool) -> None:
    from crb_core.store import open_store
    from crb_core.store.sweeps import find_sweep, set_build_paused, set_sweep_state, sweep_builds
    from crb_core.store.tables import SweepState

    store = open_store(load_settings().resolved_store_url)
    with store.write() as connection:
        row = find_sweep(connection, reference)
        if agent is None:
            set_sweep_state(connection, row.id, SweepState.PAUSED if paused else SweepState.ACTIVE)
        else:
            mine = [build for build in sweep_builds(connection, row.id) if build.agent == agent]
            if not mine:
                raise InputError(
                    f"The sweep {row.name} has no agent {agent!r}", remedy=f"`crb sweep show {row.name}` lists them"
                )
            for build in mine:
                set_build_paused(connection, row.id, build.build_id, paused)
    store.close()
    what = f"sweep {row.name}" if agent is None else f"agent {agent} of sweep {row.name}"
    console.print(plain(f"{what} is {'paused' if paused else 'active'}"))
