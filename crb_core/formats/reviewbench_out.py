"""ReviewBench's ``results.json`` and ``results.details.json`` of one build and round (facts A9, A10, A13).

Names and shapes are the public evaluator's, so that its users' scripts keep working; what crb adds stands under the key
``crb``. Two things differ on purpose: an undefined ratio is null, and while a finding has no classification the
augmented metrics are null too (rule 10). The format has no status for such a finding; as the public scorer does, it is
written as ``novel_fp``, but its ``classifier_tp_fp`` stays null, and ``unclassified_count`` says how many there are.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from crb_core.aggregate import Score
from crb_core.claims import claims_of
from crb_core.corpus import CorpusEntry
from crb_core.duration import RoundDuration
from crb_core.finding import Label
from crb_core.matching import JudgedPullRequest
from crb_core.metrics import MetricSet
from crb_core.pull_request import PullRequest

__all__ = ["USAGE_METRICS", "corpus_stats", "details_json", "results_json", "usage_json"]

USAGE_METRICS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "time_in_ms", "cost_usd")

_METRICS = (
    "grounded_precision",
    "grounded_recall",
    "augmented_precision",
    "augmented_recall",
    "novel_tp_count",
    "novel_tp_yield",
    "candidate_count",
    "golden_tp_count",
    "matched_count",
    "matched_tp_count",
    "unmatched_count",
    "unmatched_tp_count",
    "unmatched_fp_count",
    "golden_covered_count",
)


def results_json(
    score: Score[MetricSet],
    *,
    entries: Sequence[CorpusEntry],
    usage: Sequence[Mapping[str, Any] | None],
    judge: str,
    judge_id: str,
    description: Mapping[str, Any],
    spent: RoundDuration,
    crb: Mapping[str, Any],
) -> dict[str, Any]:
    """``results.json``. ``entries`` are the scored pull requests, ``usage`` theirs, in the same order.

    ``crb`` says what this was made from: sweep, build, round, corpus.
    """
    return {
        "macro": _level(score.macro),
        "micro": _level(score.micro),
        "pr_count": len(score.per_pull_request),
        "per_pr": [{"pr_key": each.key, **_level(each)} for each in score.per_pull_request],
        "eval_config": _eval_config(judge, description, [entry.pull_request.key for entry in entries]),
        "corpus_stats": corpus_stats([entry.pull_request for entry in entries]),
        "candidate_usage": usage_json(usage),
        "crb": {
            **crb,
            "judge": judge,
            "judge_fingerprint": judge_id,
            "grounded_f": score.macro.overall.grounded_f,
            "augmented_f": score.macro.overall.augmented_f,
            "unclassified_count": score.macro.overall.unclassified_count,
            "answer_key_fingerprints": {entry.pull_request.key: entry.answer_key_fingerprint for entry in entries},
            "duration": spent.model_dump(mode="json"),
        },
    }


def details_json(judged: Sequence[JudgedPullRequest]) -> list[dict[str, Any]]:
    """``results.details.json``: every candidate of every pull request with what it matches and how it is labelled."""
    return [{"pr_key": each.key, "candidate_findings": _candidates(each)} for each in judged]


def corpus_stats(pull_requests: Sequence[PullRequest]) -> dict[str, Any]:
    """Languages, lines, files and repositories. Averages are over the pull requests that have a language.

    ``repo_size_kb_p50`` is the upper median, as the public evaluator takes it; null where nothing was recorded.
    """
    with_language = [each for each in pull_requests if each.traits.language is not None]
    sizes = sorted(each.traits.repo_size_kb for each in pull_requests if each.traits.repo_size_kb is not None)
    stats: dict[str, Any] = {
        "pr_count": len(pull_requests),
        "languages": dict(sorted(Counter(str(each.traits.language) for each in with_language).items())),
    }
    for name in ("lines_added", "lines_removed", "files_changed"):
        values = [getattr(each.traits, name) for each in pull_requests]
        known = [value for value in values if value is not None]
        stats[f"total_{name}"] = sum(known) if known else None
        stats[f"avg_{name}"] = sum(known) / len(with_language) if known and with_language else None
    stats["repo_size_kb_p50"] = sizes[len(sizes) // 2] if sizes else None
    stats["repos"] = len({each.nwo for each in pull_requests})
    return stats


def usage_json(records: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Totals and means of what agents reported; null where nobody did, means over those who did."""
    values = {name: [_number(record, name) for record in records] for name in USAGE_METRICS}
    known = {name: [value for value in each if value is not None] for name, each in values.items()}
    reported = sum(any(values[name][place] is not None for name in USAGE_METRICS) for place in range(len(records)))
    totals = {name: math.fsum(each) if each else None for name, each in known.items()}
    return {
        "pr_count": len(records),
        "reported_pr_count": reported,
        "coverage": {name: len(each) for name, each in known.items()},
        "total": totals,
        "per_pr_mean": {name: None if total is None else total / len(known[name]) for name, total in totals.items()},
    }


