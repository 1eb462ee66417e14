"""``crb judge calibrate``: hold a judge against people or other judges, and keep what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from crb_cli.model_calls import FakeModel, MaxCost, fake_model_served, open_call_desk
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.finding import CandidateFinding
    from crb_core.settings import Settings
    from crb_worker.calibration.references import Reference
    from crb_worker.judge.base import Judge

__all__ = ["FORMAT", "calibrate", "figure", "interval", "progress_shown"]

FORMAT = "crb.calibration/1"


def calibrate(
    judge: Annotated[str, typer.Option(help="Judge, with its options.")],
    against: Annotated[
        str,
        typer.Option(
            metavar="REFERENCE",
            help="Labelled corpus (name or folder), golden-comments folder, or label file (CSV or JSON).",
        ),
    ],
    corpus: Annotated[str, typer.Option(help="Corpus of a label file, by name or folder.")] = "showcase",
    pr: Annotated[list[str] | None, typer.Option("--pr", help="Only this pull request (repeatable).")] = None,
    motivating: Annotated[
        list[str] | None,
        typer.Option(help="Pull request that motivated a change of this judge's prompts or options (repeatable)."),
    ] = None,
    include_tuning: Annotated[
        bool,
        typer.Option(
            "--include-tuning", help="Also report examples that the judge was tuned on, marked as not held out."
        ),
    ] = False,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure how far a judge agrees with a reference: matches, labels axis by axis, each with 95% intervals.

    Examples that the judge's tuning used are not reported. The result is stored and shown beside the judge's results.
    Answers are kept: a run that --max-cost, a signal or a fault has ended goes on where it stopped.
    """
    from crb_cli.home import open_home
    from crb_core.settings import load_settings
    from crb_core.store import open_store
    from crb_core.store.calibrations import save_calibration
    from crb_worker.calibration.measure import calibrate as measure
    from crb_worker.calibration.panel import open_panel
    from crb_worker.judge import judge_options, load_judge
    from crb_worker.judge.council import CouncilJudge

    with ExitStack() as stack:
        stack.enter_context(fake_model_served(wanted=fake_model))
        settings = load_settings()
        open_home(settings)
        reference, folder = read_reference(settings, against, corpus)
        reference = _only(reference, pr or ())
        _check_keys(reference, motivating or (), "--motivating")
        store = open_store(settings.resolved_store_url)
        stack.callback(store.close)
        opened: Judge
        if judge_options(judge)[0] == CouncilJudge.kind:
            opened = open_panel(store, judge, reference.corpus, folder)
        else:
            opened = load_judge(judge, corpus=reference.corpus, reference_folder=folder)
        desk = open_call_desk(settings, store, opened.fingerprint, max_cost=max_cost)
        with progress_shown(quiet=as_json) as progress:
            measured = measure(
                opened,
                reference,
                lend=desk.lender(reference.corpus),
                include_tuning=include_tuning,
                motivating=motivating or (),
                slots=settings.judge_slots,
                progress=progress,
            )
        document = _document(opened, reference, measured.model_dump(mode="json"), restricted=bool(pr))
        # A part of a reference, chosen by hand, is no calibration that others should see beside results.
        if not pr:
            with store.write() as connection:
                save_calibration(
                    connection,
                    description=opened.describe(),
                    judge_name=opened.name,
                    reference=reference.name,
                    reference_sha256=reference.sha256,
                    held_out=measured.held_out,
                    document=document,
                )
    if as_json:
        print_json(document)
    else:
        _print(document)


