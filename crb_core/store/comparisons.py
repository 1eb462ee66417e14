"""``crb.comparison/2``: two to four builds of a sweep on the same pull requests (seed B, *Trial distributions*).

Differences are paired by pull request; every number is computed from persisted findings, matches and judgments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, select

from crb_core.ablation import excludes
from crb_core.bootstrap import Bootstrap
from crb_core.comparison import Strata, check_comparable, paired, pull_request_values
from crb_core.finding import GoldenFinding, TpFp
from crb_core.protocols import protocol_named
from crb_core.protocols.golden_comments import profile_subset
from crb_core.rows import RANKINGS, Row
from crb_core.stability import stability
from crb_core.store.boards import LoadedBoard
from crb_core.store.comment_boards import LoadedComments
from crb_core.store.judge_comparison import judge_scores
from crb_core.store.results import StoredJudge
from crb_core.store.session import Store
from crb_core.store.sweep_rows import AnyRow, RowOptions, SweepRows, sample_of_row, sweep_rows, usage_of
from crb_core.store.tables import CorrespondenceRow, GoldenRow, JudgmentRow, PullRequestRow, TrialRow, core
from crb_core.usage import token_problem

__all__ = ["FORMAT", "comparison_json", "only_found", "side_by_side"]

FORMAT = "crb.comparison/2"

#: By golden finding (pull request, position) and build id the rounds in which a candidate matches it.
Covered: TypeAlias = dict[tuple[str, int], dict[str, set[int]]]

correspondences = core(CorrespondenceRow)
goldens = core(GoldenRow)
judgments = core(JudgmentRow)
pull_requests = core(PullRequestRow)
trials = core(TrialRow)


def comparison_json(
    store: Store,
    loaded: LoadedBoard | LoadedComments,
    names: Sequence[str],
    options: RowOptions,
    *,
    bootstrap: Bootstrap | None = None,
) -> dict[str, Any]:
    """The document of some agents or builds under one judge.

    ``pairs`` have differences with interval and p, over everything and in each stratum; ``pull_requests`` each build's
    values; ``found_by`` the golden true positives that only one build covers, that all cover, and that none does.
    InputError for names that cannot be compared.
    """
    about = sweep_rows(loaded, options)
    rows = [about.named(name) for name in names]
    check_comparable([(row.build, row.identity) for row in rows])
    builds = [row.build.build_id for row in rows]
    samples = [sample_of_row(row, options.beta) for row in rows]
    made = bootstrap or Bootstrap()
    headline = _headline(about)
    pairs = paired(
        builds, samples, _strata(about, builds), made, metrics=about.metrics, stratum_metrics=list(headline.values())
    )
    for pair in pairs:
        pair["tokens"] = _tokens(*(rows[builds.index(pair[side])] for side in ("one", "other")))
    values = {build: pull_request_values(sample, about.metrics) for build, sample in zip(builds, samples, strict=True)}
    with store.read() as connection:
        used = {row.build.build_id: row.used for row in rows}
        if isinstance(loaded, LoadedBoard):
            found = only_found(about, loaded.about.golden, loaded.about.covered(used), used, options)
        else:
            golden = _with_categories(_golden(connection, about.pull_requests, about.sweep_id), loaded)
            inside = options.subset & profile_subset(about.counting["profile"])
            counted = replace(options, subset=inside)
            found = only_found(about, golden, _covered(connection, about, used), used, counted)
    return {
        "format": FORMAT,
        **about.to_json(),
        "beta": options.beta,
        "subset": options.subset.to_json(),
        "allow_partial": options.allow_partial,
        "excluded_producers": list(options.exclude_producers),
        "dimensions": options.pull_requests.to_json(),
        "metrics": list(about.metrics),
        "headline": headline,
        "builds": [_build(row, about, options) for row in rows],
        "uncertainty": made.to_json(max(pair["comparisons"][0]["pull_requests"] for pair in pairs)),
        "pairs": pairs,
        "pull_requests": [
            {"key": key, "builds": {build: values[build].get(key) for build in builds}}
            for key in about.pull_requests
            if any(key in of_build for of_build in values.values())
        ],
        "found_by": found,
    }


def side_by_side(
    store: Store,
    sweep_id: str,
    protocol: str,
    judges: Sequence[tuple[StoredJudge, LoadedBoard | LoadedComments]],
    builds: Sequence[str],
    options: RowOptions,
) -> list[dict[str, Any]]:
    """Each judge with rank, precision, recall and F of these builds over everything; a judge may not judge them all."""
    return [
        {
            "name": judge.name,
            "fingerprint": judge.judge_id,
            "classifies": judge.classifies,
            "calibration": judge.calibration,
            "rows": [
                row
                for row in judge_scores(
                    store, sweep_id, protocol, judge, beta=options.beta, profile=options.profile, loaded=loaded
                )
                if row["build"] in builds
            ],
        }
        for judge, loaded in judges
    ]


def _headline(about: SweepRows) -> dict[str, str]:
    """The names of this protocol's precision, recall and F."""
    ranking = RANKINGS.get(about.protocol)
    if ranking is None:
        return {name: name for name in ("precision", "recall", "f")}
    return {"precision": ranking.precision, "recall": ranking.recall, "f": ranking.headline}


