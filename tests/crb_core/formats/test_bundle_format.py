"""Reading scoring bundles: everything wrong is named with file and field."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.formats.bundle import FROM_CLASSIFIER, UNKNOWN_PRODUCER, read_bundle, write_bundle


def finding(file: str = "a.py", **more: Any) -> dict[str, Any]:
    return {"file": file, "start_line": 1, "end_line": 2, "message": "text", **more}


VALID: dict[str, Any] = {
    "format": "crb.bundle/1",
    "pull_requests": [
        {
            "key": "first",
            "golden": [finding(tp_fp="tp", severity="high", category="security"), finding("b.py", tp_fp="fp")],
            "candidates": [finding(), finding(), finding("b.py")],
            "correspondences": [{"candidate": 0, "golden": [0]}, {"candidate": 1, "golden": [0]}],
            "classifications": [{"candidate": 1, "tp_fp": "tp", "severity": "low"}],
        }
    ],
}


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    """VALID with one value replaced or added."""
    bundle = copy.deepcopy(VALID)
    place: Any = bundle
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return bundle


def refusal(bundle: Any, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read_bundle(json.dumps(bundle).encode(), "b.json", **options)
    assert caught.value.where is not None
    assert caught.value.where.file == "b.json"
    return caught.value


PR = ("pull_requests", 0)


@pytest.mark.parametrize(
    ("bundle", "field"),
    [
        (changed("format", to="crb.bundle/2"), "format"),
        (changed("extra", to=1), "extra"),
        (changed("pull_requests", to={}), "pull_requests"),
        (changed(*PR, "keys", to="x"), "pull_requests[0].keys"),
        (changed(*PR, "key", to=" "), "pull_requests[0].key"),
        (changed(*PR, "golden", 0, "tp_fp", to="TP"), "pull_requests[0].golden[0].tp_fp"),
        (changed(*PR, "golden", 0, "tp_fp", to=None), "pull_requests[0].golden[0].tp_fp"),
        (changed(*PR, "golden", 0, "severity", to="critical"), "pull_requests[0].golden[0].severity"),
        (changed(*PR, "golden", 0, "category", to="bugs"), "pull_requests[0].golden[0].category"),
        (changed(*PR, "golden", 0, "scope", to="inside"), "pull_requests[0].golden[0].scope"),
        (changed(*PR, "golden", 0, "provenance", to={"tier": "human"}), "pull_requests[0].golden[0].provenance"),
        (
            changed(*PR, "golden", 0, "classifier", to={"severity": "huge"}),
            "pull_requests[0].golden[0].classifier.severity",
        ),
        (changed(*PR, "golden", 0, "classifier", to={"x": 1}), "pull_requests[0].golden[0].classifier.x"),
        (changed(*PR, "golden", 0, "file", to=None), "pull_requests[0].golden[0]"),
        (changed(*PR, "candidates", 2, "start_line", to="1"), "pull_requests[0].candidates[2].start_line"),
        (changed(*PR, "candidates", 2, "start_line", to=True), "pull_requests[0].candidates[2].start_line"),
        (changed(*PR, "candidates", 2, "start_line", to=1.5), "pull_requests[0].candidates[2].start_line"),
        (changed(*PR, "candidates", 2, "start_line", to=0), "pull_requests[0].candidates[2].start_line"),
        (changed(*PR, "candidates", 2, "start_line", to=10**30), "pull_requests[0].candidates[2].start_line"),
        (changed(*PR, "candidates", 2, "start_line", to=3), "pull_requests[0].candidates[2]"),
        (changed(*PR, "candidates", 2, "file", to="../a.py"), "pull_requests[0].candidates[2].file"),
        (changed(*PR, "candidates", 2, "file", to="/etc/passwd"), "pull_requests[0].candidates[2].file"),
        (changed(*PR, "candidates", 2, "message", to=""), "pull_requests[0].candidates[2].message"),
        (changed(*PR, "candidates", 2, "tp_fp", to="tp"), "pull_requests[0].candidates[2].tp_fp"),
        (changed(*PR, "correspondences", to=None), "pull_requests[0].correspondences"),
        (changed(*PR, "correspondences", 0, "golden", to=[7]), "pull_requests[0].correspondences[0].golden[0]"),
        (changed(*PR, "correspondences", 0, "golden", to=[-1]), "pull_requests[0].correspondences[0].golden[0]"),
        (changed(*PR, "correspondences", 0, "golden", to=[0, 0]), "pull_requests[0].correspondences[0].golden[1]"),
        (changed(*PR, "correspondences", 0, "golden", to=[1]), "pull_requests[0].correspondences[0].golden[0]"),
        (changed(*PR, "correspondences", 1, "candidate", to=0), "pull_requests[0].correspondences[1].candidate"),
        (changed(*PR, "correspondences", 1, "candidate", to=9), "pull_requests[0].correspondences[1].candidate"),
        (
            changed(*PR, "correspondences", 0, "probabilities", to=[]),
            "pull_requests[0].correspondences[0].probabilities",
        ),
        (
            changed(*PR, "correspondences", 0, "probabilities", to=[1.5]),
            "pull_requests[0].correspondences[0].probabilities",
        ),
        (changed(*PR, "classifications", 0, "candidate", to=0), "pull_requests[0].classifications[0].candidate"),
        (changed(*PR, "classifications", 0, "candidate", to=3), "pull_requests[0].classifications[0].candidate"),
        (changed(*PR, "classifications", 0, "category", to="x"), "pull_requests[0].classifications[0].category"),
        (
            changed(*PR, "classifications", to=[{"candidate": 1, "tp_fp": "tp"}] * 2),
            "pull_requests[0].classifications[1].candidate",
        ),
        (changed(*PR, "dedup_groups", to=[[0], [0]]), "pull_requests[0].dedup_groups[1][0]"),
        (changed("pull_requests", to=VALID["pull_requests"] * 2), "pull_requests[1].key"),
        (changed("protocol", to="reviewbnch"), "protocol"),
    ],
)
def test_each_fault_is_located(bundle, field):
    """Unknown fields and enum values, wrong types, ranges, repetitions, contradictions, files that differ."""
    error = refusal(bundle)
    assert error.where is not None
    assert error.where.field == field
    assert "\n" not in str(error)


@pytest.mark.parametrize("missing", ["golden", "candidates", "correspondences", "key"])
def test_missing_fields_are_named(missing):
    """Nothing is assumed where a field decides numbers."""
    bundle = copy.deepcopy(VALID)
    del bundle["pull_requests"][0][missing]
    error = refusal(bundle)
    assert error.problem == "this field is missing"
    assert error.where is not None
    assert error.where.field == f"pull_requests[0].{missing}"


@pytest.mark.parametrize("value", [[], "x", None, 3, {}])
def test_anything_that_is_no_bundle_is_said_so(value):
    """Another JSON file is not taken for an empty bundle."""
    refusal(value)


def test_duplicate_keys_and_nan_have_line_and_column():
    """Strict JSON underneath."""
    for text in ('{"format": "crb.bundle/1", "format": "x"}', '{"format": NaN}'):
        with pytest.raises(InputError) as caught:
            read_bundle(text.encode(), "b.json")
        assert caught.value.where is not None
        assert caught.value.where.column is not None


def test_a_classifier_label_stands_in_where_the_golden_has_none():
    """Severity stays the golden's own, category comes from the classifier and says so (rule 7)."""
    bundle = changed(
        *PR, "golden", 0, to=finding(tp_fp="tp", severity="high", classifier={"severity": "low", "category": "testing"})
    )
    label = read_bundle(json.dumps(bundle).encode()).judged[0].golden[0].label
    assert (label.severity, label.category, label.provenance) == ("high", "testing", {"category": FROM_CLASSIFIER})


