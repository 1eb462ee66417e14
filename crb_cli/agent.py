"""``crb agent``: the agents at hand, and trying one on a single pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import InputError, UnavailableError
from crb_core.runners import RUNNERS
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.agent import AgentBuild
    from crb_core.agent_source import AgentSource
    from crb_worker.sandbox.contract import AttemptResult

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List, validate, build and try agents.")

#: How much of an agent's output is shown.
SHOWN_LINES = 20
SHOWN_FINDINGS = 30

#: What a vendor can do about an outcome.
ADVICE = {
    "nonzero_exit": "The agent must exit with status 0 once its findings file is complete.",
    "timeout": "Raise pr_timeout_seconds in agent.toml (at most 3600), or let the agent stop earlier.",
    "out_of_memory": "Raise limits.memory_mib in agent.toml, or let the agent use less.",
    "output_missing": "Write the findings to the file named by RB_OUT before exiting with status 0.",
    "output_invalid": "Correct the findings file; docs/tutorial.md shows a complete one.",
    "output_too_large": "Report fewer or shorter findings, or raise limits.findings_mib in agent.toml.",
    "wrong_pull_request": "Copy repo, pr_number, base and head from the file named by RB_PR_JSON.",
    "image_unavailable": "Build or pull the image on this machine first.",
    "engine_error": "This is the farm's fault, not the agent's; `crb doctor` shows what is wrong.",
}


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """List the bundled agents."""
    from crb_core.agent_source import list_agents

    sources = list_agents()
    if as_json:
        print_json({"agents": [_manifest_json(source) for source in sources]})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("agent", "kind", "runs as", "what it is"):
        table.add_column(title)
    for source in sources:
        manifest = source.manifest
        runs = "container, process" if manifest.process_command else "container"
        table.add_row(manifest.name, manifest.kind, runs, plain(manifest.display_name))
    console.print(table)


@app.command()
def validate(
    agent: Annotated[str, typer.Argument(help="Bundled agent, folder with agent.toml, or ReviewBench manifest.")],
    as_json: JsonFlag = False,
) -> None:
    """Check an agent's manifest and folder; the first problem is named with its file, line and field."""
    from crb_core.agent_source import load_agent

    source = load_agent(agent)
    if source.manifest.image is None:
        source.context_files()
    if as_json:
        print_json(_manifest_json(source))
    else:
        console.print(plain(f"{source.manifest.name} is valid"))


@app.command()
def build(
    agent: Annotated[str, typer.Argument(help="Bundled agent or folder with agent.toml and Dockerfile.")],
    as_json: JsonFlag = False,
) -> None:
    """Build an agent's image. Nothing is done when the same folder and base image were built before."""
    from crb_cli.builds import resolve_builds
    from crb_core.agent_source import load_agent

    settings = load_settings(runner="docker")
    say = (lambda _: None) if as_json else (lambda line: console.print(plain(line), style="dim"))
    built = resolve_builds([load_agent(agent)], settings, say=say).builds[0]
    if as_json:
        print_json(built.model_dump(mode="json") | {"build_id": built.build_id})
    else:
        console.print(plain(f"{built.image} {built.image_id}"), soft_wrap=True)


