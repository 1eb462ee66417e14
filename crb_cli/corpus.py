"""``crb corpus``: check, seal and prepare corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.audit_corpus import audit_corpus
from crb_cli.dedup import dedup_corpus
from crb_cli.label_corpus import label_corpus
from crb_cli.label_effect import corpus_effect
from crb_cli.output import print_json
from crb_cli.propose import propose

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.errors import CrbError
    from crb_worker.corpus_check import CorpusReport, Counts

__all__ = ["app", "read_corpus"]

app = typer.Typer(help="Corpora: sets of pull requests with their golden findings.", no_args_is_help=True)

_AXES = {"language": "Language", "change_type": "Change type", "severity": "Severity", "category": "Category"}


@app.command("import")
def import_(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="reviewbench or golden-comments.")],
    path: Annotated[Path, typer.Argument(help="Folder that holds the corpus.")],
    name: Annotated[str, typer.Option(help="Name of the corpus in the store.")],
    mirror: Annotated[
        str | None, typer.Option(help="reviewbench: folder of local mirrors, with {owner}, {repo} and {number}.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="reviewbench: git URL, with {owner}, {repo} and {number}.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="reviewbench: what the findings are for, reviewbench (default) or answer-key."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Store a corpus and report every irregularity; the same import again changes nothing."""
    from crb_cli.imports import import_corpus

    import_corpus(format, path, name=name, mirror=mirror, url=url, protocol=protocol, as_json=as_json)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the corpora."""
    from crb_cli.corpora import list_corpora

    list_corpora(as_json=as_json)


@app.command()
def show(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a corpus with its pull requests; --json adds the golden findings with their ids."""
    from crb_cli.corpora import show_corpus

    show_corpus(corpus, as_json=as_json)


