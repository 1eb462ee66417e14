"""Which trials may be combined."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from crb_core.agent import AgentBuild, ModelRole
from crb_core.corpus import canonical_json
from crb_core.identity import RowIdentity, TrialIdentity, differences

BUILD = AgentBuild(
    agent="lint",
    display_name="Lint",
    provider="crb",
    image="example/lint:1",
    image_id="sha256:ab",
    model_roles=(ModelRole(role="reviewer", model="m1"), ModelRole(role="helper", model="m2")),
    runner="docker",
)


def trial(build: AgentBuild = BUILD, **changes: str | None) -> TrialIdentity:
    fields: dict[str, str | None] = {
        "subject": "showcase 1",
        "pull_request": "pr",
        "reviewed_sha": "0" * 40,
        "answer_key_fingerprint": "key",
    }
    return TrialIdentity.of_build(build, **(fields | changes))  # type: ignore[arg-type]


def row(**changes: str) -> RowIdentity:
    fields = {"corpus_fingerprint": "5eed", "protocol": "reviewbench", "judge": "offline:1"}
    return RowIdentity.of_build(BUILD, **(fields | changes))


def test_a_trial_identity_has_the_ten_fields():
    """Seed B, compatibility boundary."""
    assert set(TrialIdentity.model_fields) == {
        "subject",
        "pull_request",
        "reviewed_sha",
        "answer_key_fingerprint",
        "reviewer_tool",
        "configuration_fingerprint",
        "model_roles",
        "reviewer_build",
        "harness",
        "adapter",
    }


def test_a_row_identity_drops_four_and_adds_three():
    """Rule 13."""
    assert set(RowIdentity.model_fields) == set(TrialIdentity.model_fields) - {
        "subject",
        "pull_request",
        "reviewed_sha",
        "answer_key_fingerprint",
    } | {"corpus_fingerprint", "protocol", "judge"}
    assert trial().row(corpus_fingerprint="5eed", protocol="reviewbench", judge="offline:1") == row()


@pytest.mark.parametrize("letter", ["caf\u00e9", "cafe\u0301"])
def test_the_documented_example_hashes_as_documented(letter):
    """The worked example of the module, however the é is composed."""
    identity = RowIdentity(
        reviewer_tool=letter,
        configuration_fingerprint="c0ffee",
        model_roles=(ModelRole(role="reviewer", model="model-1"),),
        reviewer_build="docker sha256:ab12",
        harness="crb.contract/1",
        adapter="container",
        corpus_fingerprint="5eed",
        protocol="reviewbench",
        judge="offline:1",
    )
    assert identity.sha256 == "f0580916cb34f8a8d5d710d0abf16c4a3da1b7e1d92e46a0d13a5ce0cd782c0e"
    import crb_core.identity

    documented = (crb_core.identity.__doc__ or "").replace("\n    ", "")
    assert canonical_json(identity.canonical()) in documented
    assert identity.sha256 in documented


def test_the_example_in_the_documents_hashes_as_documented():
    """Whoever follows docs/formats.md gets the hash that it names."""
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    example = re.search(r'^\{"crb.row-identity/1".*$', page, re.MULTILINE)
    assert example is not None
    named = re.search(r"SHA-256 `([0-9a-f]{64})`", page[example.end() :])
    assert named is not None
    assert hashlib.sha256(example[0].encode()).hexdigest() == named[1]
    fields = json.loads(example[0])["crb.row-identity/1"]
    fields["model_roles"] = [{"role": role, "model": model} for role, model in fields["model_roles"]]
    assert RowIdentity.model_validate(fields).sha256 == named[1]


def test_every_field_changes_the_hash():
    """No field is left out of either identity."""
    for identity in (trial(), row()):
        hashes = {identity.sha256}
        for name in type(identity).model_fields:
            other = (ModelRole(role="x", model="y"),) if name == "model_roles" else "other"
            hashes.add(identity.model_copy(update={name: other}).sha256)
        assert len(hashes) == len(type(identity).model_fields) + 1


def test_order_of_roles_and_line_ends_do_not_count():
    """Canonical: roles sorted, CRLF and CR as LF."""
    swapped = BUILD.model_copy(update={"model_roles": BUILD.model_roles[::-1]})
    assert trial(swapped).sha256 == trial().sha256
    assert len({trial(subject=text).sha256 for text in ("a\nb", "a\r\nb", "a\rb")}) == 1


def test_differing_fields_are_named_with_both_values():
    """What combines nothing can be said in full."""
    one, other = trial(), trial(BUILD.model_copy(update={"image_id": "sha256:cd"}), reviewed_sha="1" * 40)
    assert differences(one, other) == {
        "reviewed_sha": ("0" * 40, "1" * 40),
        "reviewer_build": ("docker sha256:ab", "docker sha256:cd"),
    }
    assert differences(one, row()) == {"kind": ("crb.trial-identity/1", "crb.row-identity/1")}


def test_an_unknown_commit_equals_another_unknown_one_only():
    """None is a value of its own."""
    assert differences(trial(reviewed_sha=None), trial(reviewed_sha=None)) == {}
    assert differences(trial(reviewed_sha=None), trial())["reviewed_sha"] == (None, "0" * 40)


def test_limits_and_runner_split_identities():
    """More memory, more time or no container is another measurement."""
    more = BUILD.model_copy(update={"limits": BUILD.limits.model_copy(update={"memory_mib": 4096})})
    assert set(differences(trial(), trial(more))) == {"configuration_fingerprint"}
    longer = BUILD.limits.model_copy(update={"timeout_seconds": BUILD.limits.timeout_seconds * 2})
    patient = BUILD.model_copy(update={"limits": longer})
    assert set(differences(trial(), trial(patient))) == {"configuration_fingerprint"}
    assert set(differences(trial(), trial(BUILD.model_copy(update={"runner": "process"})))) == {"reviewer_build"}
