"""``crb export``: a sweep as an archive, as tables, as workbooks, and as other tools' files; a store as a site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as ScreenTable

from crb_cli.export_files import chosen_sweep, safe_name, tables, write_by_tool, write_reviewbench, write_table
from crb_cli.export_labels import export_labels
from crb_cli.export_private import private_of
from crb_cli.export_site import export_site
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import InputError, UsageError, Where
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.store import Store

__all__ = ["app"]

app = typer.Typer(
    help="Export a sweep: archive, CSV, XLSX, ReviewBench files, review counts; all pages as a site.",
    no_args_is_help=True,
)

SweepName = Annotated[str, typer.Argument(metavar="SWEEP", help="Name or id of the sweep.")]
OutFile = Annotated[Path, typer.Option("--out", help="File to write; a table also to - (standard output).")]
OutArchive = Annotated[Path, typer.Option("--out", help="Archive to write, for example sweep.tar.")]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder to write into; it is made.")]
JudgeNames = Annotated[
    list[str] | None, typer.Option("--judge", help="Judge by name or fingerprint (repeatable); all by default.")
]
Agents = Annotated[list[str] | None, typer.Option("--agent", help="Only this agent (repeatable).")]

TABLES = ("leaderboard", "findings", "golden")

app.command("labels")(export_labels)
app.command("site")(export_site)


@app.command("sweep")
def export_sweep(sweep: SweepName, out: OutArchive, as_json: JsonFlag = False) -> None:
    """Write one self-contained archive that `crb verify` can check without a store; same content, same bytes."""
    from crb_core.archive import export_sweep as write
    from crb_core.evidence import open_evidence
    from crb_core.store.sweeps import find_sweep, sweep_builds

    if str(out) == "-" or out.is_dir():
        raise UsageError("an archive is written to a file", where=Where(field="--out"), remedy="Name one")
    settings = load_settings()
    with _open(settings) as store:
        with store.read() as connection:
            sweep_id = find_sweep(connection, sweep).id
            builds = sweep_builds(connection, sweep_id)
        private = private_of(settings, builds)
        evidence = open_evidence(settings.resolved_evidence_url)
        if as_json or not console.is_terminal:
            exported = write(store, evidence, sweep_id, out, private)
        else:
            with console.status("Writing the archive"):
                exported = write(store, evidence, sweep_id, out, private)
    if as_json:
        print_json(
            {
                "format": "crb.export/1",
                "file": str(out),
                "content_sha256": exported.content_sha256,
                "files": exported.files,
                "bytes": exported.bytes,
                "trials": exported.trials,
                "findings": exported.findings,
                "evidence_missing": list(exported.missing),
                "evidence_withheld": list(exported.withheld),
            }
        )
        return
    console.print(
        plain(
            f"{out}: {exported.trials} trials, {exported.findings} findings in {exported.files} files, "
            f"{exported.bytes / 1e6:.1f} MB, content {exported.content_sha256}"
        ),
        soft_wrap=True,
    )
    for digests, why in (
        (exported.missing, "are not in the evidence store any more, or damaged there"),
        (exported.withheld, "name folders of this machine or hold a secret"),
    ):
        if digests:
            console.print(plain(f"{len(digests)} blobs {why} and were left out; the archive says so"), style="yellow")


@app.command("csv")
def export_csv(
    sweep: SweepName,
    out: OutFile,
    table: Annotated[str, typer.Option(help=f"What to write: {', '.join(TABLES)}.")] = "leaderboard",
    judge: JudgeNames = None,
) -> None:
    """Write the leaderboard, the findings or the golden findings as CSV; text that looks like a formula gets a '."""
    _check_table(table)
    with _open(load_settings()) as store, store.read() as connection:
        rows = write_table(tables(store, connection, sweep, judge, [table])[0], out)
    if str(out) != "-":
        console.print(plain(f"{out}: {rows} rows"), soft_wrap=True)


@app.command("xlsx")
def export_xlsx(
    sweep: SweepName,
    out: Annotated[Path, typer.Option("--out", help="Workbook to write (.xlsx), or with --by-tool a folder.")],
    by_tool: Annotated[
        bool, typer.Option("--by-tool", help="One workbook a tool: its reviews, with what was found and missed.")
    ] = False,
    judge: JudgeNames = None,
    agent: Agents = None,
) -> None:
    """Write a workbook with leaderboard, findings and golden findings, or one workbook a tool."""
    from crb_core.evidence import open_evidence
    from crb_core.formats.xlsx import write_workbook

    settings = load_settings()
    with _open(settings) as store, store.read() as connection:
        # What does not end in .xlsx is no workbook, so a folder is meant.
        if by_tool or out.suffix.lower() != ".xlsx":
            evidence = open_evidence(settings.resolved_evidence_url)
            by_tool_written = write_by_tool(connection, evidence, sweep, out, judge, agent)
            console.print(plain(f"{out}: {by_tool_written.workbooks} workbooks"), soft_wrap=True)
            _say_written(out, by_tool_written.rows, by_tool_written.cut)
            return
        if agent:
            raise UsageError("--agent goes with --by-tool", remedy="Add --by-tool or leave --agent out")
        written = write_workbook(out, tables(store, connection, sweep, judge, TABLES))
    _say_written(out, written.rows, written.cut)