def _number(record: Mapping[str, Any] | None, name: str) -> float | None:
    value = (record or {}).get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def _level(level: Any) -> dict[str, Any]:
    return {
        "overall": _metrics(level.overall),
        "by_severity": {name: _metrics(each) for name, each in level.by_severity.items()},
        "by_category": {name: _metrics(each) for name, each in level.by_category.items()},
    }


def _metrics(metrics: MetricSet) -> dict[str, Any]:
    return {name: getattr(metrics, name) for name in _METRICS}


def _eval_config(judge: str, description: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """What an imported judge recorded, else what is known of ours. Hashes of texts that are not at hand are null."""
    recorded = description.get("eval_config")
    if isinstance(recorded, Mapping) and recorded:
        return dict(recorded)
    prompts = description.get("prompts")
    config: dict[str, Any] = {"golden_hash": None}
    for task in ("classifier", "matcher"):
        part = description.get(task)
        model = part.get("model") if isinstance(part, Mapping) else None
        prompt = prompts.get(task) if isinstance(prompts, Mapping) else None
        config[f"{task}_model"] = model if model is not None else judge if task == "matcher" else None
        config[f"{task}_prompt_hash"] = prompt.get("sha256") if isinstance(prompt, Mapping) else None
    config["evaluated_prs_hash"] = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
    return config


def _candidates(judged: JudgedPullRequest) -> list[dict[str, Any]]:
    claims = claims_of(judged)
    labels = {record.candidate: record.label for record in judged.classifications}
    covered = {record.candidate: sorted(record.golden) for record in judged.correspondences}
    entries = []
    for position, candidate in enumerate(judged.candidates):
        claimed = claims.claimed.get(position)
        golden: Label | None = None if claimed is None else judged.golden[claimed].label
        label = None if claimed is not None else labels.get(position)
        result = golden or label
        verdict = str(result.tp_fp) if result is not None else "fp"
        entries.append(
            {
                "file": candidate.file,
                "start_line": candidate.start_line,
                "end_line": candidate.end_line,
                "message": candidate.message,
                "status": f"{'novel' if claimed is None else 'matched'}_{verdict}",
                "matched_golden_index": claimed,
                "covered_golden_indices": covered.get(position, []),
                "golden_tp_fp": None if golden is None else str(golden.tp_fp),
                "golden_severity": None if golden is None else golden.severity,
                "golden_category": None if golden is None else golden.category,
                "classifier_tp_fp": None if label is None else str(label.tp_fp),
                "classifier_severity": None if label is None else label.severity,
                "classifier_category": None if label is None else label.category,
                "matched_to_ground_truth": claimed is not None,
                "llm_judged_match": bool(covered.get(position)),
                "match_method": "llm" if covered.get(position) else "none",
                "matched_truth_label": None if golden is None else str(golden.tp_fp),
                "llm_classification": None if label is None else str(label.tp_fp),
                "result_severity": None if result is None else result.severity,
                "result_category": None if result is None else result.category,
            }
        )
    return entries