def test_paths_are_made_relative_before_they_are_compared():
    """``/work/repo/a.py`` and ``./a.py`` are ``a.py`` (rule 1), so the correspondence is in one file."""
    bundle = changed(*PR, "candidates", 0, "file", to="/work/repo/a.py")
    bundle["pull_requests"][0]["golden"][0]["file"] = "./a.py"
    pr = read_bundle(json.dumps(bundle).encode()).judged[0]
    assert (pr.candidates[0].file, pr.golden[0].file) == ("a.py", "a.py")


def test_an_unnamed_producer_is_called_unknown():
    """So that a producer filter can ask for it."""
    assert read_bundle(json.dumps(VALID).encode()).judged[0].golden[0].producer == UNKNOWN_PRODUCER


def test_a_review_that_found_nothing_needs_no_correspondences():
    """There is nothing that could be lost."""
    bundle = changed("pull_requests", to=[{"key": "k", "golden": [finding(tp_fp="tp")], "candidates": []}])
    assert read_bundle(json.dumps(bundle).encode()).judged[0].correspondences == ()


def test_the_protocol_must_agree_with_the_file():
    """A bundle judged under one protocol is not silently counted under another."""
    error = refusal(changed("protocol", to="reviewbench"), protocol="answer-key")
    assert "judged under the protocol 'reviewbench'" in error.problem


def test_golden_comments_need_no_file_and_know_other_words():
    """Its own vocabulary, matches without files, dedup groups kept and written back."""
    bundle = {
        "format": "crb.bundle/1",
        "protocol": "golden-comments",
        "pull_requests": [
            {
                "key": "k",
                "golden": [{"message": "g", "tp_fp": "tp", "severity": "critical", "category": "bug"}],
                "candidates": [{"message": "c"}, {"message": "d"}],
                "correspondences": [{"candidate": 0, "golden": [0]}],
                "dedup_groups": [[0, 1]],
            }
        ],
    }
    content = read_bundle(json.dumps(bundle).encode())
    assert content.protocol.name == "golden-comments"
    assert content.dedup_groups == {"k": ((0, 1),)}
    again = write_bundle(content.judged, protocol="golden-comments", dedup_groups=content.dedup_groups)
    assert read_bundle(json.dumps(again).encode()) == content
    bundle["pull_requests"][0]["golden"][0]["tp_fp"] = "fp"  # type: ignore[index]
    assert "all true positives" in refusal(bundle).problem
