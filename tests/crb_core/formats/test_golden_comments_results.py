"""The golden-comments benchmark's texts become positions, and what they leave open stays open (rules 18 and 19)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Corpus
from crb_core.errors import InputError
from crb_core.formats.golden_comments import read_corpus
from crb_core.formats.golden_comments_results import is_trigger_text, read_results
from crb_core.formats.imported import ImportedJudgment, ImportedReview, ImportedReviews
from tests.crb_core.formats import imported_samples as samples

EVALUATIONS = f"results/{samples.MODEL}/evaluations.json"


def corpus_of(folder: Path) -> Corpus:
    return read_corpus(folder, "widgets").corpus


def read(tmp_path: Path, **changes: Any) -> ImportedReviews:
    files = samples.benchmark_files() | {name.replace("__", "/"): value for name, value in changes.items()}
    folder = samples.write_files(tmp_path, files)
    return read_results(folder, corpus_of(folder))


def one(found: ImportedReviews, agent: str, key: str = samples.KEY) -> ImportedReview:
    (review,) = [each for each in found.reviews if (each.agent, each.pull_request) == (agent, key)]
    return review


def judgment(found: ImportedReviews, agent: str = "alpha", key: str = samples.KEY) -> ImportedJudgment:
    return one(found, agent, key).judgments[0]


def kinds(found: ImportedReviews) -> dict[str, int]:
    return dict(Counter(each.kind for each in found.irregularities))


def changed(**changes: Any) -> dict[str, Any]:
    """The evaluations with fields of alpha's first one replaced."""
    value = samples.evaluations()
    value[samples.URL]["alpha"] |= changes
    return value


def test_a_corpus_keeps_severities_categories_traits_and_the_raw_record(tmp_path: Path) -> None:
    """Words become the protocol's, nothing has a place, and what has no field stays in the source."""
    found = read_corpus(samples.write_files(tmp_path, samples.benchmark_files()), "widgets")
    first, second = found.corpus.entries
    assert [(each.label.severity, each.label.category) for each in first.golden] == [
        ("high", "bug"),
        ("critical", "concurrency"),
        ("low", "style"),
        ("medium", "test_gap"),
    ]
    assert {(each.file, each.start_line, each.label.tp_fp.value) for each in first.golden} == {(None, None, "tp")}
    assert (first.pull_request.key, first.pull_request.has_commits) == (samples.KEY, False)
    assert first.pull_request.traits.model_dump(exclude_none=True) == {
        "language": "Go",
        "change_type": "feature",
        "domain": "storage",
        "complexity": "simple",
        "files_changed": 3,
    }
    assert first.golden[0].source == {"severity": "High", "category": "bug"}
    assert second.pull_request.source["original_url"] == "https://github.com/acme/upstream/pull/80"
    assert second.pull_request.source["az_comment"] == "note"
    assert found.corpus.subsets == {"widgets": (samples.KEY, samples.OTHER_KEY)}
    assert sorted(Counter(each.kind for each in found.irregularities).items()) == [
        ("missing category", 1),
        ("missing labels", 1),
        ("totals disagree", 1),
    ]


