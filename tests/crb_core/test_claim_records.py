"""Claims from correspondence records, and what is refused in them."""

from __future__ import annotations

import pytest

from crb_core.claims import resolve
from crb_core.errors import InputError
from crb_core.matching import Correspondence


def records(*pairs: tuple[int, tuple[int, ...]]) -> list[Correspondence]:
    return [Correspondence(candidate=candidate, golden=golden) for candidate, golden in pairs]


def test_candidates_claim_in_ascending_order_whatever_the_record_order():
    """Records 2, 0, 1 resolve like 0, 1, 2 (rule 4)."""
    claims = resolve(records((2, (0, 1)), (0, (0,)), (1, (0,))), golden_count=2)
    assert dict(claims.claimed) == {0: 0, 2: 1}
    assert claims.covered == {0, 1}
    assert claims.unmatched(4) == (1, 3)


def test_an_empty_record_matches_nothing():
    """A candidate with an empty list is unmatched, as one without a record is."""
    claims = resolve(records((0, ())), golden_count=1, candidate_count=2)
    assert (dict(claims.claimed), claims.covered, claims.unmatched(2)) == ({}, frozenset(), (0, 1))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (records((0, (2,))), "correspondences[0].golden[0]"),
        (records((0, (0, 1, 0))), "correspondences[0].golden[2]"),
        (records((0, (0,)), (0, (1,))), "correspondences[1].candidate"),
        (records((3, (0,))), "correspondences[0].candidate"),
    ],
)
def test_contradictions_are_located(given, field):
    """Out of range, a golden twice, a candidate twice: each names its place."""
    with pytest.raises(InputError) as caught:
        resolve(given, golden_count=2, candidate_count=3)
    assert caught.value.where is not None
    assert caught.value.where.field == field
