"""What makes two builds two is named, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_core.agent import AgentBuild
from crb_core.build_difference import build_differences

BASE: dict[str, Any] = {
    "agent": "a",
    "display_name": "A",
    "provider": "p",
    "image": "crb/agent-a:1",
    "image_id": "sha256:" + "1" * 64,
    "runner": "docker",
}

#: Another value of every field that a build has.
OTHERS: dict[str, Any] = {
    "agent": "b",
    "display_name": "B",
    "provider": "q",
    "kind": "replay",
    "image": "crb/agent-a:2",
    "image_id": "sha256:" + "2" * 64,
    "repo_digest": "example.com/a@sha256:" + "3" * 64,
    "configuration": ({"key": "effort", "value": "high", "display_value": "High"},),
    "model_roles": ({"role": "reviewer", "model": "m"},),
    "limits": {"timeout_seconds": 60, "cpus": 2.0},
    "secrets": {"env": ("KEY",)},
    "egress": ("api.example.com",),
    "model_api_url": "https://api.example.com",
    "runner": "process",
    "adapter": "other",
    "harness": "2",
}


def build(**changes: Any) -> AgentBuild:
    return AgentBuild.model_validate(BASE | changes)


def test_every_field_has_another_value_here() -> None:
    """A field that is added to a build is tried below too."""
    assert set(OTHERS) == set(AgentBuild.model_fields)


@given(st.sets(st.sampled_from(sorted(OTHERS))), st.sets(st.sampled_from(sorted(OTHERS))))
def test_differences_are_named_exactly_where_the_ids_differ(one: set[str], two: set[str]) -> None:
    """No clause for one build, and at least one for two: a difference of the id is never without a name."""
    first, second = (build(**{name: OTHERS[name] for name in names}) for names in (one, two))
    assert bool(build_differences(first, second)) == (first.build_id != second.build_id)


@pytest.mark.parametrize(
    ("changes", "clauses"),
    [
        ({"limits": {"timeout_seconds": 60}}, ("limits.timeout_seconds was 900 and is 60",)),
        ({"image_id": "sha256:" + "2" * 64}, ("image was sha256:111111111111 and is sha256:222222222222",)),
        ({"egress": ["a.example.com", "b.example.com"]}, ("egress was none and is a.example.com, b.example.com",)),
        (
            {"configuration": [{"key": "effort", "value": "high"}, {"key": "x", "value": "1", "display_value": "one"}]},
            ("configuration was none and is effort=high, x=1 shown as one",),
        ),
        ({"secrets": {"env": ["KEY"]}, "display_name": "Other", "image": "crb/agent-a:9"}, ()),
    ],
)
def test_the_words(changes: dict[str, Any], clauses: tuple[str, ...]) -> None:
    """What was and what is, as a person knows it."""
    assert build_differences(build(), build(**changes)) == clauses
