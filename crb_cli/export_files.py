"""What the commands of ``crb export`` read from the store and write into files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crb_core.errors import InputError, UsageError, Where

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from crb_core.corpus import Corpus
    from crb_core.evidence import EvidenceStore
    from crb_core.formats.csv_table import Table
    from crb_core.store import Store
    from crb_core.store.exports import JudgedTrial
    from crb_core.store.results import StoredJudge

__all__ = [
    "ByTool",
    "chosen_sweep",
    "safe_name",
    "tables",
    "unwritable",
    "write_by_tool",
    "write_reviewbench",
    "write_table",
]


@dataclass(frozen=True, kw_only=True)
class ByTool:
    """What was written; ``cut`` cells had more text than a cell can hold."""

    workbooks: int
    rows: int
    cut: int


def chosen_sweep(
    connection: Connection, sweep: str, judge: Sequence[str] | None, *, needs_judge: bool = True
) -> tuple[str, Corpus, list[StoredJudge]]:
    """Id, corpus and judges of a sweep; ``judge`` names those that are wanted."""
    from crb_core.store.corpora import load_corpus
    from crb_core.store.results import find_judge, sweep_judges
    from crb_core.store.sweeps import find_sweep

    row = find_sweep(connection, sweep)
    corpus = load_corpus(connection, row.corpus_id)
    if corpus.protocol == "golden-comments":
        # The recorded model's own name may be given too; its folder has _ for /.
        judge = [name.replace("/", "_") for name in judge or ()]
    judges = [find_judge(connection, row.id, name) for name in judge] if judge else sweep_judges(connection, row.id)
    if needs_judge and not judges:
        raise InputError(f"The sweep {row.name} has no judgments", remedy=f"Judge it with `crb judge run {row.name}`")
    return row.id, corpus, judges


def tables(
    store: Store, connection: Connection, sweep: str, judge: Sequence[str] | None, names: Sequence[str]
) -> list[Table]:
    """The tables of these names, as ``crb leaderboard`` and the store have them."""
    from crb_core.formats.csv_table import flat_rows, table_of
    from crb_core.store.exports import findings_table, golden_table

    sweep_id, corpus, judges = chosen_sweep(connection, sweep, judge, needs_judge="leaderboard" in names)
    found = []
    for name in names:
        if name == "golden":
            found.append(golden_table(corpus))
        elif name == "findings":
            found.append(findings_table(connection, sweep_id, corpus, judges))
        else:
            records = _board_records(store, sweep_id, corpus.protocol, judges)
            found.append(table_of("leaderboard", flat_rows(records)))
    return found


def _board_records(
    store: Store, sweep_id: str, protocol: str, judges: Sequence[StoredJudge]
) -> Iterator[dict[str, Any]]:
    """The rows of ``crb leaderboard --json`` under every judge, golden-comments counted both ways."""
    from crb_cli import golden_comments
    from crb_core.store.boards import load_board

    for judge in judges:
        lead = {"judge": judge.name, "judge_fingerprint": judge.judge_id}
        if protocol == golden_comments.PROTOCOL:
            for compatible in (False, True):
                options = golden_comments.Options(compatible=compatible)
                counting = {"counting": "compatible" if compatible else "strict", "profile": options.chosen_profile}
                for row in golden_comments.build_rows(store, sweep_id, judge, options)[0]:
                    yield lead | counting | row.to_json()
        else:
            board, _, _ = load_board(store, sweep_id, judge)
            for each in board.rows:
                yield lead | each.to_json()


def write_by_tool(
    connection: Connection,
    evidence: EvidenceStore,
    sweep: str,
    out: Path,
    judge: Sequence[str] | None,
    agent: Sequence[str] | None,
) -> ByTool:
    """Write one workbook a tool and judge into ``out``."""
    from crb_core.formats.csv_table import Table
    from crb_core.formats.tool_reviews import COLUMNS, file_name
    from crb_core.formats.xlsx import write_workbook
    from crb_core.store.exports import judged_parts, judged_trials

    sweep_id, corpus, judges = chosen_sweep(connection, sweep, judge)
    downloaded = _downloaded(connection, evidence, sweep_id)
    workbooks = rows = cut = 0
    for each in judges:
        builds: dict[str, list[Any]] = {}
        for build, part in judged_parts(connection, sweep_id, each):
            if not agent or build.agent in agent:
                builds.setdefault(build.build_id, []).append((build, part))
        names = [file_name(parts[0][0].agent).lower() for parts in builds.values()]
        for build_id, parts in builds.items():
            build = parts[0][0]
            is_shared = names.count(file_name(build.agent).lower()) > 1
            sheets = [
                Table(
                    name=f"round {part[1]}" if len(parts) > 1 else "reviews",
                    columns=COLUMNS,
                    rows=[
                        _review_row(trial, downloaded)
                        for trial in judged_trials(connection, sweep_id, corpus, each, build, part)
                    ],
                )
                for _, part in parts
            ]
            folder = _made(out / safe_name(each.name))
            written = write_workbook(folder / file_name(build.agent, f"-{build_id}" if is_shared else ""), sheets)
            workbooks, rows, cut = workbooks + 1, rows + written.rows, cut + written.cut
    if not workbooks:
        raise InputError("nothing was chosen", remedy="Check --judge and --agent")
    return ByTool(workbooks=workbooks, rows=rows, cut=cut)


def _review_row(trial: JudgedTrial, downloaded: Any) -> Any:
    from crb_core.formats.golden_comments import pull_request_url
    from crb_core.formats.tool_reviews import review_row

    url = pull_request_url(trial.entry.pull_request)
    attempt = trial.succeeded or {}
    known = (attempt.get("source") or {}).get("benchmark_data") or {}
    # What an agent of the farm reported is its review.
    own_comments = [{"path": each.file, "line": each.lines, "body": each.message} for each in trial.candidates]
    return review_row(
        key=trial.key,
        url=known.get("pr_url") or url,
        comments=downloaded.get((url, known.get("review"))) if trial.build.runner == "imported" else own_comments,
        candidates=trial.candidates,
        golden=trial.entry.golden,
        judged=trial.judged,
        unjudged=trial.document.get("golden_unjudged", ()),
    )


def _downloaded(connection: Connection, evidence: EvidenceStore, sweep_id: str) -> dict[tuple[str, int], Any]:
    """The comments of every downloaded review, from the evidence of the sweep's imports."""
    from crb_core.formats.tool_reviews import read_downloaded
    from crb_core.store.imports import import_records

    found: dict[tuple[str, int], Any] = {}
    for record in import_records(connection, "sweep", sweep_id):
        files = record.get("files")
        for name, digest in files.items() if isinstance(files, dict) else ():
            if name.rsplit("/", 1)[-1] == "benchmark_data.json":
                found.update(read_downloaded(evidence.get(digest), name))
    return found


