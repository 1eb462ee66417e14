"""How many reviews a sweep has, by tool and repository (seed C, *Summary table*)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from crb_core.formats.csv_table import Table
from crb_core.pull_request import PullRequest

__all__ = ["Summary", "repository_names", "summarise_reviews"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Counts by tool and repository; ``tools`` and ``repositories`` are sorted."""

    tools: tuple[str, ...]
    repositories: tuple[str, ...]
    counts: dict[tuple[str, str], int]

    def total(self, tool: str) -> int:
        return sum(self.counts.get((tool, repository), 0) for repository in self.repositories)

    def table(self) -> Table:
        """One row a tool, one column a repository, and the total."""
        return Table(
            name="reviews",
            columns=("Tool", *self.repositories, "Total"),
            rows=[
                (tool, *(self.counts.get((tool, each), 0) for each in self.repositories), self.total(tool))
                for tool in self.tools
            ],
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "crb.review-counts/1",
            "repositories": list(self.repositories),
            "tools": [
                {
                    "tool": tool,
                    "reviews": {each: self.counts.get((tool, each), 0) for each in self.repositories},
                    "total": self.total(tool),
                }
                for tool in self.tools
            ],
        }


def repository_names(pull_requests: Sequence[PullRequest]) -> dict[str, str]:
    """By pull-request key what its repository is called in the table.

    The golden-comments benchmark names a repository by its file; others are named without their owner where that is
    enough to tell them apart, else ``owner/name``.
    """
    owners: dict[str, set[str]] = {}
    for each in pull_requests:
        owners.setdefault(each.name, set()).add(each.owner)
    names = {}
    for each in pull_requests:
        file = each.source.get("file")
        if isinstance(file, str) and file.endswith(".json"):
            names[each.key] = PurePosixPath(file).stem
        else:
            names[each.key] = each.name if len(owners[each.name]) == 1 else each.nwo
    return names


def summarise_reviews(reviews: Iterable[tuple[str, str, str, int]], tools: Iterable[str]) -> Summary:
    """Count (tool, repository, pull request, round): a review that several extractions share counts once.

    ``tools`` are all of the sweep, also those without any review.
    """
    distinct = set(reviews)
    counts = Counter((tool, repository) for tool, repository, _, _ in distinct)
    return Summary(
        tools=tuple(sorted({tool for tool, *_ in distinct} | set(tools))),
        repositories=tuple(sorted({repository for _, repository, *_ in distinct})),
        counts=dict(counts),
    )