def test_labels_of_the_pull_request_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    """Traits decide no number."""
    files = samples.benchmark_files()
    with_labels = corpus_of(samples.write_files(tmp_path / "a", files)).fingerprint
    del files["results/pr_labels.json"]
    assert corpus_of(samples.write_files(tmp_path / "b", files)).fingerprint == with_labels


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"url": "https://example.org/acme/widgets/pull/7"}, "is not of the form"),
        ({"url": "https://github.com/acme/widgets/pull/0"}, "is not of the form"),
        ({"pr_title": " "}, "blank"),
        ({"comments": {}}, "must be an array"),
        ({"comments": [{"comment": "x", "severity": "Blocker"}]}, "no severity of this benchmark"),
        ({"comments": [{"comment": "x", "severity": "Low", "category": "nit"}]}, "no category of this benchmark"),
        ({"url": samples.OTHER_URL}, "already at"),
    ],
)
def test_a_wrong_golden_file_is_refused_with_its_field(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    """What cannot be used ends the import with a sentence and its place."""
    golden = samples.golden_comments()
    golden[0] |= change
    folder = samples.write_files(tmp_path, {"golden_comments/widgets.json": golden})
    with pytest.raises(InputError, match=sentence) as caught:
        corpus_of(folder)
    assert caught.value.where is not None
    assert caught.value.where.field is not None
    assert caught.value.where.field.startswith(("[0]", "[1]"))


def test_texts_become_positions(tmp_path: Path) -> None:
    """Matches name candidate and golden by position, with the judge's confidence and reasoning."""
    pairs = judgment(read(tmp_path)).pairs
    assert [(pair.candidate, pair.golden, pair.probability, pair.reasoning) for pair in pairs] == [
        (0, 0, 0.9, "Same cause."),
        (1, 1, 0.8, "Same cause."),
        (3, 2, 0.7, "Same cause."),
    ]


def test_a_candidate_in_no_list_is_displaced(tmp_path: Path) -> None:
    """Its match is unrecorded: neither true nor false positive."""
    found = read(tmp_path)
    assert judgment(found).document["match_unrecorded"] == [2]
    assert kinds(found)["displaced candidate"] == 1


def test_a_sibling_of_a_matched_candidate_is_not_called_displaced(tmp_path: Path) -> None:
    """The public tool marks the whole dedup group; the sibling stays unrecorded, but is no irregularity."""
    groups = samples.dedup_groups()
    groups[samples.URL]["alpha"] = [[0, 2], [1], [3], [4, 5]]
    found = read(tmp_path, **{f"results__{samples.MODEL}__dedup_groups.json": groups})
    assert judgment(found).document["match_unrecorded"] == [2]
    assert "displaced candidate" not in kinds(found)


def test_a_trigger_text_is_no_candidate(tmp_path: Path) -> None:
    """A bot's command that only the evaluation has stays in the record and is reported."""
    found = read(tmp_path)
    review = one(found, "beta", samples.OTHER_KEY)
    assert review.candidates == ()
    assert review.judgments[0].document["recorded"]["false_positives"] == [{"candidate": "/beta review"}]
    assert kinds(found)["trigger text"] == 1


@pytest.mark.parametrize(
    "text", ["/propel review", "Baz review", "@greptile", "@bot[bot] please review", "review", "bugbot run", "/review"]
)
def test_commands_to_bots_are_trigger_texts(text: str) -> None:
    """A mention or slash command, or the word review with a name, and nothing else."""
    assert is_trigger_text(text)


@pytest.mark.parametrize(
    "text",
    ["@deprecated tag is missing here", "Peer review found a race", "/etc/passwd is world readable", "Please review x"],
)
def test_findings_are_no_trigger_texts(text: str) -> None:
    """A sentence about code stays a finding even where it begins like a command."""
    assert not is_trigger_text(text)


def test_a_candidate_only_in_an_evaluation_is_made_up(tmp_path: Path) -> None:
    """It stands after the extracted ones, so that positions keep their meaning."""
    value = changed(false_positives=["Typo in a comment", "Typo in the comment", "Lock is never released"])
    found = read(tmp_path, **{EVALUATIONS: value})
    review = one(found, "alpha")
    assert review.candidates[6].finding.message == "Lock is never released"
    assert review.candidates[6].source == {"made_up_from": "evaluations.json"}
    assert kinds(found)["candidate only in an evaluation"] == 1


def test_equal_texts_stay_two_candidates(tmp_path: Path) -> None:
    """What the judge says of a text holds for every candidate with it."""
    value = samples.candidates()
    value[samples.URL]["alpha"][2]["text"] = "Cache grows without bound"
    found = read(tmp_path, **{f"results__{samples.MODEL}__candidates.json": value})
    assert [(pair.candidate, pair.golden) for pair in judgment(found).pairs] == [(0, 0), (1, 1), (2, 0), (3, 2)]
    assert kinds(found)["equal candidate texts"] == 1


def test_a_skipped_evaluation_has_no_score_but_a_reason(tmp_path: Path) -> None:
    """Skipped is neither 0 nor dropped."""
    value = samples.evaluations()
    value[samples.URL]["alpha"] = {"skipped": True, "reason": "no golden comments"}
    result = judgment(read(tmp_path, **{EVALUATIONS: value}))
    assert result.problem == "the judge skipped it: 'no golden comments'"
    assert result.document["recorded"] == {"skipped": True, "reason": "no golden comments"}


def test_a_review_without_evaluation_is_kept_unscored(tmp_path: Path) -> None:
    """The review stays a trial; its judgment says why it is missing."""
    value = samples.evaluations()
    del value[samples.URL]["alpha"]
    found = read(tmp_path, **{EVALUATIONS: value})
    assert judgment(found).problem == "the judge recorded no evaluation of this review"
    assert len(one(found, "alpha").candidates) == 6


def test_a_failed_pair_leaves_both_sides_open(tmp_path: Path) -> None:
    """An error is no "no match": golden comment and candidate were not judged."""
    errors = [{"golden": "No test covers expiry.", "candidate": "Typo in a comment", "error": "timeout"}]
    found = read(tmp_path, **{EVALUATIONS: changed(errors=errors, errors_count=1)})
    assert judgment(found).document["golden_unjudged"] == [3]
    assert judgment(found).document["match_unrecorded"] == [2, 4]
    assert kinds(found)["pair that the judge failed on"] == 1


@pytest.mark.parametrize("change", [{"errors": ["boom"]}, {"errors_count": 2}])
def test_a_failure_that_names_no_pair_leaves_the_judgment_unscored(tmp_path: Path, change: dict[str, Any]) -> None:
    """It could concern any pair, so only the recorded lists can be counted."""
    result = judgment(read(tmp_path, **{EVALUATIONS: changed(**change)}))
    assert result.document["unscorable"] == "the judge failed on pairs that its record does not name"
    assert result.problem is None


def test_golden_comments_of_another_version_are_reported(tmp_path: Path) -> None:
    """A comment that the corpus has not, and one that the evaluation has not, are no match and no miss."""
    value = changed(false_negatives=[{"golden_comment": "Old wording", "severity": "Low"}])
    found = read(tmp_path, **{EVALUATIONS: value})
    assert judgment(found).document["golden_unjudged"] == [3]
    assert kinds(found)["golden comment of another version"] == 1
    assert kinds(found)["golden comment not judged"] == 1


def test_totals_that_disagree_with_the_lists_are_reported(tmp_path: Path) -> None:
    """The lists count; recorded totals are only compared."""
    found = read(tmp_path, **{EVALUATIONS: changed(tp=9, recall=0.1, total_candidates=7)})
    places = {each.field for each in found.irregularities if each.kind == "totals disagree"}
    assert {place.rsplit(".", 1)[-1] for place in places if place} == {"tp", "recall", "total_candidates"}


def test_an_older_form_with_plain_texts_and_word_confidences_is_read(tmp_path: Path) -> None:
    """False positives as strings and a confidence in words."""
    value = changed(false_positives=["Typo in a comment", "Typo in the comment"])
    value[samples.URL]["alpha"]["true_positives"][0]["confidence"] = "high"
    result = judgment(read(tmp_path, **{EVALUATIONS: value}))
    assert [pair.probability for pair in result.pairs] == [None, 0.8, 0.7]


def test_a_category_only_in_the_evaluation_is_used_for_that_judgment(tmp_path: Path) -> None:
    """Facts C4: the category of the entry."""
    value = samples.evaluations()
    value[samples.OTHER_URL]["alpha"]["false_negatives"][0]["category"] = "data"
    found = read(tmp_path, **{EVALUATIONS: value})
    assert judgment(found, key=samples.OTHER_KEY).document["golden_categories"] == {"0": "data"}


def test_stale_dedup_groups_are_not_used(tmp_path: Path) -> None:
    """Facts C6: after a new extraction the old positions mean other candidates, so none of a review's groups holds."""
    groups = samples.dedup_groups()
    groups[samples.URL]["alpha"] = [[0, 99], [1], [4, 5]]
    found = read(tmp_path, **{f"results__{samples.MODEL}__dedup_groups.json": groups})
    assert judgment(found).document["dedup_groups"] == []
    assert kinds(found)["stale dedup group"] == 1


def test_candidates_in_two_dedup_groups_or_in_none_are_reported(tmp_path: Path) -> None:
    """A file has every candidate once; the first group keeps one that is there twice, and one in none stands alone."""
    groups = samples.dedup_groups()
    groups[samples.URL]["alpha"] = [[0, 1], [1, 2], [4, 5]]
    found = read(tmp_path, **{f"results__{samples.MODEL}__dedup_groups.json": groups})
    assert judgment(found).document["dedup_groups"] == [[0, 1], [2], [4, 5]]
    assert kinds(found)["candidate in two dedup groups"] == 1
    assert kinds(found)["candidate in no dedup group"] == 1


def test_a_second_evaluation_of_the_same_extraction_is_a_judge_of_its_own(tmp_path: Path) -> None:
    """``evaluations_no_dedup.json`` stands beside ``evaluations.json``."""
    name = f"results/{samples.MODEL}/evaluations_no_dedup.json"
    found = read(tmp_path, **{name: samples.evaluations()})
    assert [each.judge for each in one(found, "alpha").judgments] == [samples.MODEL, f"{samples.MODEL}:no_dedup"]


def test_each_judges_extraction_is_a_build_of_its_own(tmp_path: Path) -> None:
    """The candidates of one tool differ by extraction, so they are no one trial (decision 0005)."""
    more = {
        f"results/other/{name}": value
        for name, value in (("candidates.json", samples.candidates()), ("evaluations.json", samples.evaluations()))
    }
    found = read(tmp_path, **more)
    roles = {tuple(role.model for role in each.model_roles) for each in found.reviews if each.agent == "alpha"}
    assert roles == {(samples.MODEL,), ("other",)}


def test_a_downloaded_review_without_extraction_gives_one_candidate_a_comment(tmp_path: Path) -> None:
    """Nothing is split, and that is reported."""
    found = read(tmp_path)
    review = one(found, "gamma", samples.OTHER_KEY)
    assert [(each.finding.file, each.finding.start_line, each.finding.message) for each in review.candidates] == [
        ("src/read.py", 9, "Close the file."),
        (None, None, "Looks good otherwise."),
    ]
    assert kinds(found)["review without extraction"] == 1


def test_reviews_of_an_unknown_pull_request_are_refused(tmp_path: Path) -> None:
    """A review that no corpus entry belongs to cannot be counted."""
    value = samples.evaluations()
    value["https://github.com/acme/widgets/pull/9"] = {}
    with pytest.raises(InputError, match="has no pull request"):
        read(tmp_path, **{EVALUATIONS: value})


def test_an_unread_file_is_reported(tmp_path: Path) -> None:
    """Nothing in a judge's folder is passed over in silence."""
    assert kinds(read(tmp_path, **{f"results/{samples.MODEL}/notes.txt": "x"}))["unread file"] == 1
