"""Leaderboards of stored golden-comments sweeps, in the one form that the command line and the web pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crb_core.bootstrap import Bootstrap
from crb_core.comment_lists import compatible_rows
from crb_core.comment_rows import NO_PROFILE, CommentRow, CommentTrial
from crb_core.dimensions import EVERY_PULL_REQUEST, KnownDimensions, PullRequestFilter
from crb_core.errors import InputError, Where
from crb_core.golden_leaderboard import strict_rows
from crb_core.identity import RowIdentity
from crb_core.protocols import protocol_named
from crb_core.protocols.golden_comments import DEFAULT_PROFILE
from crb_core.store.comment_results import load_comment_trials, scorable_pull_requests
from crb_core.store.pull_request_diffs import PullRequestDiffs
from crb_core.store.pull_request_dimensions import stored_dimensions
from crb_core.store.results import StoredJudge, SweepResults, oversubscribed_builds
from crb_core.store.session import Store
from crb_core.strata import EVERYTHING, Subset, check_producers

__all__ = ["COUNTING", "PROTOCOL", "LoadedComments", "Options", "board_json", "build_rows"]

PROTOCOL = "golden-comments"

#: What each way of counting means, by whether it is the compatible one.
COUNTING = {
    True: "compatible: counts the recorded lists as the public tool does; no profile, beta 1, 0 where undefined",
    False: "strict: positions inside the profile, one false positive a dedup group; undefined is null",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to count. ``profile`` None is the protocol's default."""

    compatible: bool = False
    profile: str | None = None
    dedup: bool = True
    beta: float = 1.0
    subset: Subset = EVERYTHING
    partial: bool = False
    pull_requests: PullRequestFilter = EVERY_PULL_REQUEST

    @property
    def chosen_profile(self) -> str | None:
        """The profile's name; None for no profile."""
        if self.compatible or self.profile == NO_PROFILE:
            return None
        return self.profile or DEFAULT_PROFILE

    def check(self) -> None:
        """Refuse what the protocol does not know, and what contradicts ``compatible``, which has no settings."""
        given = [
            name
            for name, is_given in (
                ("--profile", self.profile is not None),
                ("--no-dedup", not self.dedup),
                ("--beta", self.beta != 1.0),
                ("--severity or --category", bool(self.subset.restricted)),
            )
            if is_given
        ]
        if self.compatible and given:
            raise InputError(
                f"--compatible counts as the public tool does and takes no {given[0]}",
                remedy="Leave out one of them",
            )
        protocol_named(PROTOCOL).check_subset(self.subset)


class LoadedComments:
    """A golden-comments sweep under one judge, loaded once; ``rows`` counts it anew."""

    def __init__(
        self,
        results: SweepResults,
        by_build: Mapping[str, Sequence[CommentTrial]],
        keys: Sequence[str],
        dimensions: KnownDimensions,
        oversubscribed: frozenset[str],
    ) -> None:
        self.results = results
        self.oversubscribed = oversubscribed
        #: By key of the sweep's pull requests what is known of each.
        self.dimensions = dimensions
        self._by_build = by_build
        self._keys = keys
        judged = [trial.judged for trial in results.trials if trial.judged is not None]
        self._producers = {golden.producer for each in judged for golden in each.golden}

    @classmethod
    def load(
        cls, store: Store, sweep_id: str, judge: StoredJudge, *, diffs: PullRequestDiffs | None = None
    ) -> LoadedComments:
        """Read everything that the rows are made of; ``diffs`` as for ``LoadedBoard.load``."""
        with store.read() as connection:
            results, by_build = load_comment_trials(connection, sweep_id, judge)
            return cls(
                results,
                by_build,
                scorable_pull_requests(connection, sweep_id),
                stored_dimensions(connection, sweep_id, diffs),
                oversubscribed_builds(connection, sweep_id),
            )

    def golden_categories(self) -> dict[tuple[str, int], str]:
        """By (pull request, position) the categories of golden comments that only judgments record."""
        return {
            (trial.pull_request, position): category
            for trials in self._by_build.values()
            for trial in trials
            for position, category in trial.golden_categories.items()
        }

    def rows(self, options: Options, bootstrap: Bootstrap | None = None) -> tuple[CommentRow, ...]:
        """The rows; ``bootstrap`` adds intervals and letters to the strict ones."""
        judge = self.results.judge
        check_producers(options.subset, self._producers)
        inside = frozenset(options.pull_requests.inside(self.dimensions))
        keys = [key for key in self._keys if key in inside]
        if self._keys and not keys:
            raise InputError(
                "none of these pull requests has a golden comment",
                where=Where(field="dimension"),
                remedy="Choose others",
            )
        builds = [
            (
                build,
                RowIdentity.of_build(
                    build, corpus_fingerprint=self.results.corpus_fingerprint, protocol=PROTOCOL, judge=judge.judge_id
                ),
                [trial for trial in self._by_build[build.build_id] if trial.pull_request in inside],
            )
            for build in self.results.builds
        ]
        if options.compatible:
            return compatible_rows(builds, judge=judge.name)
        return strict_rows(
            builds,
            judge=judge.name,
            pull_requests=keys,
            profile=options.chosen_profile,
            beta=options.beta,
            dedup=options.dedup,
            subset=options.subset,
            allow_partial=options.partial,
            answer_key_at=self.results.imported_at,
            oversubscribed=self.oversubscribed,
            bootstrap=bootstrap,
        )


def build_rows(
    store: Store,
    sweep_id: str,
    judge: StoredJudge,
    options: Options,
    bootstrap: Bootstrap | None = None,
    *,
    diffs: PullRequestDiffs | None = None,
) -> tuple[tuple[CommentRow, ...], LoadedComments]:
    """A sweep's rows under one judge, counted anew from what is stored; ``bootstrap`` adds intervals and letters."""
    loaded = LoadedComments.load(store, sweep_id, judge, diffs=diffs)
    return loaded.rows(options, bootstrap), loaded


def board_json(
    boards: Sequence[tuple[StoredJudge, Sequence[CommentRow]]], loaded: LoadedComments, options: Options
) -> dict[str, Any]:
    """``crb.leaderboard/1`` of this protocol: the rows of every judge, each naming its judge."""
    results = loaded.results
    sampled = [len(row.sample.keys) for _, rows in boards for row in rows if row.sample is not None]
    return {
        "format": "crb.leaderboard/1",
        "sweep": results.sweep_name,
        "sweep_id": results.sweep_id,
        "corpus": results.corpus,
        "corpus_fingerprint": results.corpus_fingerprint,
        "protocol": PROTOCOL,
        "counting": "compatible" if options.compatible else "strict",
        "counting_note": COUNTING[options.compatible],
        "profile": options.chosen_profile,
        "dedup": None if options.compatible else options.dedup,
        "beta": options.beta,
        "subset": options.subset.to_json(),
        "dimensions": options.pull_requests.to_json(),
        "dimensions_computed": loaded.dimensions.computed_counts(options.pull_requests.dimensions),
        "sort": "f",
        "uncertainty": None if options.compatible else Bootstrap().to_json(max(sampled, default=0)),
        "judges": [
            {
                "name": judge.name,
                "fingerprint": judge.judge_id,
                "classifies": judge.classifies,
                "calibration": judge.calibration,
                "stale": list(judge.stale),
            }
            for judge, _ in boards
        ],
        "rows": [row.to_json() for _, rows in boards for row in rows],
    }
