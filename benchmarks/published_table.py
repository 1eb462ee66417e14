"""Writes docs/published-table.md: the published golden-comments table beside both ways of counting.

    python -m benchmarks.published_table FOLDER [--output docs/published-table.md]

FOLDER is laid out as the golden-comments benchmark and holds ``published_table.json``; without it
``$CRB_SHARED_DATA/golden-comments`` is read. The folder is imported into a temporary store, counted from the recorded
lists and strictly, and compared. Exit code 1 when a compatible figure differs from the published one, or when a
difference between the two countings is not explained by the reasons that the page gives.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crb_core.comment_lists import compatible_rows
from crb_core.comment_rows import CommentRow, CommentTrial
from crb_core.formats.golden_comments import FORMAT, read_corpus
from crb_core.formats.golden_comments_results import read_results
from crb_core.golden_leaderboard import strict_rows
from crb_core.identity import RowIdentity
from crb_core.store import open_store
from crb_core.store.comment_results import load_comment_trials, scorable_pull_requests
from crb_core.store.imports import import_corpus, import_reviews
from crb_core.store.results import sweep_judges

__all__ = ["main"]

#: Published name -> ours.
_FIGURES = {
    "tp": "tp",
    "fp": "fp",
    "fn": "fn",
    "precision": "precision",
    "recall": "recall",
    "f1": "f",
    "macro_precision": "macro_precision",
    "macro_recall": "macro_recall",
    "macro_f1": "macro_f1",
}

_INTRODUCTION = """# The published golden-comments table, and what strict counting makes of it

This page is made by `python -m benchmarks.published_table`, from the recorded evaluations of the golden-comments
benchmark (30 pull requests, sentry, grafana and keycloak). Do not edit it by hand.

* **Compatible** is `crb leaderboard --protocol golden-comments --compatible`: the recorded lists of true positives,
  false positives and false negatives are counted, as the public tool does. Ratios are of the sums over pull requests
  (micro), macro F1 is the mean of the reviews' F1, and what is undefined counts as 0.
* **Strict** is `crb leaderboard --protocol golden-comments --profile none`: findings are told apart by position, not by
  text, and what is undefined is left out of a mean. No profile is applied, because this copy of the golden comments has
  no categories, and a comment without a category counts in no profile.

"""

_REASONS = """## Why the two differ

| column | what happens |
|---|---|
| triggers | A bot's command (a bare mention or the word review with the bot's name) was recorded as a false positive. It is no finding: strict counting leaves it out, so fp falls. |
| repeated | A text that the tool said more than once was recorded once, because the public tool keys its state by text. Strict counting charges each, except inside a dedup group (this copy has no dedup groups), so fp rises. |
| displaced | A candidate matched a golden comment, and a better one took its place: it is in no list. Neither counting charges it; strict counting says how many there are. |
| macro F1 | Compatible takes 0 for a review without candidates or matches and averages F1 over all reviews; strict computes it from macro precision and macro recall, each a mean over the reviews where it is defined. |

tp and fn are equal, because no golden comment of a pull request has the text of another one. The strict fp of every row
is the compatible one minus *triggers* plus *repeated*; the script that makes this page fails where that is not so.
"""  # noqa: E501


@dataclass(frozen=True, kw_only=True)
class _Line:
    judge: str
    compatible: CommentRow
    strict: CommentRow
    triggers: int
    repeated: int


def _lines(folder: Path) -> Iterator[_Line]:
    found = read_corpus(folder, "golden-comments")
    results = read_results(folder, found.corpus)
    with tempfile.TemporaryDirectory(prefix="crb-published-") as home:
        store = open_store(f"sqlite:///{home}/crb.sqlite")
        with store.write() as connection:
            corpus_id = import_corpus(connection, found.corpus, {}, FORMAT).corpus_id
            sweep_id = import_reviews(
                connection, results.reviews, name="published", corpus_id=corpus_id, format_name=FORMAT, record={}
            ).sweep_id
        with store.read() as connection:
            keys = scorable_pull_requests(connection, sweep_id)
            for judge in sweep_judges(connection, sweep_id):
                swept, trials = load_comment_trials(connection, sweep_id, judge)
                builds = [
                    (
                        build,
                        RowIdentity.of_build(
                            build,
                            corpus_fingerprint=swept.corpus_fingerprint,
                            protocol=FORMAT,
                            judge=judge.judge_id,
                        ),
                        trials[build.build_id],
                    )
                    for build in swept.builds
                ]
                strict = {
                    row.build.agent: row
                    for row in strict_rows(builds, judge=judge.name, pull_requests=keys, profile=None)
                }
                for row in sorted(compatible_rows(builds, judge=judge.name), key=lambda each: each.build.agent):
                    mine = trials[row.build.build_id]
                    yield _Line(
                        judge=judge.name,
                        compatible=row,
                        strict=strict[row.build.agent],
                        triggers=sum(_triggers(trial) for trial in mine),
                        repeated=sum(_repeated(trial) for trial in mine),
                    )
        store.close()


def _false_positives(trial: CommentTrial) -> list[str]:
    entries: Sequence[Any] = trial.recorded.false_positives if trial.recorded is not None else ()
    return [entry["candidate"] if isinstance(entry, dict) else entry for entry in entries]


def _candidates(trial: CommentTrial) -> list[str]:
    return [candidate.message for candidate in trial.judged.candidates] if trial.judged is not None else []


def _triggers(trial: CommentTrial) -> int:
    """Recorded false positives that are no candidates."""
    known = set(_candidates(trial))
    return sum(text not in known for text in _false_positives(trial))


def _repeated(trial: CommentTrial) -> int:
    """Candidates with a recorded false positive's text beyond the first one."""
    texts = _candidates(trial)
    return sum(texts.count(text) - 1 for text in set(_false_positives(trial)) if text in texts)


