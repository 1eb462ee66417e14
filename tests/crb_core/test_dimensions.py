"""Dimensions of pull requests: what is known of each, and which are inside a filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_core.dimensions import SIZES, PullRequestFilter, dimension_values, dimensions_of
from crb_core.errors import InputError
from crb_core.pull_request import PullRequest


def pull_request(labels=None, **traits):
    return PullRequest(
        key="pr",
        repo="https://github.com/owner/name",
        number=1,
        base="0" * 40,
        head="1" * 40,
        title="A change",
        traits=traits,
        source={} if labels is None else {"labels": labels},
    )


def test_traits_and_imported_labels_are_dimensions():
    """Text and lists of text; what is among the traits already, numbers and objects are left out."""
    labels = {
        "derived": {"language": "Java", "num_golden_comments": 4, "severity_mix": {"High": 1}},
        "llm_pr_labels": {
            "bug_categories": ["logic_error", "other", "logic_error", 7],
            "code_complexity": "simple",
            "risk_level": "high",
            "bad=name": "x",
            "blank": " ",
        },
        "comment_bug_types": [{"bug_type": "x"}],
    }
    found = dimensions_of(pull_request(labels, language="Go", complexity="complex"), ["smoke"])
    assert found == {
        "language": ("Go",),
        "complexity": ("complex",),
        "repository": ("owner/name",),
        "subset": ("smoke",),
        "bug_categories": ("logic_error", "other"),
        "risk_level": ("high",),
    }


@pytest.mark.parametrize("labels", [None, 5, "text", [], [1], {"a": None}, {"a": [1]}, {"a": {"b": None}}])
def test_labels_of_another_shape_are_no_dimensions(labels):
    """An importer keeps whatever the file holds."""
    assert dimensions_of(pull_request(labels)) == {"repository": ("owner/name",)}


@pytest.mark.parametrize(
    ("added", "removed", "size"), [(0, 0, "XS"), (5, 4, "XS"), (5, 5, "S"), (29, 1, "M"), (99, 1, "L"), (999, 1, "XXL")]
)
def test_size_is_of_changed_lines(added, removed, size):
    """Added and removed lines count alike; a bound belongs to the larger size."""
    (found,) = dimensions_of(pull_request(lines_added=added, lines_removed=removed))["size"]
    assert found.startswith(f"{size}:")


def test_half_a_size_is_none():
    """A missing count is not 0."""
    assert "size" not in dimensions_of(pull_request(lines_added=5))


KNOWN = {
    "a": {"language": ("Go",), "kind": ("x", "y")},
    "b": {"language": ("Go",), "kind": ("z",)},
    "c": {"language": ("C",)},
}


@pytest.mark.parametrize(
    ("texts", "inside"),
    [
        ([], ("a", "b", "c")),
        (["language=Go"], ("a", "b")),
        (["language=Go", "language=C"], ("a", "b", "c")),
        (["language=Go", "kind=z", "kind=x"], ("a", "b")),
        (["kind=y"], ("a",)),
        ([" kind = y "], ("a",)),
    ],
)
def test_values_are_alternatives_and_dimensions_add_up(texts, inside):
    """OR inside a dimension, AND between them; without a value in a restricted dimension a pull request is outside."""
    assert PullRequestFilter.parse(texts).inside(KNOWN) == inside


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["language"], "not of the form"),
        (["=Go"], "not of the form"),
        (["language="], "not of the form"),
        (["size=M"], "the dimension 'size'"),
        (["language=Rust"], "language 'Rust'"),
        (["language=C", "kind=x"], "all of these"),
    ],
)
def test_what_no_pull_request_has_is_refused(texts, says):
    """A misspelt filter would show other numbers than were asked for."""
    with pytest.raises(InputError, match=says):
        PullRequestFilter.parse(texts).inside(KNOWN)


def test_values_are_counted_and_sizes_are_in_order():
    """What a page offers."""
    names = [name for name, _ in SIZES]
    known = [{"size": (name,), "x": ("b", "a")} for name in reversed(names)]
    found = dimension_values(known)
    assert list(found) == ["size", "x"]
    assert list(found["size"]) == names
    assert found["x"] == {"a": 6, "b": 6}


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.lists(st.text())))))
def test_every_offered_value_can_be_chosen(labels):
    """Whatever the imported labels hold."""
    known = {"pr": dimensions_of(pull_request(labels))}
    for name, values in dimension_values(known.values()).items():
        for value in values:
            assert PullRequestFilter.parse([f"{name}={value}"]).inside(known) == ("pr",)
