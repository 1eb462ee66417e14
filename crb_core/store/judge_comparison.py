"""A sweep's judges side by side: what each gives every build, how far each pair agrees, and a council's ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from crb_core.agreement import Agreement, MatchAgreement, coverage_agreement, label_agreement, match_agreement
from crb_core.council import council_labels, council_matches
from crb_core.errors import InputError
from crb_core.matching import JudgedPullRequest
from crb_core.protocols import comparable
from crb_core.rows import RANKINGS
from crb_core.store.boards import LoadedBoard
from crb_core.store.comment_boards import PROTOCOL as COMMENTS
from crb_core.store.comment_boards import LoadedComments, Options
from crb_core.store.member_judgments import member_judges, responses
from crb_core.store.results import StoredJudge, SweepResults, load_results
from crb_core.store.session import Store

__all__ = [
    "FORMAT",
    "QUESTIONS",
    "comparison_json",
    "council_ties",
    "judge_scores",
    "judges_agreement",
    "require_two",
    "sweep_agreement",
    "sweep_agreements",
]

FORMAT = "crb.judge-comparison/1"
#: Questions on matches, before the label axes.
QUESTIONS = {"pairs": "candidate and golden are one issue", "covered": "golden finding is covered"}


def require_two(judges: Sequence[StoredJudge]) -> list[StoredJudge]:
    """The judges, each once; InputError under two, because there is nothing to compare."""
    found = list({each.judge_id: each for each in judges}.values())
    if len(found) < 2:
        raise InputError(
            "there are fewer than two judges to compare",
            remedy="Add one with crb judge run, or name two of the sweep's",
        )
    return found


def comparison_json(
    store: Store,
    sweep_id: str,
    protocol: str,
    judges: Sequence[StoredJudge],
    *,
    beta: float = 1.0,
    profile: str | None = None,
    loaded: Mapping[str, LoadedBoard | LoadedComments] | None = None,
) -> dict[str, Any]:
    """``crb.judge-comparison/1``: each judge with its rows and ties, and the agreement of each pair.

    ``loaded`` holds by judge id what is loaded already.
    """
    known = loaded or {}
    return {
        "format": FORMAT,
        "sweep_id": sweep_id,
        "protocol": protocol,
        "beta": beta,
        "judges": [
            {
                "name": each.name,
                "fingerprint": each.judge_id,
                "classifies": each.classifies,
                "calibration": each.calibration,
                "rows": judge_scores(
                    store, sweep_id, protocol, each, beta=beta, profile=profile, loaded=known.get(each.judge_id)
                ),
                "ties": council_ties(store, sweep_id, each),
            }
            for each in judges
        ],
        "agreement": sweep_agreements(store, sweep_id, judges),
    }


def judge_scores(
    store: Store,
    sweep_id: str,
    protocol: str,
    judge: StoredJudge,
    *,
    beta: float = 1.0,
    profile: str | None = None,
    loaded: LoadedBoard | LoadedComments | None = None,
) -> list[dict[str, Any]]:
    """One record a build: the headline F with precision and recall, as the leaderboard has them.

    ``loaded`` saves reading the sweep again.
    """
    if protocol == COMMENTS:
        comments = loaded if isinstance(loaded, LoadedComments) else LoadedComments.load(store, sweep_id, judge)
        return [
            {
                "agent": row.build.agent,
                "build": row.build.build_id,
                "rank": row.rank,
                **{name: row.figures[name] for name in ("precision", "recall", "f")},
            }
            for row in comments.rows(Options(beta=beta, profile=profile))
        ]
    ranking = RANKINGS[protocol]
    names = {"precision": ranking.precision, "recall": ranking.recall, "f": ranking.headline}
    board = loaded if isinstance(loaded, LoadedBoard) else LoadedBoard.load(store, sweep_id, judge)
    return [
        {
            "agent": row.build.agent,
            "build": row.build.build_id,
            "rank": row.rank,
            **{name: row.macro[metric].mean for name, metric in names.items()},
        }
        for row in board.board(beta=beta).rows
    ]


def sweep_agreements(store: Store, sweep_id: str, judges: Sequence[StoredJudge]) -> list[dict[str, Any]]:
    """Every pair of judges on the trials that both have scored."""
    with store.read() as connection:
        results = [load_results(connection, sweep_id, each) for each in judges]
    return [judges_agreement(first, second) for first, second in combinations(results, 2)]


def judges_agreement(first: SweepResults, second: SweepResults) -> dict[str, Any]:
    """Raw agreement and kappa with interval: on pairs, on coverage, and on each axis that both labelled.

    Judges that share no trial, as imported ones with an extraction of candidates of their own, are compared on which
    goldens the same agent covers; ``own_candidates`` then says so.
    """
    shared = _shared(first, second)
    matches = sweep_agreement(first, second)
    covered = matches.covered
    apart = not shared
    if apart:
        covered = coverage_agreement(
            _same_reviews(first, second), comparable=partial(comparable, protocol=first.protocol)
        )
    return {
        "judges": [first.judge.name, second.judge.name],
        "fingerprints": [first.judge.judge_id, second.judge.judge_id],
        "trials": len(shared),
        "own_candidates": apart,
        "pairs": _json(matches.pairs),
        "covered": _json(covered),
        "axes": {axis: _json(found) for axis, found in label_agreement(shared).items()},
    }


def sweep_agreement(first: SweepResults, second: SweepResults) -> MatchAgreement:
    """Agreement on matches, on the trials that both judges have scored."""
    return match_agreement(_shared(first, second), comparable=partial(comparable, protocol=first.protocol))


def _shared(first: SweepResults, second: SweepResults) -> list[tuple[JudgedPullRequest, JudgedPullRequest]]:
    others = {trial.trial_id: trial.judged for trial in second.trials}
    pairs = ((trial.judged, others.get(trial.trial_id)) for trial in first.trials)
    return [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]


def _same_reviews(first: SweepResults, second: SweepResults) -> list[tuple[JudgedPullRequest, JudgedPullRequest]]:
    """The judgments of one agent's review of a pull request in a round, where each judge has exactly one."""

    def by_review(results: SweepResults) -> dict[tuple[str, str, int], list[JudgedPullRequest]]:
        agents = {build.build_id: build.agent for build in results.builds}
        found: dict[tuple[str, str, int], list[JudgedPullRequest]] = {}
        for trial in results.trials:
            if trial.judged is not None:
                found.setdefault((agents[trial.build_id], trial.pull_request, trial.round), []).append(trial.judged)
        return found

    left, right = by_review(first), by_review(second)
    return [(left[key][0], right[key][0]) for key in left if len(left[key]) == 1 and len(right.get(key, ())) == 1]


def _json(found: Agreement) -> dict[str, Any]:
    data: dict[str, Any] = found.model_dump(mode="json")
    return data


def council_ties(store: Store, sweep_id: str, judge: StoredJudge) -> list[dict[str, Any]]:
    """The questions on which a council had no majority; empty for every other judge."""
    description: Mapping[str, Any] = judge.document.get("description", {})
    if description.get("judge") != "council":
        return []
    found = []
    with store.read() as connection:
        members = member_judges(connection, description["judges"])
        results = load_results(connection, sweep_id, judge)
        agents = {build.build_id: build.agent for build in results.builds}
        for trial in results.trials:
            if trial.judged is None:
                continue
            count = len(trial.judged.candidates)
            said = responses(connection, trial.trial_id, members).members
            _, pairs = council_matches(said, count)
            _, labels = council_labels(said, range(count), provenance=judge.judge_id)
            found += [
                {
                    "trial": trial.trial_id,
                    "agent": agents[trial.build_id],
                    "pull_request": trial.pull_request,
                    "round": trial.round,
                    **tie.model_dump(mode="json"),
                }
                for tie in (*pairs, *labels)
            ]
    return found
