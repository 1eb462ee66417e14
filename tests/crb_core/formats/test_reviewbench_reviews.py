"""ReviewBench's candidate files and details become reviews and judgments (facts A4, A10)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crb_core.agent import Outcome
from crb_core.errors import InputError
from crb_core.formats.imported import ImportedReviews
from crb_core.formats.reviewbench import read_reviewbench
from crb_core.formats.reviewbench_results import read_reviews
from tests.crb_core.formats import imported_samples as samples


def read(
    tmp_path: Path, *gone: str, path: str = "reviews", agent: str | None = None, **changes: Any
) -> ImportedReviews:
    files = samples.rb_files() | changes
    folder = samples.write_files(tmp_path, {name: value for name, value in files.items() if name not in gone})
    corpus, _ = read_reviewbench(folder / "corpus", "c")
    return read_reviews(folder / path, corpus, agent=agent)


def kinds(found: ImportedReviews) -> dict[str, int]:
    return dict(Counter(each.kind for each in found.irregularities))


def test_a_candidate_file_with_its_details(tmp_path: Path) -> None:
    """Candidates, usage and legacy duration from the one; matches, labels and the judge's name from the other."""
    found = read(tmp_path)
    (review,) = found.reviews
    assert (review.agent, review.pull_request, review.outcome) == ("alpha", samples.RB_KEY, Outcome.SUCCEEDED)
    assert (review.review_ms, review.duration_seconds) == (None, 31.0)
    assert review.usage == {"total_tokens": 1200, "cost_usd": 0.02}
    (judgment,) = review.judgments
    assert judgment.judge == "judge-1"
    assert [(pair.candidate, pair.golden) for pair in judgment.pairs] == [(0, 0), (1, 1)]
    (label,) = judgment.classifications
    assert (label.candidate, label.label.tp_fp.value, label.label.severity, label.label.category) == (
        2,
        "tp",
        "low",
        "security",
    )
    assert judgment.document["recorded"] == samples.rb_details()[0]
    assert kinds(found) == {}


def test_details_alone_bring_their_candidates_and_need_an_agent(tmp_path: Path) -> None:
    """They do not say whose candidates they judge."""
    with pytest.raises(InputError, match="does not say which agent"):
        read(tmp_path, "reviews/alpha.json")
    (review,) = read(tmp_path, "reviews/alpha.json", agent="zeta").reviews
    assert [each.finding.message for each in review.candidates] == ["Grows.", "Odd.", "New."]
    assert review.agent == "zeta"


def test_details_of_other_candidates_are_refused(tmp_path: Path) -> None:
    """Positions would mean other findings."""
    details = samples.rb_details()
    details[0]["candidate_findings"][1]["message"] = "Other."
    with pytest.raises(InputError, match="not the candidate that the candidate files have") as caught:
        read(tmp_path, **{"reviews/results.details.json": details})
    assert caught.value.where is not None
    assert caught.value.where.field == "[0].candidate_findings[1]"


def test_claims_that_disagree_with_the_definitions_are_reported(tmp_path: Path) -> None:
    """Correspondences count; a recorded claim is only compared."""
    details = samples.rb_details()
    details[0]["candidate_findings"][1] |= {"covered_golden_indices": [0, 1], "matched_golden_index": 1}
    details[0]["candidate_findings"][0] |= {"covered_golden_indices": [], "matched_golden_index": None}
    found = read(tmp_path, **{"reviews/results.details.json": details})
    assert kinds(found) == {"claims disagree": 1, "missing classification": 1, "status disagrees": 1}


def test_a_placeholder_category_is_reported_and_left_out(tmp_path: Path) -> None:
    """The public tool writes its own word where the classifier gave nothing."""
    details = samples.rb_details()
    details[0]["candidate_findings"][2]["classifier_category"] = "unclassified"
    found = read(tmp_path, **{"reviews/results.details.json": details})
    assert found.reviews[0].judgments[0].classifications[0].label.category is None
    assert kinds(found) == {"unknown category": 1}


def test_files_of_one_pull_request_are_joined_in_path_order(tmp_path: Path) -> None:
    """Later usage is kept and reported (facts A18.10), findings are appended."""
    second = samples.rb_candidates() | {"usage": {"total_tokens": 7}}
    found = read(tmp_path, "reviews/results.details.json", **{"reviews/beta.json": second})
    (review,) = found.reviews
    assert len(review.candidates) == 6
    assert review.usage == {"total_tokens": 1200, "cost_usd": 0.02}
    assert review.source["files"][1]["usage"] == {"total_tokens": 7}
    assert kinds(found) == {"review in several files": 1, "usage of a further file": 1}


def test_a_failed_run_stays_a_failure(tmp_path: Path) -> None:
    """A timeout is no empty review."""
    value = samples.rb_candidates() | {"status": "timeout", "failure_reason": "900 s", "findings": []}
    (review,) = read(tmp_path, "reviews/results.details.json", **{"reviews/alpha.json": value}).reviews
    assert (review.outcome, review.detail) == (Outcome.TIMEOUT, "900 s")


@pytest.mark.parametrize(
    ("change", "sentence", "field"),
    [
        ({"agent": ""}, "no usable name", "agent"),
        ({"agent": "a\nb"}, "no usable name", "agent"),
        ({"findings": None}, "must be an array", "findings"),
        ({"usage": {"total_tokens": -1}}, "at least 0", "usage.total_tokens"),
        ({"status": "done"}, "is no status", "status"),
    ],
)
def test_a_wrong_candidate_file_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str, field: str) -> None:
    """Each with its field."""
    value = samples.rb_candidates() | change
    with pytest.raises(InputError, match=sentence) as caught:
        read(tmp_path, "reviews/results.details.json", **{"reviews/alpha.json": value})
    assert caught.value.where is not None
    assert caught.value.where.field == field


@pytest.mark.parametrize(("name", "value"), [("head", "c" * 40), ("base", "c" * 40), ("pr_number", 8)])
def test_a_review_of_another_pull_request_or_commit_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    """Repository, number, head and base must be the corpus's."""
    review = samples.rb_candidates()
    review["pr"][name] = value
    with pytest.raises(InputError, match=r"the corpus"):
        read(tmp_path, "reviews/results.details.json", **{"reviews/alpha.json": review})


def test_null_commits_in_a_manifest_are_refused(tmp_path: Path) -> None:
    """Only a format that records no commits may lack them."""
    manifest = samples.rb_manifest()
    manifest[0] |= {"base": None, "head": None}
    with pytest.raises(InputError):
        read(tmp_path, **{"corpus/manifest.json": manifest})


def test_a_pull_request_at_two_heads_is_two(tmp_path: Path) -> None:
    """A corpus can hold one number at several heads: a review belongs to the one that it names."""
    folder = samples.write_files(tmp_path, samples.rb_files())
    corpus, _ = read_reviewbench(folder / "corpus", "c")
    (entry,) = corpus.entries
    later = entry.pull_request.model_copy(update={"key": "later", "recorded_head": "c" * 40})
    both = corpus.model_copy(update={"entries": (entry, entry.model_copy(update={"pull_request": later}))})
    review = samples.rb_candidates()
    for head, key in ((samples.HEAD, samples.RB_KEY), ("c" * 40, "later")):
        review["pr"]["head"] = head
        (found,) = read_reviews(samples.write_files(tmp_path / key, {"a.json": review}) / "a.json", both).reviews
        assert found.pull_request == key
    review["pr"]["head"] = "d" * 40
    with pytest.raises(InputError, match="the review is of head 'dddd"):
        read_reviews(samples.write_files(tmp_path / "other", {"a.json": review}) / "a.json", both)
