"""Where frozen pull requests lie on disk, and the diff of one that is there (written by ``crb_worker.snapshot``)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from crb_core.corpus import fingerprint
from crb_core.pull_request import PullRequest

__all__ = ["DIFF", "FORMAT", "MARKER", "cached_diff", "snapshot_name", "snapshot_request"]

#: Layout of a cache entry; another one gets other folders.
FORMAT = "crb.snapshot/1"
#: Names in an entry: what it holds, and the three-dot diff base...head.
MARKER = "snapshot.json"
DIFF = "pr/diff.patch"


def snapshot_request(pull_request: PullRequest) -> str:
    """SHA-256 of everything that decides what a snapshot holds."""
    decisive = {"repo", "number", "recorded_base", "recorded_head", "title", "body"}
    shown = pull_request.model_dump(mode="json", include=decisive)
    return fingerprint({"format": FORMAT, **shown})


def snapshot_name(pull_request: PullRequest) -> str:
    """The folder of a pull request's entry."""
    return f"{pull_request.key[:80]}-{snapshot_request(pull_request)[:16]}"


def cached_diff(root: Path, pull_request: PullRequest) -> bytes | None:
    """The diff of a pull request's entry; None where there is none, or where it is not the one that was frozen."""
    folder = root / snapshot_name(pull_request)
    try:
        marker = json.loads((folder / MARKER).read_bytes())
        data = (folder / DIFF).read_bytes()
    except (OSError, ValueError):
        return None
    is_frozen = isinstance(marker, dict) and marker.get("diff_sha256") == hashlib.sha256(data).hexdigest()
    return data if is_frozen else None
