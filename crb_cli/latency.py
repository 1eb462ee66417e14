"""``crb sweep latency`` and the split of a trial's attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from crb_cli.output import console, plain, print_json
from crb_core.phases import split
from crb_core.settings import load_settings
from crb_core.store.latency import BuildLatency, Latency, sweep_latency

__all__ = ["latency_command", "split_line"]

_COLUMNS = ("n", "p50", "p90", "p95", "p99", "max")


def latency_command(reference: str, *, agent: str | None, all_attempts: bool, as_json: bool) -> None:
    """Print where the time of a sweep went."""
    from crb_core.store import open_store

    store = open_store(load_settings().resolved_store_url)
    with store.read() as connection:
        found = sweep_latency(connection, reference, agent=agent, all_attempts=all_attempts)
    store.close()
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    counted = "attempts that ended" if all_attempts else "attempts that succeeded"
    console.print(plain(f"sweep {found.name}: {found.all.attempts} {counted}"))
    console.print("milliseconds, over all pull requests and rounds")
    groups = [found.all, *found.builds] if len(found.builds) > 1 else list(found.builds)
    for group in groups:
        _print_group(group)
    if any(latency.n < latency.of for group in groups for latency in group.phases.values()):
        console.print("n of m: the others did not measure this part.", style="dim")


def split_line(phases_ms: Mapping[str, Any] | None, review_ms: float | None) -> str | None:
    """The split of one attempt, for people; None where nothing was measured."""
    parts = split(phases_ms, review_ms)
    return ", ".join(f"{name} {value:.0f}" for name, value in parts.items()) + " ms" if parts else None


def _print_group(group: BuildLatency) -> None:
    console.print()
    console.print(plain("all agents together" if group.agent is None else group.agent), style="bold")
    if not group.phases and not group.judging:
        console.print("  nothing was measured")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("part", overflow="fold")
    for title in _COLUMNS:
        table.add_column(title, justify="right", overflow="fold")
    for name, latency in group.phases.items():
        table.add_row(name, *_cells(latency))
    for judge, stages in group.judging.items():
        for stage, parts in stages.items():
            for part, latency in parts.items():
                table.add_row(plain(f"{stage} {part} ({judge})"[:30]), *_cells(latency))
    console.print(table)


def _cells(latency: Latency) -> list[str]:
    count = str(latency.n) if latency.n == latency.of else f"{latency.n} of {latency.of}"
    values = (latency.p50, latency.p90, latency.p95, latency.p99, latency.maximum)
    return [count, *(f"{value:.0f}" for value in values)]