def _strata(about: SweepRows, builds: Sequence[str]) -> Strata:
    """Samples by axis and value of the protocol's own strata, of values that some finding here can have."""
    protocol = protocol_named(about.protocol)
    known: Mapping[str, Sequence[str]] = {
        "severity": protocol.severities,
        "category": protocol.categories,
        "difficulty": ("easy", "medium", "hard"),
    }
    found: dict[str, dict[str, Any]] = {}
    for axis in protocol.axes:
        chosen = getattr(about.options.subset, axis)
        for value in known[axis]:
            if chosen is not None and value not in chosen:
                continue
            rows = {
                row.build.build_id: row for row in about.inside(about.options.subset.with_value(axis, value), builds)
            }
            found.setdefault(axis, {})[value] = [sample_of_row(rows[build], about.options.beta) for build in builds]
    return found


def _tokens(one: AnyRow, other: AnyRow) -> dict[str, Any]:
    """Mean tokens of a scored review of the averaged rounds, and why they cannot be compared (seed B)."""
    used = [usage_of(row).usage for row in (one, other)]
    problem = token_problem(*used)
    left, right = (summary.metrics["total_tokens"].mean for summary in used)
    return {"one": left, "other": right, "comparable": problem is None, "reason": problem}


def _build(row: AnyRow, about: SweepRows, options: RowOptions) -> dict[str, Any]:
    """A build with its rounds side by side and their stability; golden-comments rows have no claims to be stable."""
    found: dict[str, Any] = {
        "agent": row.build.agent,
        "display_name": row.build.display_name,
        "build": row.build.build_id,
        "rank": row.rank,
        "marks": list(row.marks),
        "rounds_used": list(row.used),
    }
    if not isinstance(row, Row):
        return found | {"rounds": [], "stability": None}
    stable = stability(row.rounds[0].scores.arrays, row.used_groups, options.subset) if row.rounds else None
    return found | {
        "rounds": [
            {
                "round": each.number,
                "used": each.number in row.used,
                "scored": each.scored,
                "planned": each.planned,
                "macro": {metric: each.value("macro", metric) for metric in about.metrics},
            }
            for each in row.rounds
        ],
        "stability": None if stable is None else stable.model_dump(mode="json"),
    }