def read_reference(settings: Settings, against: str, corpus: str) -> tuple[Reference, Path | None]:
    """The reference that ``--against`` names, and the folder with its corpus's reference judgments, if any."""
    from crb_cli.sweep import load_named_corpus
    from crb_core.bundled import bundled
    from crb_core.formats.golden_comments import is_golden_comments
    from crb_worker.calibration.references import benchmark, known_candidates, label_file, labelled_corpus

    path = Path(against)
    if path.is_file():
        loaded = load_named_corpus(settings, corpus)
        known = {**_stored_candidates(settings, loaded), **known_candidates(loaded)}
        return label_file(path, loaded, known=known), _judgments(corpus, loaded)
    if is_golden_comments(path):
        return benchmark(path), None
    loaded = load_named_corpus(settings, against)
    folder = _judgments(against, loaded)
    name = loaded.name if not path.is_dir() or (bundled("corpus") / loaded.name) == path.resolve() else path.name
    return labelled_corpus(loaded, folder, name=name or loaded.name), folder


def _stored_candidates(settings: Settings, corpus: Corpus) -> dict[tuple[str, str], CandidateFinding]:
    """The candidates of the store's sweeps over a corpus, which people can label by their ids."""
    from crb_core.store import open_store
    from crb_core.store.labelling import stored_candidates

    if settings.store_url is None and not (settings.home_folder / "crb.sqlite").is_file():
        return {}
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            keys = [entry.pull_request.key for entry in corpus.entries]
            return stored_candidates(connection, corpus.name, keys)
    finally:
        store.close()


def _judgments(name: str, corpus: Corpus) -> Path | None:
    from crb_core.bundled import bundled

    for folder in (Path(name) / "reference", bundled("corpus") / corpus.name / "reference"):
        if folder.is_dir():
            return folder
    return None


def _only(reference: Reference, keys: Sequence[str]) -> Reference:
    from dataclasses import replace

    if not keys:
        return reference
    _check_keys(reference, keys, "--pr")
    return replace(
        reference,
        matches=tuple(each for each in reference.matches if each.entry.pull_request.key in keys),
        labels=tuple(each for each in reference.labels if each.entry.pull_request.key in keys),
    )


def _check_keys(reference: Reference, keys: Sequence[str], option: str) -> None:
    from crb_core.errors import Where
    from crb_core.formats.imported import require_keys

    known = [entry.pull_request.key for entry in reference.corpus.entries]
    for key in keys:
        require_keys(known, key, Where(field=option))


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    if quiet or not console.is_terminal:
        yield lambda _done, _all: None
        return
    with console.status("Judging the examples") as status:
        yield lambda done, whole: status.update(f"Judging the examples: {done} of {whole}")


def _document(judge: Judge, reference: Reference, measured: dict[str, Any], *, restricted: bool) -> dict[str, Any]:
    from crb_core.calibration import calibration_key

    description = judge.describe()
    reported = measured["reported"]
    return {
        "format": FORMAT,
        "judge": {
            "name": judge.name,
            "fingerprint": judge.fingerprint,
            "key": calibration_key(description),
            "classifies": judge.classifies,
            "fake_model": bool(description.get("fake_model", False)),
        },
        "reference": {
            "name": reference.name,
            "kind": reference.kind,
            "sha256": reference.sha256,
            "protocol": reference.corpus.protocol,
            "skipped": list(reference.skipped),
        },
        "held_out": measured["held_out"],
        "restricted": restricted,
        "examples": {
            "unit": "pull requests",
            "reported": reported["pull_requests"],
            "held_out": measured["held_out_pull_requests"],
            "motivating": measured["motivating_pull_requests"],
        },
        "judges": reported["judges"],
        "classifier": reported["classifier"],
        "splits": {"held_out": measured["held_out_split"], "motivating": measured["motivating_split"]},
    }


