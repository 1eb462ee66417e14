"""``crb score``: score judgments from a bundle file, with no store and no judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.output import print_json

if TYPE_CHECKING:
    from crb_core.aggregate import Level, Score

__all__ = ["score"]

_RATIO_DIGITS = 4


def score(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scoring bundle (crb.bundle/1).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the score as JSON (crb.score/1).")] = False,
    beta: Annotated[
        float, typer.Option(help="Weight of recall against precision in F, 0.1 to 10; below 1 favours precision.")
    ] = 1.0,
    severity: Annotated[list[str] | None, typer.Option(help="Only this severity; repeat for several.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Only this category; repeat for several.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="Only this scope; repeat for several.")] = None,
    difficulty: Annotated[list[str] | None, typer.Option(help="Only this difficulty; repeat for several.")] = None,
    context_required: Annotated[
        list[str] | None, typer.Option(help="Only findings that need this much context; repeat for several.")
    ] = None,
    actionability: Annotated[
        list[str] | None, typer.Option(help="Only this actionability; repeat for several.")
    ] = None,
    producer: Annotated[
        list[str] | None,
        typer.Option(help="Only golden findings of this producer; repeat for several. No augmented metrics then."),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="reviewbench, answer-key or golden-comments; the bundle's own, else reviewbench."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="golden-comments only: categories that count: strict, core (default) or all.")
    ] = None,
    dedup: Annotated[
        bool | None,
        typer.Option("--dedup/--no-dedup", help="golden-comments only: whether the bundle's dedup groups are used."),
    ] = None,
) -> None:
    """Score judgments that are already there.

    Values of one axis are alternatives, different axes must all hold. Matches are claimed once on the full set and
    never again under a filter.
    """
    from crb_core.formats.bundle import read_bundle
    from crb_core.metrics import to_json
    from crb_core.strata import Subset, check_producers

    subset = Subset.parse(
        severity=severity,
        category=category,
        scope=scope,
        difficulty=difficulty,
        context_required=context_required,
        actionability=actionability,
        producer=producer,
    )
    bundle = read_bundle(file, protocol=protocol)
    bundle.protocol.check_subset(subset)
    check_producers(subset, {golden.producer for judged in bundle.judged for golden in judged.golden})
    options = _golden_comments_options(bundle.protocol.name, profile, dedup)
    if bundle.protocol.name == "golden-comments" and dedup is not False:
        options["dedup_groups"] = bundle.dedup_groups
    result = bundle.protocol.score(bundle.judged, beta=beta, subset=subset, **options)
    if as_json:
        print_json(to_json(result))
    else:
        _print_tables(result, {"severity": bundle.protocol.severities, "category": bundle.protocol.categories})


def _golden_comments_options(protocol: str, profile: str | None, dedup: bool | None) -> dict[str, Any]:
    from crb_core.errors import InputError, Where

    if protocol == "golden-comments":
        return {} if profile is None else {"profile": profile}
    for name, value in (("profile", profile), ("dedup", dedup)):
        if value is not None:
            raise InputError(
                f"the protocol {protocol} has no --{name}",
                where=Where(field=name),
                remedy="Leave it out or add --protocol golden-comments",
            )
    return {}


def _print_tables(result: Score[Any], order: Mapping[str, Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for name, level in (("macro", result.macro), ("micro", result.micro)):
        names = list(type(level.overall).model_fields)
        ratios = [metric for metric in names if type(level.overall).model_fields[metric].annotation is not int]
        title = f"{result.protocol}, {name} average, beta {result.beta:g}"
        # Without borders and with short words, so that no name is cut off on 80 columns.
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("findings", overflow="fold")
        for metric in ratios:
            words = metric.replace("augmented", "aug.").split("_")
            table.add_column("\n".join(words), justify="right", min_width=max(map(len, words)))
        for label, metrics in _rows(level, order):
            table.add_row(Text(label), *(_number(getattr(metrics, metric)) for metric in ratios))
        console.print(table)
    counts = Table(title="counts", title_justify="left", show_header=False)
    overall = result.macro.overall
    for metric in type(overall).model_fields:
        if isinstance(getattr(overall, metric), int):
            counts.add_row(metric.removesuffix("_count").replace("_", " "), str(getattr(overall, metric)))
    console.print(counts)
    console.print(f"{len(result.per_pull_request)} pull requests; - means undefined (nothing to divide by)")
    filters = result.subset.to_json()
    if filters:
        console.print(Text("only " + " and ".join(f"{axis} {' or '.join(v)}" for axis, v in filters.items())))
    for setting, value in result.settings.items():
        console.print(Text(f"{setting}: {value}"))
    unclassified = getattr(overall, "unclassified_count", 0)
    if unclassified:
        console.print(
            f"{unclassified} unmatched candidates have no classification and could belong anywhere, "
            "so what depends on them is undefined until a judge classifies them."
        )


def _rows(level: Level[Any], order: Mapping[str, Sequence[str]]) -> list[tuple[str, Any]]:
    rows = [("all", level.overall)]
    for axis, strata in level.strata.items():
        values = [value for value in order.get(axis, ()) if value in strata]
        values += [value for value in strata if value not in values]
        rows += [(f"{axis} {value}", strata[value]) for value in values]
    return rows


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.{_RATIO_DIGITS}f}"
