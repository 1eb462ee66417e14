"""The rows behind ``crb leaderboard compare|distributions|usage``, in one form for all protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from crb_cli import filters, golden_comments
from crb_cli.output import plain
from crb_core.errors import InputError
from crb_core.settings import load_settings
from crb_core.strata import EVERYTHING, Subset

if TYPE_CHECKING:
    from crb_core.distribution import Distribution
    from crb_core.golden_leaderboard import CommentRow
    from crb_core.row_usage import RowUsage
    from crb_core.rows import Row
    from crb_core.samples import Sample
    from crb_core.store import Store
    from crb_core.store.results import StoredJudge

__all__ = ["LoadedRows", "distributions_of", "load_rows", "sample_of_row", "usage_of"]


@dataclass(frozen=True, kw_only=True)
class LoadedRows:
    """A sweep's rows under one judge. ``counting`` are the settings that only some protocols have."""

    store: Store
    sweep_id: str
    sweep_name: str
    corpus_fingerprint: str
    protocol: str
    judge: StoredJudge
    pull_requests: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: Sequence[Row | CommentRow]
    counting: Mapping[str, Any]

    def named(self, reference: str) -> Row | CommentRow:
        """The row of an agent's name or of a build id."""
        from crb_core.leaderboard import row_named

        return row_named(self.rows, reference)

    def chosen(self, references: Sequence[str] | None) -> list[Row | CommentRow]:
        """The rows of these agents, or all."""
        return [self.named(each) for each in references] if references else list(self.rows)

    def counting_words(self) -> Text:
        """How the protocol's own settings were chosen; for those that have some."""
        dedup = "on" if self.counting["dedup"] else "off"
        return plain(
            f"Counting {self.counting['counting']}: profile {self.counting['profile'] or 'none'}, dedup {dedup}"
        )

    def to_json(self) -> dict[str, Any]:
        """What every document about the rows begins with."""
        from crb_core.store.boards import judge_json

        return {
            "sweep": self.sweep_name,
            "sweep_id": self.sweep_id,
            "corpus_fingerprint": self.corpus_fingerprint,
            "protocol": self.protocol,
            **self.counting,
            "judge": judge_json(self.judge),
        }


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

    store = open_store(load_settings().resolved_store_url)
    sweep_id, protocol = boards.chosen_sweep(store, sweep, None)
    protocol_named(protocol).check_subset(subset)
    if protocol == golden_comments.PROTOCOL:
        options = golden_comments.Options(
            profile=profile, dedup=not no_dedup, beta=beta, subset=subset, partial=allow_partial
        )
        return _comment_rows(store, sweep_id, judge, options)
    golden_comments.refuse_options(protocol, compatible=False, profile=profile, no_dedup=no_dedup)
    return _claim_rows(store, sweep_id, judge, beta, subset, allow_partial)


def _claim_rows(
    store: Store, sweep_id: str, judge: str | None, beta: float, subset: Subset, allow_partial: bool
) -> LoadedRows:
    from crb_core.leaderboard import leaderboard
    from crb_core.rows import RANKINGS
    from crb_core.store.boards import chosen_judges
    from crb_core.store.measured import load_sweep

    chosen = chosen_judges(store, sweep_id, [judge] if judge else None)[0]
    with store.read() as connection:
        about = load_sweep(connection, sweep_id, chosen)
    measured = about.measured()
    filters.check_producers(subset, measured.arrays.producers)
    return LoadedRows(
        store=store,
        sweep_id=sweep_id,
        sweep_name=about.sweep_name,
        corpus_fingerprint=about.corpus_fingerprint,
        protocol=about.protocol,
        judge=about.judge,
        pull_requests=about.pull_requests,
        metrics=RANKINGS[about.protocol].metrics,
        rows=leaderboard(measured, beta=beta, subset=subset, allow_partial=allow_partial).rows,
        counting={},
    )


def _comment_rows(store: Store, sweep_id: str, judge: str | None, options: golden_comments.Options) -> LoadedRows:
    from crb_core.golden_leaderboard import COMMENT_METRICS
    from crb_core.store.comment_boards import LoadedComments

    options.check()
    judges = golden_comments.chosen_judges(store, sweep_id, [judge] if judge else ())
    if not judges:
        raise InputError("The sweep has no judgments", remedy="Judge it with `crb judge run`")
    loaded = LoadedComments.load(store, sweep_id, judges[0])
    about = loaded.results
    golden_comments.check_producers(options, about)
    return LoadedRows(
        store=store,
        sweep_id=sweep_id,
        sweep_name=about.sweep_name,
        corpus_fingerprint=about.corpus_fingerprint,
        protocol=golden_comments.PROTOCOL,
        judge=about.judge,
        pull_requests=about.pull_requests,
        metrics=COMMENT_METRICS,
        rows=loaded.rows(options),
        counting={
            "counting": "strict",
            "profile": options.chosen_profile,
            "dedup": options.dedup,
        },
    )


def sample_of_row(row: Row | CommentRow, beta: float) -> Sample:
    """What a comparison resamples; empty where the row averages no round."""
    from crb_core.recipes import COMMENTS
    from crb_core.rows import Row
    from crb_core.samples import sample_of_counts

    if isinstance(row, Row):
        return row.sample()
    return sample_of_counts(COMMENTS, {}, beta) if row.sample is None else row.sample


def distributions_of(row: Row | CommentRow, pull_requests: Sequence[str] | None) -> dict[str, Distribution]:
    """Distributions over the row's scored trials."""
    from crb_core.rows import Row
    from crb_core.trial_distributions import comment_distributions, trial_distributions

    if isinstance(row, Row):
        return trial_distributions(row, pull_requests)
    return comment_distributions(row, pull_requests)


def usage_of(row: Row | CommentRow) -> RowUsage:
    """Usage of the row's scored reviews in the rounds that it averages."""
    from crb_core.row_usage import comment_usage, row_usage
    from crb_core.rows import Row

    return row_usage(row) if isinstance(row, Row) else comment_usage(row)