def _print(document: Mapping[str, Any]) -> None:
    judge, reference, examples = document["judge"], document["reference"], document["examples"]
    console.print()
    console.print(
        Text.assemble(
            ("Calibration ", "bold"),
            plain(f"of judge {judge['name']} ({judge['key']}) against {reference['name']}, "),
            plain(f"{examples['reported']} pull requests"),
        )
    )
    if judge["fake_model"]:
        console.print("A scripted model answered: this says nothing of a real one.", style="yellow")
    if not document["held_out"]:
        console.print(
            f"Not held out: the judge was tuned on {examples['motivating']} of these pull requests.", style="yellow"
        )
    elif examples["motivating"]:
        console.print(f"Left out: {examples['motivating']} pull requests that the judge was tuned on.", style="yellow")
    if reference["skipped"]:
        console.print(f"{len(reference['skipped'])} reviews could not be used; --json lists them.", style="yellow")
    if document["restricted"]:
        console.print("Only some pull requests: this is not stored.", style="yellow")
    if document["judges"]:
        _print_matches(document["judges"])
    if document["classifier"]:
        for rater, axes in document["classifier"].items():
            _print_labels(rater, axes)


def _print_matches(judges: Mapping[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("is a golden finding covered", overflow="fold")
    for title in ("n", "equal", "kappa", "prec.", "recall", "F1", "dF1", "tau"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, each in judges.items():
        table.add_row(
            plain(name),
            str(each["n"]),
            *(figure(each[field]) for field in ("agreement", "kappa", "precision", "recall", "f1")),
            figure(each["largest_f1_difference"]),
            figure(each["kendall_tau"]),
        )
        bounds = [
            interval(each[f"{field}_low"], each[f"{field}_high"])
            for field in ("agreement", "kappa", "precision", "recall", "f1")
        ]
        table.add_row(Text("95%", style="dim"), "", *(Text(each, style="dim") for each in bounds), "", "")
    console.print(table)
    console.print(
        Text(
            "dF1: largest difference of a reviewer's F1. tau: do the reviewers rank as the reference has it.",
            style="dim",
        ),
        soft_wrap=True,
    )
    console.print(Text("F1 of each reviewer: judge's / reference's", style="dim"))
    tools = Table(box=None, pad_edge=False)
    tools.add_column("reviewer", overflow="fold")
    for place, name in enumerate(judges):
        tools.add_column(plain(name), justify="right", overflow="fold", header_style="dim" if place else "")
    for reviewer in sorted({tool for each in judges.values() for tool in each["tools"]}):
        cells = []
        for each in judges.values():
            tool = each["tools"].get(reviewer)
            cells.append("" if tool is None else f"{figure(tool['f1'])} / {figure(tool['reference_f1'])}")
        tools.add_row(plain(reviewer), *cells)
    console.print(tools)


def _print_labels(rater: str, axes: Sequence[Mapping[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(plain(f"labels by {rater}"), overflow="fold")
    for title in ("n", "equal", "95%", "kappa", "95%"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for axis in axes:
        notes = [f"{axis['unanswered']} unanswered"] if axis["unanswered"] else []
        if axis["ordered"] is not None:
            ordered = axis["ordered"]
            notes.append(f"within one level {figure(ordered['within_one']['value'])}")
            notes.append(f"judge higher {ordered['higher']}, lower {ordered['lower']}")
        table.add_row(
            axis["axis"],
            str(axis["n"]),
            figure(axis["agreement"]),
            Text(interval(axis["agreement_low"], axis["agreement_high"]), style="dim"),
            figure(axis["kappa"]),
            Text(interval(axis["kappa_low"], axis["kappa_high"]), style="dim"),
            "; ".join(notes),
        )
    console.print(table)
    for axis in axes:
        if axis["axis"] == "category" and axis["confusion"]:
            console.print(Text("category: people's → the judge's", style="dim"))
            for people, answers in axis["confusion"].items():
                given = ", ".join(f"{name} {count}" for name, count in answers.items())
                console.print(plain(f"  {people} → {given}"))


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def interval(low: float | None, high: float | None) -> str:
    """``.42–.71``; empty where there is no interval."""
    if low is None or high is None:
        return ""
    return "–".join(f"{bound:.2f}".replace("0.", ".", 1) for bound in (low, high))