def write_table(table: Table, out: Path) -> int:
    """Write a table as CSV to a file, which appears only once it is whole, or to standard output (``-``)."""
    from crb_cli.output import csv_output
    from crb_core.formats.csv_table import write_csv

    if str(out) == "-":
        return write_csv(table, csv_output())
    if out.is_dir():
        raise UsageError("a table is written to a file", where=Where(file=str(out)), remedy="Name one, or -")
    partial = out.with_name(f".{out.name}.part")
    try:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            rows = write_csv(table, stream)
        partial.replace(out)
    except OSError as error:
        raise unwritable(out, error) from None
    finally:
        partial.unlink(missing_ok=True)
    return rows


def write_reviewbench(folder: Path, sweep: str, trials: Sequence[JudgedTrial]) -> int:
    """Write the two files of one round; returns how many findings have no classification."""
    from crb_core.corpus import canonical_json
    from crb_core.duration import Measurement, round_duration
    from crb_core.formats.reviewbench_out import details_json, results_json
    from crb_core.metrics import score

    scored = [trial for trial in trials if trial.judged is not None]
    judged = [trial.judged for trial in scored if trial.judged is not None]
    result = score(judged)
    judge, build = trials[0].judge, trials[0].build
    spent = round_duration(
        [
            Measurement(
                pull_request=trial.key,
                review_ms=trial.succeeded["review_ms"],
                duration_seconds=trial.succeeded["duration_seconds"],
            )
            for trial in trials
            if trial.succeeded is not None
        ]
    )
    document = results_json(
        result,
        entries=[trial.entry for trial in scored],
        usage=[(trial.succeeded or {}).get("usage") for trial in scored],
        judge=judge.name,
        judge_id=judge.judge_id,
        description=judge.document.get("description", {}),
        spent=spent,
        crb={
            "sweep": sweep,
            "agent": build.agent,
            "build": build.build_id,
            "round": trials[0].round,
            "planned": len(trials),
            "unscored": {trial.key: trial.judgment.problem for trial in trials if trial.judged is None},
            "failed_attempts": _in_vain(trials),
        },
    )
    _made(folder)
    for name, value in (("results.json", document), ("results.details.json", details_json(judged))):
        # Canonical first: a value that JSON cannot hold must not leave half a file.
        canonical_json(value)
        try:
            (folder / name).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise unwritable(folder / name, error) from None
    return result.macro.overall.unclassified_count


def _in_vain(trials: Sequence[JudgedTrial]) -> dict[str, Any]:
    """What attempts that did not succeed used, which ``candidate_usage`` leaves out."""
    from crb_core.formats.reviewbench_out import usage_json
    from crb_core.store.reviews import was_in_vain

    used = usage_json(
        [row["usage"] for trial in trials for row in trial.review.attempts if was_in_vain(row["outcome"])]
    )
    return {"attempts": used["pr_count"], "reported": used["reported_pr_count"], "total": used["total"]}


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}", remedy="Name another one") from None
    return folder


def safe_name(name: str) -> str:
    """A name from outside as the name of one folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100].strip(".") or "_"


def unwritable(path: Path, error: OSError) -> InputError:
    """The error for a file that cannot be written."""
    return InputError(f"{path} cannot be written: {error.strerror}", remedy="Name a file in another folder")
