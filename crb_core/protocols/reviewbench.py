"""The ReviewBench protocol (seed A): same-file pairs, claims for precision, coverage for recall.

Its counts and ratios are ``crb_core.metrics``.
"""

from __future__ import annotations

from crb_core.claims import check_classifications, check_correspondences, check_same_file, claims_of
from crb_core.matching import JudgedPullRequest
from crb_core.metrics import counts, ratios, score
from crb_core.protocols.pairs import PairGroup, product

__all__ = ["AXES", "CATEGORIES", "SEVERITIES", "check", "counts", "pairs", "ratios", "score"]

SEVERITIES = ("high", "medium", "low")
CATEGORIES = (
    "correctness",
    "security",
    "reliability",
    "maintainability",
    "testing",
    "documentation",
    "performance",
    "api-architecture",
    "accessibility",
    "other",
)
#: Axes whose strata are reported by default.
AXES = ("severity", "category")


def pairs(pr: JudgedPullRequest) -> tuple[PairGroup, ...]:
    """Findings of one file against each other, in chunks; files that only one side has need no judge (seed A 6.2.1)."""
    candidates: dict[str, list[int]] = {}
    golden: dict[str, list[int]] = {}
    for by_file, findings in ((candidates, pr.candidates), (golden, pr.golden)):
        for position, finding in enumerate(findings):
            if finding.file is not None:
                by_file.setdefault(finding.file, []).append(position)
    return tuple(
        group
        for file in sorted(candidates.keys() & golden.keys())
        for group in product(file, candidates[file], golden[file])
    )


def check(judged: JudgedPullRequest) -> None:
    """Refuse what this protocol forbids: matches across files, and a classification of a claimed candidate."""
    check_correspondences(judged.correspondences, len(judged.golden), len(judged.candidates))
    check_same_file(judged)
    check_classifications(judged, claims_of(judged).claimed)