@app.command("try")
def try_(
    agent: Annotated[str, typer.Argument(help="Bundled agent, folder, manifest, or the reference of an image.")],
    corpus: Annotated[str, typer.Option(help="Corpus by name or folder.")] = "showcase",
    pr: Annotated[str | None, typer.Option("--pr", help="Pull-request key; the corpus's first by default.")] = None,
    runner: Annotated[str | None, typer.Option(help="auto, docker or process.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run an agent once on one pull request and explain the verdict. Nothing is stored."""
    import secrets
    import shutil
    import tempfile
    from pathlib import Path

    from crb_cli.home import open_home
    from crb_cli.sweep import load_named_corpus
    from crb_core.scrub import Scrubber
    from crb_scheduler.plan import choose_pull_requests
    from crb_worker.agent_secrets import agent_secrets
    from crb_worker.sandbox.contract import AttemptRequest
    from crb_worker.sandbox.scrubbing import without_secrets
    from crb_worker.sandbox.select import open_sandbox
    from crb_worker.snapshot import SnapshotCache, source_for

    settings = load_settings(runner=runner)
    open_home(settings)
    loaded = load_named_corpus(settings, corpus)
    key = choose_pull_requests(loaded, keys=[pr] if pr else (), limit=1)[0]
    entry = loaded.entry(key)
    agent_build, reason = _resolve(agent, settings, quiet=as_json)
    if reason and not as_json:
        openings = " ".join(RUNNERS["process"].openings)
        console.print(plain(f"Not isolated: {reason}. {openings}"), style="yellow", soft_wrap=True)
    snapshot = SnapshotCache(settings.snapshots_folder).get(
        source_for(loaded.source, loaded.source_template), entry.pull_request
    )
    # Beside the other attempts, where a Docker engine may mount; its own folder, so that a sweep's reaper stays away.
    workspace = Path(tempfile.mkdtemp(prefix="try-", dir=settings.home_folder))
    values = agent_secrets(agent_build, settings)
    try:
        sandbox = open_sandbox(agent_build.runner, slots=1, workspace=workspace, settings=settings)
        try:
            result = sandbox.run(
                AttemptRequest(
                    attempt_id=f"try-{secrets.token_hex(6)}",
                    attempt_number=1,
                    round=1,
                    pull_request=entry.pull_request,
                    build=agent_build,
                    repo=snapshot.repo,
                    pr_files=snapshot.pr_files,
                    workspace=workspace,
                    farm=f"{settings.farm}-try",
                    in_diff=snapshot.diff.in_diff,
                    secrets=values,
                )
            )
            result = without_secrets(result, Scrubber(values.values()))
        finally:
            sandbox.reap(f"{settings.farm}-try", ())
            sandbox.close()
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    if as_json:
        print_json(_result_json(agent_build, key, result))
    else:
        _explain(agent_build, key, result)
    if result.outcome.value != "succeeded":
        raise typer.Exit(1)


def _resolve(agent: str, settings: Settings, *, quiet: bool) -> tuple[AgentBuild, str | None]:
    """A build of a known agent, or of an image that has no manifest yet, with default limits."""
    from crb_cli.builds import resolve_builds
    from crb_core.agent import AgentManifest
    from crb_core.agent_source import AgentSource, load_agent

    try:
        source = load_agent(agent)
    except InputError:
        if not re.fullmatch(r"[a-z0-9][a-z0-9._/:@-]{1,254}", agent) or agent.endswith((".toml", ".json")):
            raise
        name = re.sub(r"[^a-z0-9._-]+", "-", agent.split("@")[0])[-60:].strip("-._")
        source = AgentSource(
            manifest=AgentManifest(
                name=name if len(name) > 1 else f"image-{name}", display_name=name or agent[:64], image=agent
            ),
            folder=None,
        )
        settings = settings.model_copy(update={"runner": "docker"})
        try:
            resolved = resolve_builds([source], settings)
        except UnavailableError as unavailable:
            raise UnavailableError(
                f"{agent!r} is neither a bundled agent nor an image that can be had: {unavailable.problem}",
                remedy="`crb agent list` shows the bundled agents; build or pull an image first",
            ) from None
        return resolved.builds[0], None
    if quiet:
        resolved = resolve_builds([source], settings)
    else:
        with console.status("Preparing the agent"):
            resolved = resolve_builds([source], settings)
    return resolved.builds[0], resolved.reason


def _explain(agent_build: AgentBuild, key: str, result: AttemptResult) -> None:
    verdict = result.outcome.value
    style = "green" if verdict == "succeeded" else "red"
    console.print(plain(f"{agent_build.agent} on {key}: {verdict}"), style=f"bold {style}")
    console.print(plain(result.detail), soft_wrap=True)
    took = "no review" if result.review_ms is None else f"review {result.review_ms:.0f} ms"
    engine = "" if result.engine_ms is None else f", engine's own {result.engine_ms:.0f} ms"
    limits = agent_build.limits
    console.print(
        plain(
            f"{took}{engine}; limits: {limits.timeout_seconds} s, {limits.memory_mib} MiB, {limits.cpus:g} CPU, "
            f"{limits.pids} processes; image {result.image_id[:19]}"
        ),
        style="dim",
        soft_wrap=True,
    )
    if result.findings:
        outside = sum(finding.in_diff is False for finding in result.findings)
        count = "1 finding" if len(result.findings) == 1 else f"{len(result.findings)} findings"
        console.print(f"{count}, {outside} of them outside the diff:")
        for finding in result.findings[:SHOWN_FINDINGS]:
            console.print(plain(f"  {finding.file}:{finding.lines} {finding.message}"), soft_wrap=True)
        if len(result.findings) > SHOWN_FINDINGS:
            console.print(f"  ... and {len(result.findings) - SHOWN_FINDINGS} more")
    if verdict in ADVICE:
        console.print(ADVICE[verdict], markup=False, soft_wrap=True)
    for name, data, cut in (
        ("stdout", result.stdout, result.stdout_truncated),
        ("stderr", result.stderr, result.stderr_truncated),
    ):
        lines = data.decode(errors="replace").splitlines()
        if lines:
            note = " (its beginning was dropped)" if cut else ""
            console.print(f"last lines of {name}{note}:", style="dim")
            for line in lines[-SHOWN_LINES:]:
                console.print(plain(f"  {line}"), soft_wrap=True)
    silent = [
        entry.key
        for entry in agent_build.configuration
        if entry.value.encode() not in result.stdout + result.stderr + (result.findings_bytes or b"")
    ]
    if silent and verdict == "succeeded":
        console.print(
            plain(f"Note: the agent's output never shows its configuration of {', '.join(silent)}; does it use it?"),
            style="yellow",
            soft_wrap=True,
        )


def _result_json(agent_build: AgentBuild, key: str, result: AttemptResult) -> dict[str, Any]:
    return {
        "format": "crb.try/1",
        "agent": agent_build.agent,
        "build": agent_build.build_id,
        "image_id": result.image_id,
        "isolated": agent_build.isolated,
        "pull_request": key,
        "outcome": result.outcome.value,
        "detail": result.detail,
        "advice": ADVICE.get(result.outcome.value),
        "exit_code": result.exit_code,
        "review_ms": result.review_ms,
        "engine_ms": result.engine_ms,
        "phases_ms": result.phases,
        "usage": result.usage,
        "findings": [finding.model_dump(mode="json") for finding in result.findings],
        "stdout": result.stdout.decode(errors="replace"),
        "stderr": result.stderr.decode(errors="replace"),
        "stdout_truncated": result.stdout_truncated,
        "stderr_truncated": result.stderr_truncated,
    }


def _manifest_json(source: AgentSource) -> dict[str, Any]:
    return source.manifest.model_dump(mode="json") | {
        "bundled": source.is_bundled,
        "folder": None if source.folder is None else str(source.folder),
    }