def _covered(connection: Connection, about: SweepRows, used: Mapping[str, Sequence[int]]) -> Covered:
    """By golden finding (pull request and position) and build the used rounds in which a candidate matches it."""
    covered: Covered = defaultdict(lambda: defaultdict(set))
    for row in connection.execute(
        select(pull_requests.c.key, trials.c.build_id, trials.c.round, correspondences.c.golden)
        .join(judgments, judgments.c.id == correspondences.c.judgment_id)
        .join(trials, trials.c.id == judgments.c.trial_id)
        .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
        .where(
            trials.c.sweep_id == about.sweep_id,
            trials.c.build_id.in_(list(used)),
            judgments.c.judge_id == about.judge.judge_id,
            judgments.c.scored_at.is_not(None),
        )
        .distinct()
    ):
        if row.round in used[row.build_id]:
            covered[row.key, row.golden][row.build_id].add(row.round)
    return covered


def only_found(
    about: SweepRows,
    golden: Mapping[str, Sequence[GoldenFinding]],
    covered: Covered,
    used: Mapping[str, Sequence[int]],
    options: RowOptions,
) -> dict[str, Any]:
    """Which golden true positives inside the subset are covered by one build only, and how many by all and by none.

    ``golden`` are those of each pull request, ``used`` the rounds by build. A golden finding counts as covered where
    any candidate of any used round matches it; ``rounds`` then says in which.
    """
    wanted = set(about.pull_requests)
    leave_out = excludes(options.exclude_producers) if options.exclude_producers else None
    only: dict[str, list[dict[str, Any]]] = {build: [] for build in used}
    counts = {"golden_tp": 0, "all": 0, "none": 0}
    for key, position, finding in (
        (key, position, finding)
        for key, findings in golden.items()
        if key in wanted
        for position, finding in enumerate(findings)
    ):
        if finding.label.tp_fp is not TpFp.TP or not options.subset.has_golden(finding):
            continue
        if leave_out is not None and leave_out(finding.producer):
            continue
        by = {build: rounds for build, rounds in covered.get((key, position), {}).items() if rounds}
        counts["golden_tp"] += 1
        counts["none"] += not by
        counts["all"] += len(by) == len(used)
        if len(by) == 1:
            ((build, rounds),) = by.items()
            only[build].append(
                {
                    "pull_request": key,
                    "golden": position,
                    "finding_id": finding.finding_id(key),
                    "file": finding.file,
                    "start_line": finding.start_line,
                    "end_line": finding.end_line,
                    "message": finding.message,
                    "severity": finding.label.severity,
                    "category": finding.label.category,
                    "rounds": sorted(rounds),
                }
            )
    return counts | {"only": [{"build": build, "findings": found} for build, found in only.items()]}


def _with_categories(
    golden: Mapping[str, Sequence[GoldenFinding]], loaded: LoadedComments
) -> dict[str, list[GoldenFinding]]:
    """The golden comments with the categories that only judgments record, as rows count them."""
    known = loaded.golden_categories()

    def whole(key: str, position: int, finding: GoldenFinding) -> GoldenFinding:
        category = known.get((key, position))
        if category is None or finding.label.category is not None:
            return finding
        return finding.model_copy(update={"label": finding.label.model_copy(update={"category": category})})

    return {
        key: [whole(key, position, finding) for position, finding in enumerate(findings)]
        for key, findings in golden.items()
    }


def _golden(connection: Connection, keys: Sequence[str], sweep_id: str) -> dict[str, list[GoldenFinding]]:
    mine = select(trials.c.pull_request_id).where(trials.c.sweep_id == sweep_id).distinct()
    wanted = set(keys)
    found: dict[str, list[GoldenFinding]] = defaultdict(list)
    for row in connection.execute(
        select(pull_requests.c.key, goldens.c.document)
        .join(pull_requests, pull_requests.c.id == goldens.c.pull_request_id)
        .where(goldens.c.pull_request_id.in_(mine))
        .order_by(pull_requests.c.position, goldens.c.position)
    ):
        if row.key in wanted:
            found[row.key].append(GoldenFinding.model_validate(row.document))
    return found
