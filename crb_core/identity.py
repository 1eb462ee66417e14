"""Which trials may be combined (seed B, *Compatibility boundary*; rule 13).

Trials of one pull request combine only inside one trial identity, pull requests into a row only inside one row
identity. An identity is hashed over its canonical form: text in Unicode normal form C with ``\\n`` line ends, model
roles sorted, then ``crb_core.corpus.canonical_json`` (sorted keys, no spaces, UTF-8), then SHA-256. The form is tagged
with its name and version, so that a trial and a row never share a hash.

Worked example: the row identity with reviewer tool ``café``, configuration fingerprint ``c0ffee``, model role
``reviewer: model-1``, reviewer build ``docker sha256:ab12``, harness ``crb.contract/1``, adapter ``container``, corpus
fingerprint ``5eed``, protocol ``reviewbench`` and judge ``offline:1`` has, in one line, the canonical form

    {"crb.row-identity/1":{"adapter":"container","configuration_fingerprint":"c0ffee","corpus_fingerprint":"5eed",
    "harness":"crb.contract/1","judge":"offline:1","model_roles":[["reviewer","model-1"]],"protocol":"reviewbench",
    "reviewer_build":"docker sha256:ab12","reviewer_tool":"café"}}

and the SHA-256 f0580916cb34f8a8d5d710d0abf16c4a3da1b7e1d92e46a0d13a5ce0cd782c0e, however the é is composed.
"""

from __future__ import annotations

import unicodedata
from typing import Any, ClassVar

from pydantic import field_validator

from crb_core.agent import AgentBuild, ModelRole
from crb_core.corpus import fingerprint
from crb_core.finding import NonBlank, Record

__all__ = ["RowIdentity", "TrialIdentity", "differences"]


class _Identity(Record):
    """What a trial identity and a row identity have in common: the reviewer."""

    kind: ClassVar[str]

    reviewer_tool: NonBlank
    #: SHA-256 of the resolved configuration, limits included.
    configuration_fingerprint: NonBlank
    model_roles: tuple[ModelRole, ...]
    #: Runner and image id: what really ran.
    reviewer_build: NonBlank
    #: Version of contract and scoring, not of the package.
    harness: NonBlank
    adapter: NonBlank

    @field_validator("model_roles")
    @classmethod
    def _sorted(cls, value: tuple[ModelRole, ...]) -> tuple[ModelRole, ...]:
        return tuple(sorted(value, key=lambda role: (role.role, role.model)))

    def canonical(self) -> dict[str, Any]:
        """The value whose canonical JSON is hashed."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        fields["model_roles"] = [[role.role, role.model] for role in self.model_roles]
        return {self.kind: _normal(fields)}

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) of the canonical form."""
        return fingerprint(self.canonical())


class TrialIdentity(_Identity):
    """The ten fields that two trials must share to be combined."""

    kind: ClassVar[str] = "crb.trial-identity/1"

    #: The corpus with its version: where the pull request and its answer key come from.
    subject: NonBlank
    pull_request: NonBlank
    #: The commit that was reviewed; None where an imported review does not say.
    reviewed_sha: NonBlank | None
    answer_key_fingerprint: NonBlank

    @classmethod
    def of_build(
        cls,
        build: AgentBuild,
        *,
        subject: str,
        pull_request: str,
        reviewed_sha: str | None,
        answer_key_fingerprint: str,
    ) -> TrialIdentity:
        """The identity of a trial of an agent build."""
        return cls(
            subject=subject,
            pull_request=pull_request,
            reviewed_sha=reviewed_sha,
            answer_key_fingerprint=answer_key_fingerprint,
            **_reviewer(build),
        )

    def row(self, *, corpus_fingerprint: str, protocol: str, judge: str) -> RowIdentity:
        """The identity of the leaderboard row that this trial belongs to under one protocol and judge."""
        reviewer = {name: getattr(self, name) for name in _Identity.model_fields}
        return RowIdentity(corpus_fingerprint=corpus_fingerprint, protocol=protocol, judge=judge, **reviewer)


class RowIdentity(_Identity):
    """What all trials of one leaderboard row share, whatever their pull request."""

    kind: ClassVar[str] = "crb.row-identity/1"

    corpus_fingerprint: NonBlank
    protocol: NonBlank
    #: The judge's fingerprint.
    judge: NonBlank

    @classmethod
    def of_build(cls, build: AgentBuild, *, corpus_fingerprint: str, protocol: str, judge: str) -> RowIdentity:
        """The identity of an agent build's row."""
        return cls(corpus_fingerprint=corpus_fingerprint, protocol=protocol, judge=judge, **_reviewer(build))


def differences(one: _Identity, other: _Identity) -> dict[str, tuple[Any, Any]]:
    """The fields in which two identities of one kind differ after canonical normalisation, with both values."""
    mine, theirs = one.canonical(), other.canonical()
    if mine.keys() != theirs.keys():
        return {"kind": (one.kind, other.kind)}
    left, right = mine[one.kind], theirs[other.kind]
    return {name: (left[name], right[name]) for name in sorted(left) if left[name] != right[name]}


def _reviewer(build: AgentBuild) -> dict[str, Any]:
    return {
        "reviewer_tool": build.agent,
        "configuration_fingerprint": build.configuration_fingerprint,
        "model_roles": build.model_roles,
        "reviewer_build": f"{build.runner} {build.image_id}",
        "harness": build.harness,
        "adapter": build.adapter,
    }


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value.replace("\r\n", "\n").replace("\r", "\n"))
    if isinstance(value, list):
        return [_normal(each) for each in value]
    if isinstance(value, dict):
        return {key: _normal(each) for key, each in value.items()}
    return value
