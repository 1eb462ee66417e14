"""How far two judges of a sweep agree, as the demo prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crb_cli.output import console, plain

if TYPE_CHECKING:
    from crb_core.agreement import Agreement
    from crb_core.store.results import SweepResults

__all__ = ["print_agreement"]


def print_agreement(first: SweepResults, second: SweepResults) -> None:
    """Two lines: on pairs, and on which golden findings are covered."""
    from crb_core.store.judge_comparison import sweep_agreement

    found = sweep_agreement(first, second)
    console.print()
    console.print(
        plain(f"Agreement of judge {first.judge.name} with judge {second.judge.name} on the trials both have judged:"),
        style="bold",
    )
    console.print(plain(f"  candidate and golden finding are one issue: {_line(found.pairs)}"))
    console.print(plain(f"  golden finding is covered:                  {_line(found.covered)}"))


def _line(agreement: Agreement) -> str:
    if agreement.raw is None:
        return "nothing to compare"
    kappa = "undefined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    interval = "" if agreement.kappa_low is None else f" ({agreement.kappa_low:.2f} to {agreement.kappa_high:.2f})"
    return f"{agreement.raw:.0%}, kappa {kappa}{interval}"
