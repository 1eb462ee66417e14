"""The rows behind ``crb leaderboard compare|distributions|usage``, in one form for all protocols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crb_cli import golden_comments
from crb_cli.output import plain
from crb_core.errors import InputError
from crb_core.settings import load_settings
from crb_core.strata import EVERYTHING, Subset

if TYPE_CHECKING:
    from rich.text import Text

    from crb_core.store import Store
    from crb_core.store.boards import LoadedBoard
    from crb_core.store.comment_boards import LoadedComments
    from crb_core.store.sweep_rows import SweepRows

__all__ = ["LoadedRows", "counting_words", "load_rows"]


@dataclass(frozen=True, kw_only=True)
class LoadedRows:
    """A sweep's rows under one judge, with what they were made from."""

    store: Store
    loaded: LoadedBoard | LoadedComments
    rows: SweepRows


def counting_words(rows: SweepRows) -> Text:
    """How the protocol's own settings were chosen; for those that have some."""
    dedup = "on" if rows.counting["dedup"] else "off"
    return plain(f"Counting {rows.counting['counting']}: profile {rows.counting['profile'] or 'none'}, dedup {dedup}")


def load_rows(
    sweep: str | None,
    judge: str | None,
    *,
    beta: float = 1.0,
    subset: Subset = EVERYTHING,
    allow_partial: bool = False,
    profile: str | None = None,
    no_dedup: bool = False,
) -> LoadedRows:
    """The rows of a sweep, of whichever protocol; golden comments are counted strictly."""
    from crb_core.protocols import protocol_named
    from crb_core.store import boards, open_store
    from crb_core.store.comment_boards import LoadedComments
    from crb_core.store.sweep_rows import RowOptions, sweep_rows

    store = open_store(load_settings().resolved_store_url)
    sweep_id, protocol = boards.chosen_sweep(store, sweep, None)
    protocol_named(protocol).check_subset(subset)
    loaded: boards.LoadedBoard | LoadedComments
    if protocol == golden_comments.PROTOCOL:
        judges = golden_comments.chosen_judges(store, sweep_id, [judge] if judge else ())
        if not judges:
            raise InputError("The sweep has no judgments", remedy="Judge it with `crb judge run`")
        loaded = LoadedComments.load(store, sweep_id, judges[0])
    else:
        golden_comments.refuse_options(protocol, compatible=False, profile=profile, no_dedup=no_dedup)
        loaded = boards.LoadedBoard.load(
            store, sweep_id, boards.chosen_judges(store, sweep_id, [judge] if judge else None)[0]
        )
    options = RowOptions(beta=beta, subset=subset, allow_partial=allow_partial, profile=profile, no_dedup=no_dedup)
    return LoadedRows(store=store, loaded=loaded, rows=sweep_rows(loaded, options))
