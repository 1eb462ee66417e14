"""General comments of reviews, taken apart into findings; line-anchored comments are findings as they are (seed C)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from crb_core.agent import ModelRole
from crb_core.finding import CandidateFinding
from crb_core.formats.golden_comments_results import EXTRACTION_ROLE
from crb_core.formats.imported import ImportedCandidate, ImportedReview

__all__ = ["Passage", "Split", "general_comments", "split_general"]


@dataclass(frozen=True, kw_only=True)
class Passage:
    """One problem that a comment reports: ``statement`` in words of its own, ``quote`` in the comment's.

    ``file`` and ``line`` where the comment names them; ``request_hash`` is the stored request that gave it.
    """

    statement: str
    quote: str
    file: str | None
    line: int | None
    request_hash: str


#: Takes a comment and a name for people; gives its problems in order.
Split = Callable[[str, str], Sequence[Passage]]


def general_comments(reviews: Sequence[ImportedReview]) -> list[tuple[int, int]]:
    """(review, candidate) positions of the comments that name no file."""
    return [
        (number, place)
        for number, review in enumerate(reviews)
        for place, candidate in enumerate(review.candidates)
        if candidate.is_comment and candidate.finding.file is None
    ]


def split_general(
    reviews: Sequence[ImportedReview], split: Split, *, extraction: str, slots: int = 1
) -> tuple[ImportedReview, ...]:
    """The reviews with each general comment replaced by its findings, in its place; ``slots`` comments at once.

    Every finding's source keeps the comment whole, its quotation and the request. ``extraction`` names who split, as a
    model role of the build: the same reviews split otherwise are another build (decision 0005).
    """
    places = general_comments(reviews)

    def one(place: tuple[int, int]) -> tuple[ImportedCandidate, ...]:
        review = reviews[place[0]]
        return _taken_apart(review, place[1], split, extraction)

    with ThreadPoolExecutor(max_workers=slots) as pool:
        futures = [pool.submit(one, place) for place in places]
        try:
            made = dict(zip(places, [future.result() for future in futures], strict=True))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    role = ModelRole(role=EXTRACTION_ROLE, model=extraction)
    return tuple(
        replace(
            review,
            candidates=tuple(
                each
                for place, candidate in enumerate(review.candidates)
                for each in made.get((number, place), (candidate,))
            ),
            model_roles=(*(each for each in review.model_roles if each.role != EXTRACTION_ROLE), role),
        )
        if any(candidate.is_comment for candidate in review.candidates)
        else review
        for number, review in enumerate(reviews)
    )


def _taken_apart(review: ImportedReview, place: int, split: Split, extraction: str) -> tuple[ImportedCandidate, ...]:
    comment = review.candidates[place]
    label = f"comment {place} by {review.agent} on {review.pull_request}"
    whole = {"body": comment.finding.message, **(comment.source or {})}
    return tuple(
        ImportedCandidate(
            finding=CandidateFinding(
                file=passage.file,
                start_line=passage.line,
                end_line=passage.line,
                message=passage.statement,
                producer=review.agent,
            ),
            source={
                "comment": whole,
                "quote": passage.quote,
                "extraction": extraction,
                "request_hash": passage.request_hash,
            },
        )
        for passage in split(comment.finding.message, label)
    )