@app.command("reviewbench")
def export_reviewbench(
    sweep: SweepName,
    out: OutFolder,
    judge: JudgeNames = None,
    agent: Agents = None,
    round_number: Annotated[int | None, typer.Option("--round", min=1, help="Only this round.")] = None,
) -> None:
    """Write ReviewBench's results.json and results.details.json: OUT/AGENT/round-N, or OUT/JUDGE/AGENT/round-N."""
    from crb_core.store.exports import judged_parts, judged_trials

    with _open(load_settings()) as store, store.read() as connection:
        sweep_id, corpus, judges = chosen_sweep(connection, sweep, judge)
        if corpus.protocol != "reviewbench":
            raise InputError(
                f"the sweep {sweep} is of the protocol {corpus.protocol}, which ReviewBench's files cannot hold",
                remedy="Use `crb export csv` or `crb export xlsx`",
            )
        written = 0
        unclassified = 0
        for each in judges:
            parts = [
                (build, part)
                for build, part in judged_parts(connection, sweep_id, each)
                if (not agent or build.agent in agent) and round_number in (None, part[1])
            ]
            agents = [build.agent for build in {build.build_id: build for build, _ in parts}.values()]
            for build, part in parts:
                trials = list(judged_trials(connection, sweep_id, corpus, each, build, part))
                name = build.agent if agents.count(build.agent) == 1 else f"{build.agent}-{build.build_id}"
                folder = out / (safe_name(each.name) if len(judges) > 1 else ".") / safe_name(name) / f"round-{part[1]}"
                unclassified += write_reviewbench(folder, sweep, trials)
                written += 1
    if not written:
        raise InputError("nothing was chosen", remedy="Check --judge, --agent and --round")
    console.print(plain(f"{out}: {written} rounds"), soft_wrap=True)
    if unclassified:
        console.print(
            plain(
                f"{unclassified} findings have no classification. The format knows no such state: they are written as "
                "novel_fp without a classifier label, and the augmented metrics are null"
            ),
            style="yellow",
            soft_wrap=True,
        )


@app.command("summary")
def export_summary(
    sweep: SweepName,
    out: Annotated[Path | None, typer.Option("--out", help="Write it as CSV instead of printing it.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """How many reviews there are, by tool and repository."""
    from crb_core.store.exports import review_summary

    with _open(load_settings()) as store, store.read() as connection:
        sweep_id, corpus, _ = chosen_sweep(connection, sweep, None, needs_judge=False)
        summary = review_summary(connection, sweep_id, corpus)
    if as_json:
        print_json(summary.to_json())
        return
    table = summary.table()
    if out is not None:
        write_table(table, out)
        return
    screen = ScreenTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    lines: list[tuple[object, ...]] = [tuple(table.columns), *map(tuple, table.rows)]
    if sum(len(column) + 1 for column in table.columns) > console.width:
        # Many repositories are rows, so that their names stay whole.
        lines = list(zip(*lines, strict=True))
    for place, column in enumerate(lines[0]):
        screen.add_column(plain(str(column)), justify="right" if place else "left", overflow="fold")
    for row in lines[1:]:
        screen.add_row(*(plain(str(cell)) for cell in row))
    console.print(screen)


@app.command("speed")
def export_speed(
    file: Annotated[Path, typer.Argument(help="Timelines (crb.timelines/1), or a speed_analysis.json.")],
    compatible: Annotated[
        bool, typer.Option("--compatible", help="Nearest-index percentiles as the public tool takes them, not Type 7.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Review latency of each tool from downloaded GitHub timelines; needs no store."""
    from crb_core.formats.speed import read_speed

    tools = read_speed(file, compatible=compatible)
    if as_json:
        print_json(tools)
        return
    screen = ScreenTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    screen.add_column("tool", overflow="fold")
    for name in ("reviews", "failed", "mean s", "p25", "median", "p75", "min", "max"):
        screen.add_column(name, justify="right")
    for tool, record in tools.items():
        stats = record["stats"] or {}
        names = ("mean", "p25", "median", "p75", "min", "max")
        values = [stats.get(f"{name}_seconds") for name in names]
        screen.add_row(
            plain(tool),
            str(len(record["per_pr"])),
            str(record["failed_count"]),
            *("–" if value is None else f"{value:.0f}" for value in values),
        )
    console.print(screen)
    kind = "nearest-index, as the public tool takes them" if compatible else "Type 7 (linear)"
    console.print(f"Seconds from the start of a review to its last comment; percentiles {kind}.", style="dim")


# -- what the commands share -------------------------------------------------------------------------------------------


class _open:  # noqa: N801 - a context manager reads as a verb
    """The store for the length of a command."""

    def __init__(self, settings: Settings) -> None:
        from crb_core.store import open_store

        self._store = open_store(settings.resolved_store_url)

    def __enter__(self) -> Store:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def _check_table(table: str) -> None:
    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}", remedy=f"Use one of {', '.join(TABLES)}")


def _say_written(out: Path, rows: int, cut: int) -> None:
    console.print(plain(f"{out}: {rows} rows"), soft_wrap=True)
    if cut:
        console.print(
            plain(f"{cut} texts were longer than a cell can hold and end with a remark that says so"), style="yellow"
        )
