"""What other labels of the same golden findings would make of a sweep's rows (seed A 5.3, 11).

No judge is asked and no container runs: which candidate matches which golden finding does not depend on labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from crb_core.corpus import Corpus
from crb_core.errors import InputError
from crb_core.finding import LABEL_AXES, GoldenFinding
from crb_core.golden_sets import AxisChange, relabelled
from crb_core.leaderboard import leaderboard
from crb_core.rows import RANKINGS, Row
from crb_core.store.measured import StoredSweep, load_sweep
from crb_core.store.results import StoredJudge
from crb_core.store.sweeps import find_sweep

__all__ = ["corpus_effect_json", "effect_about", "rows_under_labels"]


def rows_under_labels(
    about: StoredSweep, golden: Mapping[str, tuple[GoldenFinding, ...]], corpus_fingerprint: str
) -> dict[str, Any]:
    """``metrics`` and ``rows`` as they are (``was``) and as the labels of ``golden`` would have them (``now``).

    InputError for a protocol without claims, and where other labels need candidates to be judged anew.
    """
    was = leaderboard(about.measured(), strata=False)
    now = leaderboard(about.relabelled(golden, corpus_fingerprint), strata=False)
    ranking = RANKINGS[about.protocol]
    shown = (ranking.precision, ranking.recall, ranking.headline)
    before = {each.build.build_id: each for each in was.rows}
    return {
        "metrics": list(shown),
        "rows": [
            {
                "agent": each.build.agent,
                "build": each.build.build_id,
                "was": _figures(before[each.build.build_id], shown),
                "now": _figures(each, shown),
            }
            for each in now.rows
        ],
    }


def corpus_effect_json(connection: Connection, sweep: str, judge: StoredJudge, corpus: Corpus) -> dict[str, Any]:
    """``crb.corpus-effect/1``: a sweep's rows under the labels of another version of its corpus.

    InputError where that version has other golden findings: what they match is not known.
    """
    row = find_sweep(connection, sweep)
    about = load_sweep(connection, row.id, judge)
    entries = {entry.pull_request.key: entry for entry in corpus.entries}
    golden: dict[str, tuple[GoldenFinding, ...]] = {}
    changes: list[AxisChange] = []
    for key, old in about.golden.items():
        new = entries[key].golden if key in entries else ()
        if [each.finding_id(key) for each in new] != [each.finding_id(key) for each in old]:
            raise InputError(
                f"the corpus {corpus.name} has other golden findings of {key} than the sweep {row.name} was judged by",
                remedy=f"Run a sweep over it: `crb sweep start --corpus {corpus.name}`",
            )
        golden[key] = new
        for one, other in zip(old, new, strict=True):
            changes += relabelled(key, one, LABEL_AXES, other.label)[1]
    return {
        "format": "crb.corpus-effect/1",
        **effect_about(about, judge, corpus.name),
        "labels_fingerprint": corpus.fingerprint,
        "changes": [each.model_dump(mode="json") for each in changes],
        **rows_under_labels(about, golden, corpus.fingerprint),
    }


def effect_about(about: StoredSweep, judge: StoredJudge, corpus: str) -> dict[str, Any]:
    """The members that say of which sweep, judge and corpus an effect is."""
    return {
        "sweep": about.sweep_name,
        "sweep_id": about.sweep_id,
        "protocol": about.protocol,
        "judge": {"name": judge.name, "fingerprint": judge.judge_id},
        "corpus": corpus,
        "corpus_fingerprint": about.corpus_fingerprint,
    }


def _figures(row: Row, shown: tuple[str, ...]) -> dict[str, Any]:
    return {
        "rank": row.rank,
        **{name: row.macro[name].mean for name in shown},
        "unclassified_count": row.counts["unclassified_count"],
    }
