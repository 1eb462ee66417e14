"""What a step reads of a judgment: as it was stored, also one that was imported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import select

from crb_core.formats.imported import ImportedPair
from crb_core.matching import Correspondence
from crb_core.store.judgments import load_judged
from crb_core.store.tables import JudgmentRow, core
from tests.crb_core.archived import make_store, reviews


def test_a_probability_that_only_some_matches_have_is_none_of_the_record(tmp_path: Path) -> None:
    """A recorded judge may give one match of a candidate a probability and the other none: both matches count."""
    review = reviews()[0]
    judgment = replace(
        review.judgments[0],
        pairs=(
            ImportedPair(candidate=0, golden=0, probability=0.75),
            ImportedPair(candidate=0, golden=1),
            ImportedPair(candidate=1, golden=1, probability=0.5),
            ImportedPair(candidate=1, golden=2, probability=0.25),
        ),
        classifications=(),
    )
    store = make_store(tmp_path, [replace(review, judgments=(judgment,))])
    judgments = core(JudgmentRow)
    with store.read() as connection:
        row = connection.execute(select(judgments)).one()
        found = load_judged(connection, row.trial_id, row.judge_id)
    store.close()
    assert found.correspondences == (
        Correspondence(candidate=0, golden=(0, 1)),
        Correspondence(candidate=1, golden=(1, 2), probabilities=(0.5, 0.25)),
    )