@app.command()
def validate(
    path: Annotated[Path, typer.Argument(help="Folder of a text corpus or of ReviewBench's corpus, or showcase.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    seal: Annotated[
        bool, typer.Option("--seal", help="Text corpus: first write commit ids, traits, provenance and finding ids.")
    ] = False,
) -> None:
    """Check a corpus and report every problem with its file and field; exit status 1 if there is one."""
    from crb_worker.corpus_check import check_corpus, seal_corpus

    folder = _folder(path)
    sealed = seal_corpus(folder) if seal else ()
    report = check_corpus(folder)
    if as_json:
        print_json(_report_json(report, sealed))
    else:
        _print_report(report, sealed)
    if report.problems:
        raise typer.Exit(1)


app.command()(propose)
app.command("label")(label_corpus)
app.command("audit")(audit_corpus)
app.command("dedup")(dedup_corpus)
app.command("effect")(corpus_effect)


@app.command()
def snapshot(
    path: Annotated[Path, typer.Argument(help="Folder of a text corpus or of ReviewBench's corpus, or showcase.")],
    keys: Annotated[list[str] | None, typer.Argument(help="Pull request keys; all of the corpus if none.")] = None,
    mirror: Annotated[
        str | None, typer.Option(help="Folder of local mirrors, with {owner}, {repo} and {number}.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Git URL, with {owner}, {repo} and {number}.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of the snapshots; by default in CRB_HOME.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build the frozen repositories of a corpus, or find and verify them in the cache."""
    from crb_core.errors import InputError
    from crb_core.settings import load_settings
    from crb_worker.snapshot import SnapshotCache, source_for

    corpus = read_corpus(path, mirror=mirror, url=url)
    by_key = {entry.pull_request.key: entry.pull_request for entry in corpus.entries}
    for key in keys or ():
        if key not in by_key:
            raise InputError(
                f"the corpus has no pull request {key!r}", remedy=f"It has {', '.join(list(by_key)[:5])} and others"
            )
    source = source_for(corpus.source, corpus.source_template)
    store = SnapshotCache(cache or load_settings().snapshots_folder)
    rows: list[dict[str, Any]] = []
    for key in keys or list(by_key):
        found = store.get(source, by_key[key])
        rows.append(
            {
                "key": key,
                "base": found.pull_request.base,
                "head": found.pull_request.head,
                "merge_base": found.merge_base,
                "repo": str(found.repo),
                "diff": str(found.pr_files / "diff.patch"),
                "pr_json": str(found.pr_files / "pr.json"),
                "missing": list(found.missing),
            }
        )
        if not as_json:
            typer.echo(f"{key}  {found.folder}")
            for name in found.missing:
                typer.echo(f"  not in the source, so absent from the checkout: {name!r}")
    if as_json:
        print_json({"format": "crb.snapshots/1", "snapshots": rows})


def read_corpus(path: Path, *, name: str | None = None, mirror: str | None = None, url: str | None = None) -> Corpus:
    """The corpus in a folder, whichever form it has; ``mirror`` or ``url`` says where its repositories are.

    ``name`` names a ReviewBench corpus (by default after its folder). Raises CrbError.
    """
    import re

    from crb_core.errors import InputError, UsageError
    from crb_core.formats.reviewbench import read_reviewbench
    from crb_core.formats.showcase import is_text_corpus, read_showcase
    from crb_worker.corpus_check import require_corpus

    path = _folder(path)
    if mirror and url:
        raise UsageError("both a mirror folder and a git URL are given", remedy="Give one of --mirror and --url")
    if is_text_corpus(path):
        if mirror or url:
            raise InputError("a text corpus brings its repositories itself", remedy="Leave out --mirror and --url")
        return read_showcase(path.absolute())
    require_corpus(path)
    plain = re.sub(r"[^a-z0-9._-]+", "-", path.absolute().name.lower()).strip("-._") or "reviewbench"
    corpus, _ = read_reviewbench(
        path,
        name or plain,
        source="mirror" if mirror else "git" if url else "none",
        source_template=mirror or url,
    )
    return corpus


def _folder(path: Path) -> Path:
    """The folder itself, the bundled corpus of that name, or the folder of a corpus.toml or manifest."""
    from crb_core.bundled import bundled

    if path.is_file():
        from crb_core.formats.reviewbench import folder_of_manifest

        return path.parent if path.name == "corpus.toml" else folder_of_manifest(path)
    if path == Path("showcase") and not path.exists():
        return bundled("corpus") / "showcase"
    return path


def _report_json(report: CorpusReport, sealed: tuple[Path, ...]) -> dict[str, Any]:
    return {
        "format": "crb.corpus-check/1",
        "path": str(report.folder),
        "kind": report.kind,
        "ok": not report.problems,
        "fingerprint": report.fingerprint,
        "sealed": [str(path) for path in sealed],
        "problems": [_problem_json(problem) for problem in report.problems],
        "notes": list(report.notes),
        "total": _counts_json(report.total),
        "groups": {
            axis: [{"value": value, **_counts_json(counts)} for value, counts in values.items()]
            for axis, values in report.groups.items()
        },
    }


def _problem_json(problem: CrbError) -> dict[str, Any]:
    where = problem.where
    return {
        "problem": problem.problem,
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "field": where.field if where else None,
        "remedy": problem.remedy,
    }


def _counts_json(counts: Counts) -> dict[str, int]:
    return {"pull_requests": counts.pull_requests, "tp": counts.tp, "fp": counts.fp}


def _print_report(report: CorpusReport, sealed: tuple[Path, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None)
    if sealed:
        console.print(f"Sealed: {len(sealed)} files written.")
    if report.total.pull_requests:
        table = Table(title="Golden findings", width=min(80, console.width), title_justify="left")
        table.add_column("", overflow="fold")
        for heading in ("Pull requests", "tp", "fp", "All"):
            table.add_column(heading, justify="right")
        for axis, values in report.groups.items():
            table.add_section()
            table.add_row(Text(_AXES[axis], style="bold"))
            for value, counts in values.items():
                _add_row(table, f"  {value if value is not None else 'not recorded'}", counts)
        table.add_section()
        _add_row(table, "All", report.total)
        console.print(table)
    for note in report.notes:
        console.print(Text(f"Note: {note}"), soft_wrap=True)
    for problem in report.problems:
        console.print(Text(str(problem)), soft_wrap=True)
    if report.problems:
        count = len(report.problems)
        console.print(f"{report.folder}: {count} problem{'s' if count > 1 else ''}.", soft_wrap=True, markup=False)
    else:
        console.print(f"{report.folder}: no problems. Fingerprint {report.fingerprint}", soft_wrap=True, markup=False)


def _add_row(table: Any, name: str, counts: Counts) -> None:
    from rich.text import Text

    numbers = (counts.pull_requests, counts.tp, counts.fp, counts.tp + counts.fp)
    table.add_row(Text(name), *(str(number) for number in numbers))
