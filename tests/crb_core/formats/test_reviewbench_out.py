"""ReviewBench's result files: their own names and shapes, and nothing that is undefined becomes a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crb_core.corpus import CorpusEntry
from crb_core.duration import RoundDuration
from crb_core.formats.reviewbench_out import corpus_stats, details_json, results_json, usage_json
from crb_core.formats.reviewbench_results import read_reviews
from crb_core.matching import Correspondence, JudgedPullRequest
from crb_core.metrics import score
from tests.crb_core.archived import corpus, pull_request, reviews


def judged(round_number: int = 3) -> list[JudgedPullRequest]:
    """One round of the little corpus, from the reviews as they are imported."""
    entries = {entry.pull_request.key: entry for entry in corpus().entries}
    found = []
    for review in reviews():
        if review.round != round_number:
            continue
        judgment = review.judgments[0]
        links: dict[int, list[int]] = {}
        for pair in judgment.pairs:
            links.setdefault(pair.candidate, []).append(pair.golden)
        found.append(
            JudgedPullRequest(
                key=review.pull_request,
                golden=entries[review.pull_request].golden,
                candidates=tuple(each.finding for each in review.candidates),
                correspondences=tuple(Correspondence(candidate=c, golden=tuple(g)) for c, g in links.items()),
                classifications=judgment.classifications,
            )
        )
    return found


def results(items: list[JudgedPullRequest], description: dict[str, Any] | None = None) -> dict[str, Any]:
    entries: list[CorpusEntry] = list(corpus().entries)
    return results_json(
        score(items),
        entries=entries,
        usage=[{"prompt_tokens": 10}, None, {"prompt_tokens": 30, "cost_usd": 0.5}],
        judge="people",
        judge_id="j-0123456789ab",
        description=description or {},
        spent=RoundDuration(mean_ms=5.0, measured=1, from_seconds=0, successful=3),
        crb={"sweep": "s"},
    )


def test_results_have_the_public_shape() -> None:
    """macro, micro, pr_count, per_pr, eval_config, corpus_stats, candidate_usage; counts as facts A9 name them."""
    found = results(judged())
    assert list(found) == [
        *("macro", "micro", "pr_count", "per_pr", "eval_config", "corpus_stats", "candidate_usage", "crb")
    ]
    assert found["pr_count"] == 3
    assert [each["pr_key"] for each in found["per_pr"]] == ["pr-1", "pr-2", "pr-3"]
    overall = found["micro"]["overall"]
    assert overall == {
        "grounded_precision": 3 / 4,
        "grounded_recall": 3 / 5,
        "augmented_precision": 5 / 9,
        "augmented_recall": 5 / 7,
        "novel_tp_count": 2,
        "novel_tp_yield": 2 / 9,
        "candidate_count": 9,
        "golden_tp_count": 5,
        "matched_count": 4,
        "matched_tp_count": 3,
        "unmatched_count": 5,
        "unmatched_tp_count": 2,
        "unmatched_fp_count": 3,
        "golden_covered_count": 3,
    }
    assert set(found["micro"]["by_severity"]) == {"high", "medium", "low"}


def test_an_imported_judges_own_configuration_is_kept() -> None:
    """eval_config passes through; else what is known, with null for hashes that are not."""
    config = {"matcher_model": "m", "golden_hash": "h"}
    assert results(judged(), {"eval_config": config})["eval_config"] == config
    described = {"matcher": {"model": "m-1"}, "prompts": {"matcher": {"sha256": "ab"}}}
    found = results(judged(), described)["eval_config"]
    assert (found["matcher_model"], found["matcher_prompt_hash"], found["classifier_model"], found["golden_hash"]) == (
        "m-1",
        "ab",
        None,
        None,
    )


def test_details_name_what_every_candidate_is() -> None:
    """Claimed with the golden's label, unmatched with the classifier's."""
    first = details_json(judged())[0]["candidate_findings"]
    assert [(each["status"], each["matched_golden_index"], each["covered_golden_indices"]) for each in first] == [
        ("matched_tp", 0, [0]),
        ("matched_fp", 2, [2]),
        ("novel_fp", None, []),
    ]
    assert (first[2]["classifier_tp_fp"], first[2]["result_severity"], first[2]["golden_tp_fp"]) == ("fp", "low", None)


def test_details_read_back_to_the_same_judgments(tmp_path: Path) -> None:
    """The importer gives equal candidates, matches and labels, also for a second match of a claimed golden."""
    for number in (1, 2, 3):
        items = judged(number)
        path = tmp_path / "results.details.json"
        path.write_text(json.dumps(details_json(items)))
        back = {each.pull_request: each for each in read_reviews(path, corpus(), agent="alpha").reviews}
        for item in items:
            review = back[item.key]
            assert [each.finding.message for each in review.candidates] == [each.message for each in item.candidates]
            pairs = {(pair.candidate, pair.golden) for pair in review.judgments[0].pairs}
            assert pairs == {(each.candidate, golden) for each in item.correspondences for golden in each.golden}
            labels = {each.candidate: each.label.tp_fp for each in review.judgments[0].classifications}
            assert labels == {each.candidate: each.label.tp_fp for each in item.classifications}


def test_unclassified_findings_are_not_false_positives() -> None:
    """The status has no word for it; the label stays null, and so do the augmented metrics."""
    items = [each.model_copy(update={"classifications": ()}) for each in judged()]
    found = results(items)
    assert found["crb"]["unclassified_count"] == 5
    assert found["macro"]["overall"]["augmented_precision"] is None
    last = details_json(items)[0]["candidate_findings"][2]
    assert (last["status"], last["classifier_tp_fp"], last["llm_classification"]) == ("novel_fp", None, None)


def test_usage_is_null_where_nobody_reported() -> None:
    """Totals and means over reporters only, with coverage."""
    found = usage_json([{"prompt_tokens": 10}, None, {"prompt_tokens": 30, "cost_usd": 0.5, "total_tokens": True}])
    assert (found["pr_count"], found["reported_pr_count"]) == (3, 2)
    assert (found["total"]["prompt_tokens"], found["per_pr_mean"]["prompt_tokens"]) == (40, 20)
    assert (found["total"]["total_tokens"], found["coverage"]["total_tokens"]) == (None, 0)
    assert found["per_pr_mean"]["cost_usd"] == 0.5


def test_corpus_stats_average_over_languages() -> None:
    """The upper median of sizes; averages divide by the pull requests that have a language; null is not 0."""
    prs = [pull_request(1), pull_request(2), pull_request(3, traits={})]
    found = corpus_stats(prs)
    assert (found["languages"], found["repos"], found["repo_size_kb_p50"]) == ({"Python": 2}, 2, 200)
    assert (found["total_lines_added"], found["avg_lines_added"], found["total_files_changed"]) == (30, 15, None)


def test_nothing_to_describe() -> None:
    """An empty set has no averages."""
    assert corpus_stats([])["repo_size_kb_p50"] is None
