"""What a comparison says beside its differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crb_core.bootstrap import Bootstrap
from crb_core.store.boards import LoadedBoard
from crb_core.store.comparisons import comparison_json
from crb_core.store.results import sweep_judges
from crb_core.store.sweep_rows import RowOptions
from crb_core.store.sweeps import find_sweep
from tests.crb_core.archived import SWEEP, make_store, reviews


def test_tokens_are_of_the_rounds_that_the_scores_are_of(tmp_path: Path) -> None:
    """Beta's second round is incomplete and enters no score, so what it used enters no mean either."""
    made = [
        replace(each, usage={"total_tokens": 1000 if each.round == 2 else 10, "models": ["m"]})
        for each in (*reviews("alpha"), *reviews("beta", skip=(2, 3)))
    ]
    store = make_store(tmp_path, made)
    with store.read() as connection:
        sweep_id = find_sweep(connection, SWEEP).id
        judge = sweep_judges(connection, sweep_id)[0]
    loaded = LoadedBoard.load(store, sweep_id, judge)
    document = comparison_json(store, loaded, ["alpha", "beta"], RowOptions(), bootstrap=Bootstrap(resamples=50))
    store.close()
    assert [build["rounds_used"] for build in document["builds"]] == [[1, 2, 3], [1, 3]]
    (pair,) = document["pairs"]
    assert (pair["tokens"]["one"], pair["tokens"]["other"]) == (340, 10)
    assert document["uncertainty"]["caution"] is not None
