"""``crb leaderboard distributions|usage|ablation``: what is behind the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from crb_cli import filters
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.comment_rows import CommentRow
    from crb_core.row_usage import RowUsage
    from crb_core.rows import Row
    from crb_core.usage import FailedAttempts, Figure

__all__ = ["ablation", "distributions", "usage"]

_UNITS = {"review_ms": "ms", "cost_usd": "USD"}


def distributions(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: filters.Judge = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only these agents (repeatable).")] = None,
    pull_request: Annotated[
        list[str] | None, typer.Option(help="Distributions of single pull requests' trials (repeatable).")
    ] = None,
    profile: filters.Profile = None,
    no_dedup: filters.NoDedup = False,
    as_json: JsonFlag = False,
) -> None:
    """Print minimum, Type-7 p50 and p95, and maximum of review time, tokens, cost and every metric over trials."""
    from crb_cli.leaderboard_rows import counting_words, load_rows
    from crb_core.errors import InputError
    from crb_core.store.sweep_rows import distributions_of

    about = load_rows(sweep, judge, profile=profile, no_dedup=no_dedup).rows
    for key in pull_request or ():
        if key not in about.pull_requests:
            raise InputError(f"The sweep has no pull request {key}", remedy="`crb trial list` shows them")
    rows = about.chosen(agent)
    parts: list[tuple[str, list[str] | None]] = [(key, [key]) for key in pull_request or ()]
    parts = parts or [("all pull requests, mixed", None)]
    records = [
        {
            "agent": row.build.agent,
            "build": row.build.build_id,
            "over": name,
            "mixes_pull_requests": keys is None,
            "scored": sum(each.scored for each in row.trials if keys is None or each.pull_request in keys),
            "unscored": sum(not each.scored for each in row.trials if keys is None or each.pull_request in keys),
            "distributions": distributions_of(row, keys),
        }
        for row in rows
        for name, keys in parts
    ]
    if as_json:
        for record in records:
            found: Any = record["distributions"]
            record["distributions"] = {name: each.model_dump(mode="json") for name, each in found.items()}
        print_json(
            {
                "format": "crb.distributions/1",
                "beta": 1.0,
                **about.to_json(),
                "rows": records,
            }
        )
        return
    if about.counting:
        console.print(counting_words(about), style="dim")
    for record in records:
        console.print()
        console.print(
            plain(f"{record['agent']}, {record['over']}: {record['scored']} scored trials, {record['unscored']} not")
        )
        table = Table(box=None, pad_edge=False)
        for title in ("", "min", "p50", "p95", "max", "measured"):
            table.add_column(title, justify="left" if not title else "right")
        shown: Any = record["distributions"]
        for name, each in shown.items():
            unit = f" ({_UNITS[name]})" if name in _UNITS else ""
            values = (each.minimum, each.p50, each.p95, each.maximum)
            table.add_row(
                name + unit,
                *(Text("–", style="dim") if value is None else f"{value:.4g}" for value in values),
                f"{each.measured}/{each.scored}",
            )
        console.print(table)
    console.print(Text("–: not every scored trial measured it, so there is no distribution.", style="dim"))


def usage(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: filters.Judge = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only these agents (repeatable).")] = None,
    profile: filters.Profile = None,
    no_dedup: filters.NoDedup = False,
    as_json: JsonFlag = False,
) -> None:
    """Print tokens, observed charges and time: totals, per finding, per covered golden finding, and what they buy."""
    from crb_cli.leaderboard_rows import counting_words, load_rows
    from crb_core.store.judge_costs import judge_costs
    from crb_core.store.sweep_rows import usage_of

    loaded = load_rows(sweep, judge, profile=profile, no_dedup=no_dedup)
    about = loaded.rows
    rows = about.chosen(agent)
    with loaded.store.read() as connection:
        costs = judge_costs(connection, about.sweep_id, about.judge.judge_id)
    found = [(row, usage_of(row)) for row in rows]
    if as_json:
        head = about.to_json()
        print_json(
            {
                "format": "crb.usage/1",
                **head,
                "judge": head["judge"] | {"costs": costs.model_dump(mode="json")},
                "rows": [
                    {
                        "agent": row.build.agent,
                        "build": row.build.build_id,
                        "rounds": list(row.used),
                        **used.model_dump(mode="json"),
                    }
                    for row, used in found
                ],
            }
        )
        return
    console.print("Usage of the scored reviews in the rounds that the leaderboard averages")
    if about.counting:
        console.print(counting_words(about), style="dim")
    table = Table(box=None, pad_edge=False)
    for title in ("agent", "", "seconds", "tokens", "USD"):
        table.add_column(title, justify="left" if title in {"agent", ""} else "right", overflow="fold")
    for row, used in found:
        for line in _usage_lines(row, used):
            table.add_row(*line)
    console.print(table)
    console.print(
        Text(
            "(n/N): n of N reviews reported it. –: not every review measured it. Only charges with evidence count. "
            "Failed attempts, of every round, are in their own line alone; what one used that reported nothing is not "
            "known. Token totals are comparable only where the same models are counted:",
            style="dim",
        )
    )
    for row, used in found:
        models = ", ".join(used.usage.models) if used.usage.models else used.usage.models_reason or ""
        console.print(Text.assemble("  ", plain(f"{row.build.agent}: {models}"), style="dim"))
    if costs.calls:
        console.print(
            plain(
                f"Judge {about.judge.name}: {costs.calls} calls, "
                + ("no observed charge" if costs.charge_usd is None else f"{costs.charge_usd:.4f} USD observed")
                + ("" if costs.list_price_usd is None else f", list price {costs.list_price_usd:.4f} USD (an estimate)")
            )
        )


def ablation(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: filters.Judge = None,
    beta: filters.Beta = 1.0,
    as_json: JsonFlag = False,
) -> None:
    """Score the sweep once without each producer of golden findings, and show who contributed what."""
    from crb_cli.leaderboard import open_sweep
    from crb_core.ablation import left_out, producer_mix
    from crb_core.leaderboard import leaderboard
    from crb_core.rows import RANKINGS
    from crb_core.store.boards import judge_json

    _, about = open_sweep(
        sweep,
        judge,
        no_comments="golden comments have one producer each, so a sweep of golden-comments has no ablation by producer",
    )
    ranking = RANKINGS[about.protocol]
    mix = producer_mix(about.golden)
    whole = leaderboard(about.measured(), beta=beta)
    shown = (ranking.precision, ranking.recall, ranking.headline)
    records = []
    for producer in sorted(row.name for row in mix.by_producer):
        board = leaderboard(about.measured_without(producer), beta=beta)
        before = {row.build.build_id: row for row in whole.rows}
        records.append(
            {
                **left_out(about.golden, producer).model_dump(mode="json", exclude={"prefixes"}),
                "producer": producer,
                "rows": [_without(row, before[row.build.build_id], shown) for row in board.rows],
            }
        )
    if as_json:
        print_json(
            {
                "format": "crb.ablation/1",
                "sweep": about.sweep_name,
                "sweep_id": about.sweep_id,
                "corpus_fingerprint": about.corpus_fingerprint,
                "protocol": about.protocol,
                "judge": judge_json(about.judge),
                "beta": beta,
                "mix": mix.model_dump(mode="json"),
                "whole": [_without(row, row, shown) for row in whole.rows],
                "left_out": records,
            }
        )
        return
    for title, rows in (("producer", mix.by_producer), ("source", mix.by_source_type)):
        table = Table(box=None, pad_edge=False)
        for name in (title, "findings", "TPs", "TP rate", "of TPs", "of high+medium TPs"):
            table.add_column(name, justify="left" if name == title else "right")
        for row in rows:
            shares = (row.tp_rate, row.share_of_tps, row.share_of_weighty_tps)
            table.add_row(
                plain(row.name),
                str(row.findings),
                str(row.tps),
                *("–" if share is None else f"{share:.0%}" for share in shares),
            )
        console.print(table)
        console.print()
    table = Table(box=None, pad_edge=False, title="Macro metrics without one producer", title_justify="left")
    for name in ("without", "#", "agent", *(name.removeprefix("grounded_") for name in shown), "change of F"):
        table.add_column(name, justify="left" if name in {"without", "agent"} else "right")
    everything: list[Any] = [{"producer": "(nobody)", "rows": [_without(row, row, shown) for row in whole.rows]}]
    for record in everything + records:
        for place, found in enumerate(record["rows"]):
            table.add_row(
                plain(record["producer"]) if place == 0 else "",
                "-" if found["rank"] is None else str(found["rank"]),
                plain(found["agent"]),
                *("–" if found[name] is None else f"{found[name]:.2f}" for name in shown),
                "" if found["change"] is None or record in everything else f"{found['change']:+.2f}",
            )
    console.print(table)


def _usage_lines(row: Row | CommentRow, used: RowUsage) -> list[tuple[Text | str, ...]]:
    tokens, bought = used.usage.metrics["total_tokens"], used.efficiency
    taken = [trial.milliseconds for trial in row.trials if trial.scored and trial.round in row.used]
    timed = [each / 1000 for each in taken if each is not None]
    return [
        (
            plain(row.build.agent),
            "total",
            _covered(sum(timed) if timed else None, len(timed), len(taken), ",.1f"),
            _covered(tokens.total, tokens.reported, tokens.reviews, ",.0f"),
            _covered(used.charges.total_usd, used.charges.observed, used.charges.reviews, ".4f"),
        ),
        (
            "",
            "a finding",
            _figure(bought.ms_per_finding, 0.001),
            _figure(bought.tokens_per_finding),
            _figure(bought.usd_per_finding),
        ),
        (
            "",
            "a covered golden",
            _figure(bought.ms_per_covered_golden, 0.001),
            _figure(bought.tokens_per_covered_golden),
            _figure(bought.usd_per_covered_golden),
        ),
        ("", "precision a minute, USD", _figure(bought.precision_per_minute), "", _figure(bought.precision_per_usd)),
        ("", "recall a minute, USD", _figure(bought.recall_per_minute), "", _figure(bought.recall_per_usd)),
        *_in_vain(used.failed),
    ]


def _in_vain(failed: FailedAttempts) -> list[tuple[Text | str, ...]]:
    """The line of the attempts that did not succeed, where there are any; their time is in `crb trial show`."""
    if not failed.attempts:
        return []
    return [
        (
            "",
            f"{failed.attempts} failed attempt{'' if failed.attempts == 1 else 's'}",
            "",
            _covered(failed.total_tokens, failed.tokens_reported, failed.attempts, ",.0f"),
            _covered(failed.total_usd, failed.charged, failed.attempts, ".4f"),
        )
    ]


def _without(row: Row, before: Row, shown: tuple[str, ...]) -> dict[str, Any]:
    values = {name: row.macro[name].mean for name in shown}
    old, new = before.macro[row.headline].mean, values[row.headline]
    return {
        "agent": row.build.agent,
        "build": row.build.build_id,
        "rank": row.rank,
        "rank_before": before.rank,
        **values,
        "change": None if old is None or new is None else new - old,
        "unclassified_count": row.counts["unclassified_count"],
    }


def _covered(total: float | None, reported: int, reviews: int, form: str) -> Text:
    if total is None:
        return Text("–", style="dim")
    return Text.assemble(format(total, form), (f" ({reported}/{reviews})", "dim"))


def _figure(figure: Figure, scale: float = 1.0) -> Text:
    return Text("–", style="dim") if figure.value is None else Text(f"{figure.value * scale:.4g}")
