"""``crb judge``: run and compare judges, and measure how far they can be trusted."""

from __future__ import annotations

import typer

from crb_cli.dedup import dedup_candidates
from crb_cli.extraction import extract
from crb_cli.judge_agreement import agreement
from crb_cli.judge_calibrate import calibrate
from crb_cli.judge_compare import compare
from crb_cli.judge_list import list_
from crb_cli.judge_rejudge import rejudge
from crb_cli.judge_run import run

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The judges, their fingerprints and how far they can be trusted.")


@app.callback()
def root() -> None:
    """The judges, their fingerprints and how far they can be trusted."""


app.command("list")(list_)
app.command("run")(run)
app.command("rejudge")(rejudge)
app.command("calibrate")(calibrate)
app.command("compare")(compare)
app.command("agreement")(agreement)
app.command("extract")(extract)
app.command("dedup")(dedup_candidates)
