"""``crb judge compare``: the leaderboard under every judge of a sweep side by side, and how far the judges agree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from crb_cli.calibration_words import calibration_words
from crb_cli.judge_calibrate import figure, interval
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.agreement import Agreement
    from crb_core.matching import JudgedPullRequest
    from crb_core.store import Store
    from crb_core.store.results import StoredJudge, SweepResults

__all__ = ["chosen_judges", "compare", "judges_agreement", "print_pairs", "sweep_agreements"]

FORMAT = "crb.judge-comparison/1"

#: Questions on matches, before the label axes.
_QUESTIONS = {"pairs": "candidate and golden are one issue", "covered": "golden finding is covered"}


def compare(
    sweep: Annotated[str | None, typer.Argument(help="Name or id of the sweep; the newest by default.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge by name or fingerprint (repeatable); all of the sweep's by default.")
    ] = None,
    beta: Annotated[float, typer.Option(min=0.1, max=10, help="Weight of recall in F.")] = 1.0,
    profile: Annotated[
        str | None, typer.Option(help="golden-comments: strict, core (default), all, or none for no profile.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print each agent's scores under every judge, and the agreement of each pair of judges, by question and axis."""
    from crb_cli.golden_comments import refuse_options
    from crb_core.settings import load_settings
    from crb_core.store import open_store

    store = open_store(load_settings().resolved_store_url)
    try:
        sweep_id, protocol, judges = chosen_judges(store, sweep, judge)
        if protocol != "golden-comments":
            refuse_options(protocol, compatible=False, profile=profile, no_dedup=False)
        scores = [_scores(store, sweep_id, protocol, each, beta, profile) for each in judges]
        pairs = sweep_agreements(store, sweep_id, judges)
        ties = [_ties(store, sweep_id, each) for each in judges]
    finally:
        store.close()
    if as_json:
        print_json(
            {
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
                        "rows": rows,
                        "ties": tied,
                    }
                    for each, rows, tied in zip(judges, scores, ties, strict=True)
                ],
                "agreement": pairs,
            }
        )
        return
    _print_scores(judges, scores, beta)
    print_pairs(pairs)
    for each, tied in zip(judges, ties, strict=True):
        if tied:
            _print_ties(each, tied)


def chosen_judges(store: Store, sweep: str | None, names: Sequence[str] | None) -> tuple[str, str, list[StoredJudge]]:
    """Sweep id, protocol and judges; InputError under two judges, because there is nothing to compare."""
    from crb_cli.leaderboard import chosen_sweep
    from crb_core.errors import InputError
    from crb_core.store.results import find_judge, sweep_judges

    sweep_id, protocol = chosen_sweep(store, sweep, None)
    with store.read() as connection:
        every = sweep_judges(connection, sweep_id)
        judges = [find_judge(connection, sweep_id, name) for name in names] if names else every
    judges = list({each.judge_id: each for each in judges}.values())
    if len(judges) < 2:
        raise InputError(
            "there are fewer than two judges to compare",
            remedy="Add one with crb judge run, or name two of the sweep's",
        )
    return sweep_id, protocol, judges


def _scores(
    store: Store, sweep_id: str, protocol: str, judge: StoredJudge, beta: float, profile: str | None
) -> list[dict[str, Any]]:
    """One record a build: the headline F with precision and recall, as the leaderboard has them."""
    if protocol == "golden-comments":
        from crb_cli.golden_comments import Options, build_rows

        rows, _ = build_rows(store, sweep_id, judge, Options(beta=beta, profile=profile))
        return [
            {
                "agent": row.build.agent,
                "build": row.build.build_id,
                "rank": row.rank,
                **{name: row.figures[name] for name in ("precision", "recall", "f")},
            }
            for row in rows
        ]
    from crb_core.store.boards import load_board

    board, _, _ = load_board(store, sweep_id, judge, beta=beta)
    names = ("precision", "recall", "f")
    prefix = "grounded_" if protocol == "reviewbench" else ""
    return [
        {
            "agent": each.build.agent,
            "build": each.build.build_id,
            "rank": each.rank,
            **{name: each.macro[prefix + name].mean for name in names},
        }
        for each in board.rows
    ]


def sweep_agreements(store: Store, sweep_id: str, judges: Sequence[StoredJudge]) -> list[dict[str, Any]]:
    """Every pair of judges on the trials that both have scored."""
    from crb_core.store.results import load_results

    with store.read() as connection:
        results = [load_results(connection, sweep_id, each) for each in judges]
    return [judges_agreement(first, second) for first, second in combinations(results, 2)]


