"""The diff of a pull request: the evidence of what reviewers were shown, else the snapshot on this machine."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crb_core.diff_traits import DiffTraits, traits_of_diff
from crb_core.evidence import EvidenceStore, open_evidence
from crb_core.evidence_state import read_blob
from crb_core.pull_request import PullRequest
from crb_core.settings import Settings
from crb_core.snapshot_cache import cached_diff, snapshot_name

__all__ = ["FoundDiff", "PullRequestDiffs"]

#: Diffs whose traits are remembered; a diff never changes under its name.
KEPT = 20_000


@dataclass(frozen=True, kw_only=True)
class FoundDiff:
    """``data`` is None where there is no diff at hand; ``problem`` then says why."""

    source: Literal["evidence", "snapshot"] | None = None
    data: bytes | None = None
    sha256: str | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "sha256": self.sha256,
            "bytes": None if self.data is None else len(self.data),
            "problem": self.problem,
        }


class PullRequestDiffs:
    """Finds diffs in ``evidence``, which is opened when first asked, and in the snapshot cache of this machine."""

    def __init__(self, evidence: Callable[[], EvidenceStore], snapshots: Path) -> None:
        self._evidence = evidence
        self._snapshots = snapshots
        self._traits: OrderedDict[str, DiffTraits | None] = OrderedDict()

    @classmethod
    def of_settings(cls, settings: Settings) -> PullRequestDiffs:
        """Those of this farm."""
        return cls(lambda: open_evidence(settings.resolved_evidence_url), settings.snapshots_folder)

    def found(self, pull_request: PullRequest, digests: Sequence[str]) -> FoundDiff:
        """The first of the recorded diffs whose blob is whole; else the snapshot cache's."""
        problems = []
        for digest in digests:
            blob = read_blob(self._evidence(), digest)
            if blob.data is not None:
                return FoundDiff(source="evidence", data=blob.data, sha256=digest)
            problems.append(f"its evidence {digest[:12]}: {blob.state}")
        data = cached_diff(self._snapshots, pull_request)
        if data is not None:
            return FoundDiff(
                source="snapshot",
                data=data,
                sha256=hashlib.sha256(data).hexdigest(),
                problem="; ".join(problems) or None,
            )
        if not problems and not pull_request.has_commits:
            problems.append("the corpus records no commits of it")
        nothing = "no review recorded it, and this machine has no snapshot of it (`crb corpus snapshot` makes one)"
        return FoundDiff(problem="; ".join(problems) or nothing)

    def traits(self, pull_request: PullRequest, digests: Sequence[str]) -> DiffTraits | None:
        """What the diff says of the pull request; None where there is none at hand or it cannot be read."""
        known = next((each for each in (*digests, snapshot_name(pull_request)) if each in self._traits), None)
        if known is not None:
            return self._traits[known]
        found = self.found(pull_request, digests)
        if found.data is None:
            return None
        traits = traits_of_diff(found.data)
        name = found.sha256 if found.source == "evidence" else snapshot_name(pull_request)
        assert name is not None
        self._traits[name] = traits
        while len(self._traits) > KEPT:
            self._traits.popitem(last=False)
        return traits
