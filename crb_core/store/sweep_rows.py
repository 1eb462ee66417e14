"""A sweep's rows under one judge, in one form for all protocols: what comparisons and distributions are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from crb_core.comment_rows import COMMENT_METRICS, CommentRow
from crb_core.dimensions import EVERY_PULL_REQUEST, PullRequestFilter
from crb_core.distribution import Distribution
from crb_core.errors import InputError
from crb_core.leaderboard import leaderboard, row_named
from crb_core.protocols import protocol_named
from crb_core.recipes import COMMENTS
from crb_core.row_usage import RowUsage, comment_usage, row_usage
from crb_core.rows import RANKINGS, Measured, Row
from crb_core.samples import Sample, sample_of_counts
from crb_core.store import boards
from crb_core.store.boards import judge_json
from crb_core.store.comment_boards import PROTOCOL as COMMENTS_PROTOCOL
from crb_core.store.comment_boards import LoadedComments, Options
from crb_core.store.results import StoredJudge
from crb_core.strata import EVERYTHING, Subset, check_producers
from crb_core.trial_distributions import comment_distributions, trial_distributions

__all__ = ["AnyRow", "RowOptions", "SweepRows", "distributions_of", "sample_of_row", "sweep_rows", "usage_of"]

AnyRow: TypeAlias = Row | CommentRow


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How rows are counted; ``profile`` and ``no_dedup`` are of golden-comments only."""

    beta: float = 1.0
    subset: Subset = EVERYTHING
    allow_partial: bool = False
    exclude_producers: tuple[str, ...] = ()
    pull_requests: PullRequestFilter = EVERY_PULL_REQUEST
    profile: str | None = None
    no_dedup: bool = False


@dataclass(frozen=True, kw_only=True)
class SweepRows:
    """A sweep's rows under one judge. ``counting`` are the settings that only some protocols have.

    ``inside`` computes the rows of some builds (by id) inside another subset.
    """

    sweep_id: str
    sweep_name: str
    corpus_fingerprint: str
    protocol: str
    judge: StoredJudge
    pull_requests: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: Sequence[AnyRow]
    counting: Mapping[str, Any]
    options: RowOptions
    inside: Callable[[Subset, Collection[str]], Sequence[AnyRow]] = field(repr=False)

    def named(self, reference: str) -> AnyRow:
        """The row of an agent's name or of a build id."""
        return row_named(self.rows, reference)

    def chosen(self, references: Sequence[str] | None) -> list[AnyRow]:
        """The rows of these agents, or all."""
        return [self.named(each) for each in references] if references else list(self.rows)

    def to_json(self) -> dict[str, Any]:
        """What every document about the rows begins with."""
        return {
            "sweep": self.sweep_name,
            "sweep_id": self.sweep_id,
            "corpus_fingerprint": self.corpus_fingerprint,
            "protocol": self.protocol,
            **self.counting,
            "judge": judge_json(self.judge),
        }


def sweep_rows(loaded: boards.LoadedBoard | LoadedComments, options: RowOptions) -> SweepRows:
    """The rows of a loaded sweep, of whichever protocol; golden comments are counted strictly.

    InputError for an option of another protocol, and for a value that no finding can have.
    """
    if isinstance(loaded, LoadedComments):
        return _comment_rows(loaded, options)
    for name, given in (("profile", options.profile is not None), ("no_dedup", options.no_dedup)):
        if given:
            raise InputError(f"{name} belongs to the protocol golden-comments, and this sweep is of another")
    about = loaded.about
    protocol_named(about.protocol).check_subset(options.subset)
    loaded.exclusion(options.exclude_producers)
    measured = loaded.measured(options.exclude_producers, options.pull_requests)
    check_producers(options.subset, measured.arrays.producers)

    some: dict[frozenset[str], Measured] = {}

    def inside(subset: Subset, builds: Collection[str]) -> Sequence[AnyRow]:
        chosen = frozenset(builds)
        if chosen not in some:
            entries = tuple(each for each in measured.entries if each.build_id in chosen)
            # A complete round is one of all pull requests, also of those that none of these builds reviewed.
            some[chosen] = replace(measured, entries=entries, pull_requests=measured.planned)
        # The strata of a stratum are asked of nobody.
        return rows(some[chosen], subset, False)

    def rows(of: Measured, subset: Subset, strata: bool) -> Sequence[AnyRow]:
        return leaderboard(
            of,
            beta=options.beta,
            subset=subset,
            allow_partial=options.allow_partial,
            oversubscribed=loaded.oversubscribed,
            strata=strata,
        ).rows

    return SweepRows(
        sweep_id=about.sweep_id,
        sweep_name=about.sweep_name,
        corpus_fingerprint=about.corpus_fingerprint,
        protocol=about.protocol,
        judge=about.judge,
        pull_requests=_inside(about.pull_requests, loaded, options),
        metrics=RANKINGS[about.protocol].metrics,
        rows=rows(measured, options.subset, True),
        counting={},
        options=options,
        inside=inside,
    )


def _comment_rows(loaded: LoadedComments, options: RowOptions) -> SweepRows:
    if options.exclude_producers:
        raise InputError("exclude_producer is for protocols with claims; this sweep is of golden-comments")
    chosen = Options(
        profile=options.profile,
        dedup=not options.no_dedup,
        beta=options.beta,
        subset=options.subset,
        partial=options.allow_partial,
        pull_requests=options.pull_requests,
    )
    chosen.check()
    about = loaded.results

    def rows(subset: Subset) -> Sequence[CommentRow]:
        return loaded.rows(replace(chosen, subset=subset))

    return SweepRows(
        sweep_id=about.sweep_id,
        sweep_name=about.sweep_name,
        corpus_fingerprint=about.corpus_fingerprint,
        protocol=COMMENTS_PROTOCOL,
        judge=about.judge,
        pull_requests=_inside(about.pull_requests, loaded, options),
        metrics=COMMENT_METRICS,
        rows=rows(options.subset),
        counting={"counting": "strict", "profile": chosen.chosen_profile, "dedup": chosen.dedup},
        options=options,
        inside=lambda subset, builds: [row for row in rows(subset) if row.build.build_id in builds],
    )


def _inside(keys: Sequence[str], loaded: boards.LoadedBoard | LoadedComments, options: RowOptions) -> tuple[str, ...]:
    if not options.pull_requests.dimensions:
        return tuple(keys)
    found = set(options.pull_requests.inside(loaded.dimensions))
    return tuple(key for key in keys if key in found)


def sample_of_row(row: AnyRow, beta: float) -> Sample:
    """What a comparison resamples; empty where the row averages no round."""
    if isinstance(row, Row):
        return row.sample()
    return sample_of_counts(COMMENTS, {}, beta) if row.sample is None else row.sample


def distributions_of(row: AnyRow, pull_requests: Sequence[str] | None) -> dict[str, Distribution]:
    """Distributions over the row's scored trials."""
    if isinstance(row, Row):
        return trial_distributions(row, pull_requests)
    return comment_distributions(row, pull_requests)


def usage_of(row: AnyRow) -> RowUsage:
    """Usage of the row's scored reviews in the rounds that it averages."""
    return row_usage(row) if isinstance(row, Row) else comment_usage(row)