def judges_agreement(first: SweepResults, second: SweepResults) -> dict[str, Any]:
    """Raw agreement and kappa with interval: on pairs, on coverage, and on each axis that both labelled.

    Judges that share no trial, as imported ones with an extraction of candidates of their own, are compared on which
    goldens the same agent covers; ``own_candidates`` then says so.
    """
    from functools import partial

    from crb_cli.agreement import sweep_agreement
    from crb_core.agreement import coverage_agreement, label_agreement
    from crb_worker.judge.base import comparable

    others = {trial.trial_id: trial.judged for trial in second.trials if trial.judged is not None}
    shared = [
        (trial.judged, others[trial.trial_id])
        for trial in first.trials
        if trial.judged is not None and trial.trial_id in others
    ]
    matches = sweep_agreement(first, second)
    labels = label_agreement(shared)
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
        "axes": {axis: _json(found) for axis, found in labels.items()},
    }


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


def _ties(store: Store, sweep_id: str, judge: StoredJudge) -> list[dict[str, Any]]:
    """The questions on which a council had no majority; empty for every other judge."""
    description = judge.document.get("description", {})
    if description.get("judge") != "council":
        return []
    from crb_core.council import council_labels, council_matches
    from crb_core.store.member_judgments import member_judges, responses
    from crb_core.store.results import load_results

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


def _print_scores(judges: Sequence[StoredJudge], scores: Sequence[Sequence[dict[str, Any]]], beta: float) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("agent", overflow="fold")
    for place, judge in enumerate(judges):
        table.add_column(plain(judge.name), justify="right", overflow="fold", header_style="" if place else "bold")
    # A build a judge, as with imported extractions, is one line an agent.
    alone = all(len({row["agent"] for row in rows}) == len(rows) for rows in scores)
    name = "agent" if alone else "build"
    by_build = [{row[name]: row for row in rows} for rows in scores]
    builds = {row[name]: row["agent"] for rows in scores for row in rows}
    for build, agent in builds.items():
        cells = []
        for rows in by_build:
            row = rows.get(build)
            rank = "" if row is None or row["rank"] is None else f" #{row['rank']}"
            cells.append("" if row is None else f"{figure(row['f'])}{rank}")
        table.add_row(plain(agent), *cells)
    console.print(table)
    console.print(Text(f"F{beta:g} as the leaderboard has it, with the rank under that judge.", style="dim"))
    for judge in judges:
        words = calibration_words(judge.calibration)
        console.print(plain(f"{judge.name} ({judge.judge_id}): {words}"), style="dim", soft_wrap=True)


def print_pairs(pairs: Sequence[dict[str, Any]]) -> None:
    """The agreement of each pair of judges, one line a question."""
    console.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("judges", overflow="fold")
    table.add_column("question", overflow="fold")
    for title in ("n", "equal", "kappa", "95%"):
        table.add_column(title, justify="right", no_wrap=True)
    for pair in pairs:
        rows = [(_QUESTIONS[name], pair[name]) for name in _QUESTIONS] + [*pair["axes"].items()]
        for place, (question, found) in enumerate(rows):
            table.add_row(
                plain(" and ".join(pair["judges"])) if place == 0 else "",
                question,
                str(found["n"]),
                figure(found["raw"]),
                figure(found["kappa"]),
                interval(found["kappa_low"], found["kappa_high"]),
            )
    console.print(table)


#: Ties that the terminal names; --json has all.
_NAMED = 10


def _print_ties(judge: StoredJudge, ties: Sequence[dict[str, Any]]) -> None:
    console.print()
    console.print(plain(f"{judge.name}: {len(ties)} questions without a strict majority"), style="bold")
    for tie in ties[:_NAMED]:
        what = f"golden {tie['golden']}" if tie["golden"] is not None else tie["axis"]
        votes = ", ".join(f"{name} {vote}" for name, vote in tie["votes"].items())
        console.print(
            plain(
                f"  {tie['agent']} on {tie['pull_request']}, round {tie['round']}: "
                f"finding {tie['candidate']}, {what}: {votes}"
            ),
            soft_wrap=True,
        )
    if len(ties) > _NAMED:
        console.print(f"  and {len(ties) - _NAMED} more, all with --json", style="dim")
