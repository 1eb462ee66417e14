"""The diff of a pull request: the evidence of what reviewers were shown, else the snapshot on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crb_core.evidence_state import read_blob
from crb_core.pull_request import PullRequest
from crb_core.snapshot_cache import cached_diff
from crb_web.sources import Sources

__all__ = ["FoundDiff", "found_diff"]


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


def found_diff(sources: Sources, snapshots: Path, pull_request: PullRequest, digests: Sequence[str]) -> FoundDiff:
    """The first of the recorded diffs whose blob is whole; else the snapshot cache's."""
    problems = []
    for digest in digests:
        blob = read_blob(sources.evidence, digest)
        if blob.data is not None:
            return FoundDiff(source="evidence", data=blob.data, sha256=digest)
        problems.append(f"its evidence {digest[:12]}: {blob.state}")
    data = cached_diff(snapshots, pull_request)
    if data is not None:
        return FoundDiff(
            source="snapshot", data=data, sha256=hashlib.sha256(data).hexdigest(), problem="; ".join(problems) or None
        )
    if not problems and not pull_request.has_commits:
        problems.append("the corpus records no commits of it")
    nothing = "no review recorded it, and this machine has no snapshot of it (`crb corpus snapshot` makes one)"
    return FoundDiff(problem="; ".join(problems) or nothing)