def _problems(line: _Line, published: dict[str, Any]) -> Iterator[str]:
    row, name = line.compatible, f"{line.compatible.build.agent} under {line.judge}"
    figures = published.get(line.judge, {}).get(row.build.agent)
    if figures is None:
        yield f"{name} is not in the published table"
        return
    for theirs, ours in _FIGURES.items():
        value = row.figures[ours]
        if (value if isinstance(figures[theirs], int) else round(value, 4)) != figures[theirs]:
            yield f"{name}: {theirs} is {value}, published {figures[theirs]}"
    strict, compatible = line.strict.figures, row.figures
    if strict["fp"] != compatible["fp"] - line.triggers + line.repeated:
        yield f"{name}: the strict fp {strict['fp']} is not explained"
    if (strict["tp"], strict["fn"]) != (compatible["tp"], compatible["fn"]):
        yield f"{name}: tp or fn differ between the countings"


def _page(lines: Sequence[_Line]) -> str:
    parts = [_INTRODUCTION]
    for judge in dict.fromkeys(line.judge for line in lines):
        parts.append(f"## Judge {judge}\n\n")
        parts.append(
            "| tool | tp | fn | fp | precision | recall | F1 | macro F1 | strict fp | strict precision | strict F1 "
            "| strict macro F1 | triggers | repeated | displaced |\n"
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        )
        mine = [line for line in lines if line.judge == judge]
        for line in sorted(mine, key=lambda each: (each.compatible.rank or 0, each.compatible.build.agent)):
            one, other = line.compatible.figures, line.strict.figures
            cells = [
                line.compatible.build.agent,
                *(str(one[name]) for name in ("tp", "fn", "fp")),
                *(f"{one[name]:.4f}" for name in ("precision", "recall", "f", "macro_f1")),
                str(other["fp"]),
                *("–" if other[name] is None else f"{other[name]:.4f}" for name in ("precision", "f", "macro_f1")),
                f"−{line.triggers}" if line.triggers else "0",
                f"+{line.repeated}" if line.repeated else "0",
                str(other["match_unrecorded_count"]),
            ]
            parts.append(f"| {' | '.join(cells)} |\n")
        parts.append("\n")
    parts.append(_REASONS)
    return "".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the page; 0 when every figure agrees and every difference is explained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="the benchmark's folder, with published_table.json")
    parser.add_argument("--output", type=Path, help="the page to write; it is printed by default")
    chosen = parser.parse_args(arguments)
    shared = os.environ.get("CRB_SHARED_DATA")
    if chosen.folder is None and shared is None:
        parser.error("name the data folder, or set CRB_SHARED_DATA")
    folder: Path = chosen.folder or Path(shared or "") / "golden-comments"
    published = json.loads((folder / "published_table.json").read_text(encoding="utf-8"))["judges"]
    lines = list(_lines(folder))
    page = _page(lines)
    if chosen.output is None:
        print(page, end="")
    else:
        chosen.output.write_text(page, encoding="utf-8")
    problems = [problem for line in lines for problem in _problems(line, published)]
    missing = {(judge, tool) for judge, tools in published.items() for tool in tools} - {
        (line.judge, line.compatible.build.agent) for line in lines
    }
    problems += [f"{tool} under {judge} is published, but was not imported" for judge, tool in sorted(missing)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
