"""What ``crb judge rejudge --preview`` shows: the present judge's judgments beside the stored ones, replacing none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.table import Table

from crb_cli.output import console, plain

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.judgment_changes import JudgmentChange
    from crb_core.matching import JudgedPullRequest
    from crb_core.settings import Settings
    from crb_core.store import Store
    from crb_core.store.results import StoredJudge, TrialResult
    from crb_worker.judge.base import Judge

__all__ = ["preview", "preview_count", "print_preview"]

#: Chooses which judgments are previewed, so that a larger preview holds a smaller one and pays nothing twice.
_SEED = "crb rejudge preview"
#: Judgments that the terminal names; --json has all.
_NAMED = 20


def preview_count(value: str | None) -> int | None:
    """How many judgments: None for all. InputError for what is neither a positive number nor ``all``."""
    from crb_core.errors import UsageError, Where

    if value is None or value == "all":
        return None
    if not value.isascii() or not value.isdigit() or not 0 < int(value) < 10**9:
        raise UsageError(
            f"{value[:80]!r} is no number of judgments", where=Where(field="--preview"), remedy="Give 1 or more, or all"
        )
    return int(value)


def preview(
    settings: Settings,
    store: Store,
    sweep_id: str,
    corpus: Corpus,
    stale: StoredJudge,
    present: Judge,
    *,
    count: int | None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> dict[str, Any]:
    """Judge ``count`` of a stale judge's reviews by the present judge and say what is different.

    The answers belong to the judgments to come: judging anew finds them stored.
    """
    from crb_cli.model_calls import open_call_desk
    from crb_core.judgment_changes import judgment_change
    from crb_core.store.results import load_results
    from crb_worker.judge.complete import judged_by
    from crb_worker.judge.outside import judged_each

    with store.read() as connection:
        results = load_results(connection, sweep_id, stale)
    judged = [(trial, trial.judged) for trial in results.trials if trial.judged is not None]
    order = random.Random(_SEED).sample(range(len(judged)), len(judged))
    chosen = [judged[place] for place in sorted(order[:count])]
    desk = open_call_desk(settings, store, present.fingerprint)

    def task(before: JudgedPullRequest, judge: Judge) -> JudgedPullRequest:
        return judged_by(judge, before.key, before.candidates, before.golden, protocol=results.protocol)

    made = judged_each(
        present,
        [
            (
                partial(desk.lender(corpus, trial_id=trial.trial_id, sweep_id=sweep_id), corpus.entry(before.key)),
                partial(task, before),
            )
            for trial, before in chosen
        ],
        slots=settings.judge_slots,
        progress=progress,
    )
    agents = {build.build_id: build.agent for build in results.builds}
    changes = [
        (trial, agents[trial.build_id], judgment_change(before, after, protocol=results.protocol))
        for (trial, before), after in zip(chosen, made, strict=True)
    ]
    return _document(len(judged), changes)


def _document(whole: int, changes: Sequence[tuple[TrialResult, str, JudgmentChange]]) -> dict[str, Any]:
    axes = Counter(label.axis for _, _, change in changes for label in change.labels)
    return {
        "judgments": whole,
        "previewed": len(changes),
        "changed": sum(change.is_change for _, _, change in changes),
        "matches_gained": sum(len(change.matches_gained) for _, _, change in changes),
        "matches_lost": sum(len(change.matches_lost) for _, _, change in changes),
        "labels": dict(sorted(axes.items())),
        "changes": [
            {"trial": trial.trial_id, "agent": agent, "round": trial.round, **change.model_dump(mode="json")}
            for trial, agent, change in changes
            if change.is_change
        ],
    }


def print_preview(name: str, found: Mapping[str, Any]) -> None:
    """The totals, then one line a changed judgment and one a changed label."""
    console.print(
        plain(
            f"{name}: of {found['judgments']} judgments {found['previewed']} judged anew for this preview, "
            f"{found['changed']} differ: {found['matches_gained']} matches gained, {found['matches_lost']} lost"
        )
    )
    if found["labels"]:
        axes = ", ".join(f"{axis} {count}" for axis, count in found["labels"].items())
        console.print(plain(f"  labels that differ: {axes}"))
    if not found["changes"]:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("trial", "agent", "pull request", "round", "finding", "what", "was", "now"):
        table.add_column(title, justify="right" if title in {"trial", "round", "finding"} else "left", overflow="fold")
    for change in found["changes"][:_NAMED]:
        lines = _lines(change)
        for place, (finding, what, was, now) in enumerate(lines):
            about = (str(change["trial"]), change["agent"], change["pull_request"], str(change["round"]))
            table.add_row(*(plain(each) if not place else "" for each in about), finding, what, plain(was), plain(now))
    console.print(table)
    if len(found["changes"]) > _NAMED:
        console.print(f"and {len(found['changes']) - _NAMED} more, all with --json", style="dim")


def _lines(change: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    lines = [(str(candidate), f"golden {golden}", "–", "match") for candidate, golden in change["matches_gained"]]
    lines += [(str(candidate), f"golden {golden}", "match", "–") for candidate, golden in change["matches_lost"]]
    lines += [
        (str(label["candidate"]), label["axis"], label["was"] or "–", label["now"] or "–") for label in change["labels"]
    ]
    lines += [
        ("", ratio.replace("_", " "), _figure(was), _figure(change["now"][ratio]))
        for ratio, was in change["was"].items()
        if was != change["now"][ratio]
    ]
    return lines


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
